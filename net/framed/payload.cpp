// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/payload.h>

#include <algorithm>
#include <cstring>

namespace cohort::framed {

void Payload::take(Staging& staging) noexcept {
  if (reducer_ != nullptr) {
    fold(staging);
    return;
  }
  const std::size_t bytes = std::min(left_, staging.size());
  if (bytes == 0) return;
  std::memcpy(to_, staging.data(), bytes);
  staging.drop(bytes);
  moved(bytes);
}

/// Whole elements; the rest of one waits for what comes next.
void Payload::fold(Staging& staging) noexcept {
  const std::size_t available = std::min(left_, staging.size());
  const std::size_t bytes = available - available % reducer_->element_bytes;
  if (bytes == 0) return;
  staging.align();  // behind a frame of odd size
  reducer_->fold(*reducer_, to_, staging.data(), bytes);
  staging.drop(bytes);
  moved(bytes);
}

int Payload::receive(ByteStream& stream, Staging& staging) noexcept {
  const bool is_staged = reducer_ != nullptr;
  const std::span<std::byte> into = is_staged ? staging.room(left_ - staging.size())
                                              : std::span(to_, std::min(left_, stream.piece_bytes()));
  const int result = stream.try_receive_some(into);
  if (result <= 0) return result;
  const auto bytes = static_cast<std::size_t>(result);
  if (is_staged) {
    staging.append(bytes);
    fold(staging);
  } else {
    moved(bytes);
  }
  return result;
}

}  // namespace cohort::framed
