// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/memory.h>

#include <algorithm>
#include <bit>

namespace cohort::check {
namespace {

constexpr std::size_t kFewReaders = 8;

}  // namespace

std::size_t Memory::find(std::size_t at) const noexcept {
  const auto is_at = [&](std::size_t i) {
    return i < segments_.size() && segments_[i].begin <= at && at < segments_[i].end;
  };
  if (is_at(last_found_)) return last_found_;
  if (is_at(last_found_ + 1)) return ++last_found_;
  const auto behind = std::upper_bound(segments_.begin(), segments_.end(), at,
                                       [](std::size_t place, const Segment& s) { return place < s.begin; });
  return last_found_ = static_cast<std::size_t>(behind - segments_.begin()) - 1;
}

std::size_t Memory::cut(std::size_t at) {
  if (at >= bytes_) return segments_.size();
  const std::size_t index = find(at);
  if (segments_[index].begin == at) return index;
  Segment tail = segments_[index];
  tail.begin = at;
  segments_[index].end = at;
  segments_.insert(segments_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(tail));
  return index + 1;
}

void Memory::compare(const Segment& segment, const Access& by, bool writes, Order& order,
                     Conflicts& conflicts) {
  const auto check = [&](const Access& earlier, bool earlier_writes) {
    if (earlier.when.at == 0 || order.knows(by.when.stream, earlier.when)) return;
    conflicts.push_back({segment.begin, segment.end, earlier.task, earlier_writes, segment.value});
  };
  check(segment.writer, true);
  if (!writes) return;
  for (const Access& reader : segment.readers) check(reader, false);
}

Content Memory::read(std::size_t begin, std::size_t bytes, const Access& by, Order& order,
                     Conflicts& conflicts) {
  Content content;
  if (bytes == 0) return content;
  const std::size_t first = cut(begin);
  const std::size_t last = cut(begin + bytes);
  for (std::size_t i = first; i < last; ++i) {
    Segment& segment = segments_[i];
    compare(segment, by, false, order, conflicts);
    Value value = segment.value;
    value.shift += static_cast<std::int64_t>(segment.begin);
    content.push_back({segment.end - segment.begin, value});
    // A write that comes after this read comes after every read that this one comes after. Where many read at
    // once, most of them do not, and looking through them each time would cost the square of their number.
    const std::size_t readers = segment.readers.size();
    if (readers < kFewReaders || std::has_single_bit(readers))
      std::erase_if(segment.readers, [&](const Access& r) { return order.knows(by.when.stream, r.when); });
    segment.readers.push_back(by);
  }
  return content;
}

void Memory::write(std::size_t begin, const Content& content, const Access& by, Order& order,
                   Conflicts& conflicts) {
  std::size_t bytes = 0;
  for (const Piece& piece : content) bytes += piece.bytes;
  if (bytes == 0) return;
  const std::size_t first = cut(begin);
  const std::size_t last = cut(begin + bytes);
  for (std::size_t i = first; i < last; ++i) compare(segments_[i], by, true, order, conflicts);
  machine::CaseVector<Segment> fresh;
  std::size_t at = begin;
  for (const Piece& piece : content) {
    if (piece.bytes == 0) continue;
    Value value = piece.value;
    value.shift -= static_cast<std::int64_t>(at);
    if (!fresh.empty() && fresh.back().value == value)
      fresh.back().end = at + piece.bytes;
    else
      fresh.push_back({at, at + piece.bytes, value, by, {}});
    at += piece.bytes;
  }
  replace(first, last, std::move(fresh));
}

/// Moves what lies behind only if their number changes: pieces of a long message replace one for one.
void Memory::replace(std::size_t first, std::size_t last, machine::CaseVector<Segment> fresh) {
  const std::size_t in_place = std::min(last - first, fresh.size());
  const auto from = fresh.begin() + static_cast<std::ptrdiff_t>(in_place);
  const auto place = segments_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto behind = std::move(fresh.begin(), from, place);
  if (in_place < fresh.size())
    segments_.insert(behind, std::make_move_iterator(from), std::make_move_iterator(fresh.end()));
  else
    segments_.erase(behind, segments_.begin() + static_cast<std::ptrdiff_t>(last));
}

void Memory::touch(std::size_t begin, std::size_t bytes, const Access& by, Order& order,
                   Conflicts& conflicts) {
  if (bytes == 0) return;
  const std::size_t first = cut(begin);
  const std::size_t last = cut(begin + bytes);
  for (std::size_t i = first; i < last; ++i) {
    compare(segments_[i], by, true, order, conflicts);
    segments_[i].readers.assign(1, by);
  }
}

Content Memory::peek(std::size_t begin, std::size_t bytes) const {
  Content content;
  const std::size_t all = std::min(begin + bytes, bytes_);  // a fault may reach beyond
  std::size_t index = begin < all ? find(begin) : 0;
  for (std::size_t at = begin; at < all;) {
    const Segment& segment = segments_[index++];
    const std::size_t end = std::min(segment.end, all);
    Value value = segment.value;
    value.shift += static_cast<std::int64_t>(at);
    content.push_back({end - at, value});
    at = end;
  }
  return content;
}

const Access& Memory::writer_at(std::size_t at) const { return segments_[find(at)].writer; }

}  // namespace cohort::check
