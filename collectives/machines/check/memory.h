// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/machines/check/expression.h>
#include <cohort/collectives/machines/check/order.h>
#include <cohort/collectives/machines/stage/case_memory.h>

#include <vector>

namespace cohort::check {

/// The number of a recorded task.
using TaskId = std::uint32_t;

/// Who touched an interval, and when.
struct Access {
  Moment when;
  TaskId task = 0;
};

/// So many bytes that hold one value, its shift counted from their first byte. Lists of pieces are what
/// copies and messages carry.
struct Piece {
  std::size_t bytes = 0;
  Value value;
};
using Content = machine::CaseVector<Piece>;

/// An access that nothing orders against an earlier one.
struct Conflict {
  std::size_t begin = 0;  ///< the bytes that both touch
  std::size_t end = 0;
  TaskId earlier = 0;
  bool earlier_writes = false;
  Value held;  ///< before the later access
};
using Conflicts = std::vector<Conflict>;

/// One allocation of one rank as intervals: what each holds, who wrote it, and who read it since. Costs
/// depend on the number of intervals, never on their lengths.
class Memory {
 public:
  /// All of it holds this.
  Memory(std::size_t bytes, Value value) : bytes_(bytes) { segments_.push_back({0, bytes, value, {}, {}}); }

  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

  /// Reads an interval at what `by` does now; appends to `conflicts` writes that are not ordered before.
  Content read(std::size_t begin, std::size_t bytes, const Access& by, Order& order, Conflicts& conflicts);
  /// Writes `content` from `begin` on; the same for reads and writes.
  void write(std::size_t begin, const Content& content, const Access& by, Order& order, Conflicts& conflicts);
  /// As a write that leaves everything as it is.
  void touch(std::size_t begin, std::size_t bytes, const Access& by, Order& order, Conflicts& conflicts);

  /// What an interval holds, without an access.
  [[nodiscard]] Content peek(std::size_t begin, std::size_t bytes) const;
  /// Calls visit(begin, end, writer) for what was written and nobody has read since.
  template <class Visit>
  void visit_unread(std::size_t begin, std::size_t bytes, Visit visit) const {
    for (std::size_t i = bytes == 0 ? segments_.size() : find(begin);
         i < segments_.size() && segments_[i].begin < begin + bytes; ++i)
      if (segments_[i].readers.empty()) visit(segments_[i].begin, segments_[i].end, segments_[i].writer);
  }
  /// Who wrote a byte last.
  [[nodiscard]] const Access& writer_at(std::size_t at) const;

 private:
  struct Segment {
    std::size_t begin;
    std::size_t end;
    Value value;  ///< its shift counted from the first byte of the allocation
    Access writer;
    machine::CaseVector<Access> readers;
  };

  /// The index of the segment that begins there, after cutting one if need be.
  std::size_t cut(std::size_t at);
  [[nodiscard]] std::size_t find(std::size_t at) const noexcept;
  /// Puts these where the segments [first, last) are.
  void replace(std::size_t first, std::size_t last, machine::CaseVector<Segment> fresh);
  static void compare(const Segment& segment, const Access& by, bool writes, Order& order,
                      Conflicts& conflicts);

  std::size_t bytes_;
  machine::CaseVector<Segment> segments_;
  mutable std::size_t last_found_ = 0;  ///< most look again where they have looked
};

/// What both lists say of the same bytes: visit(bytes, left value, right value). As far as the shorter one.
template <class Visit>
void visit_together(const Content& left, const Content& right, Visit visit) {
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t done_left = 0;
  std::size_t done_right = 0;
  while (i < left.size() && j < right.size()) {
    const std::size_t bytes = std::min(left[i].bytes - done_left, right[j].bytes - done_right);
    Value a = left[i].value;
    Value b = right[j].value;
    a.shift += static_cast<std::int64_t>(done_left);
    b.shift += static_cast<std::int64_t>(done_right);
    if (bytes != 0) visit(bytes, a, b);
    done_left += bytes;
    done_right += bytes;
    if (done_left == left[i].bytes) ++i, done_left = 0;
    if (done_right == right[j].bytes) ++j, done_right = 0;
  }
}

}  // namespace cohort::check
