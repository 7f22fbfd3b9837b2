// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/line_buffer.h>

namespace cohort {

std::string_view LineBuffer::feed(std::string_view bytes) {
  ready_.clear();
  while (!bytes.empty()) {
    const std::size_t room = kLongestLine - unfinished_.size();
    const std::size_t newline = bytes.substr(0, room + 1).find('\n');
    if (newline != std::string_view::npos) {
      end_line(bytes.substr(0, newline));
      bytes.remove_prefix(newline + 1);
    } else if (bytes.size() > room) {
      end_line(bytes.substr(0, room));
      bytes.remove_prefix(room);
    } else {
      unfinished_.append(bytes);
      break;
    }
  }
  return ready_;
}

std::string_view LineBuffer::finish() {
  ready_.clear();
  if (!unfinished_.empty()) end_line({});
  return ready_;
}

void LineBuffer::end_line(std::string_view last_piece) {
  ready_.append(prefix_).append(unfinished_).append(last_piece).push_back('\n');
  unfinished_.clear();
}

}  // namespace cohort
