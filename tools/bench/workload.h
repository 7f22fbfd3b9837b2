// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/bench/pattern.h>
#include <cohort/tools/bench/start_line.h>

#include <memory>
#include <optional>
#include <span>

namespace cohort::bench {

/// One exercise of one size.
struct Point {
  Exercise exercise = Operator();
  std::size_t bytes = 0;  ///< as asked for
};

/// Memory of one rank that no timed operation meets for the first time: page-aligned, touched once, used
/// again.
class Buffer : Immovable {
 public:
  /// Where peers can map it, or private.
  Buffer(Communicator& comm, std::size_t bytes, bool is_shared);

  [[nodiscard]] std::span<std::byte> first(std::size_t bytes) const noexcept { return {data_, bytes}; }

 private:
  struct Release {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Release> own_;
  SharedBuffer<double> shared_;
  std::byte* data_ = nullptr;
};

/// The operation to measure, on one rank: its buffers, what goes into them and what must come out.
class Workload : Immovable {
 public:
  /// Buffers for the largest of the points that the options ask for.
  Workload(Communicator& comm, const Options& options, Board& board);

  void select(const Point& point);
  [[nodiscard]] const Point& point() const noexcept { return point_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  /// Empty where no algorithm is selected.
  [[nodiscard]] std::string_view algorithm() const {
    return point_.exercise.is_messages() ? std::string_view() : make().algorithm();
  }
  /// Whether the operation leaves its input as it was.
  [[nodiscard]] bool keeps_input() const noexcept;

  /// Destroys every result of before.
  void poison() const;
  /// What this rank contributes in iteration `sequence`.
  void write_input(std::uint64_t sequence);
  /// Before an operation that is verified. The last rank of a barrier is late: nobody may leave before.
  Task<> enter();
  /// The operation, where it is a collective; await it in place.
  [[nodiscard]] Collective make() const;
  /// The exercise, whatever it is. Of a collective it is a frame more than make(). Messages go there, and
  /// back when they have arrived; ranks beyond the two have nothing to do.
  Task<> run() const;
  /// Elements of this rank's result that are not what the last inputs make, or ranks that had not entered the
  /// barrier.
  [[nodiscard]] std::size_t count_wrong() const;

 private:
  [[nodiscard]] std::size_t largest(bool of_output) const;
  [[nodiscard]] bool is_in_place(Exercise exercise) const noexcept {
    return (options_.is_in_place && exercise->has_in_place) || exercise->has_one_buffer;
  }
  [[nodiscard]] Form form() const noexcept {
    return {.count = shape_.count, .ranks = options_.ranks, .root = options_.root};
  }
  /// Of the first so many ranks.
  [[nodiscard]] const Pattern& combined(Rank ranks) const;
  [[nodiscard]] std::size_t count_not_entered() const;

  Communicator& comm_;
  const Options& options_;
  Board& board_;
  const std::size_t element_bytes_;
  const TestData data_;
  mutable std::optional<TestData> data_of_some_;  ///< made when first asked for
  mutable Rank combined_of_some_ranks_ = 0;
  Buffer in_buffer_;
  Buffer out_buffer_;

  Point point_;
  Shape shape_;
  std::span<std::byte> in_;
  std::span<std::byte> out_;
  std::uint64_t sequence_ = 0;
  std::uint64_t entered_ = 0;
};

}  // namespace cohort::bench
