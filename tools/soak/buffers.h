// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/communicator.h>
#include <cohort/tools/soak/job.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::soak {

/// The buffers of one call on one rank: filled with what its result can be computed from, and watched.
///
/// Around them lie bytes that nobody may touch, and once the call is over nobody may touch them either.
class Buffers {
 public:
  /// `index` makes the contents of calls differ. Allocated buffers end with close().
  Buffers(const CallPlan& plan, Rank rank, Rank ranks, std::size_t index);

  /// Moves into memory of the communicator.
  void allocate(Communicator& comm);
  /// Asks for the call; the buffers belong to it until it is over.
  [[nodiscard]] Collective call(Communicator& comm);

  /// The call has completed: what is wrong with its result; empty if nothing is.
  [[nodiscard]] std::string find_wrong_result() const;
  /// The call is over, and the caller puts them to another use: who reads them still gets nothing right.
  void overwrite();
  /// The call is over, one way or the other: from here on nobody may touch them.
  void freeze();
  /// What has changed since freeze(), or lies where it must not: empty if nothing.
  [[nodiscard]] std::string find_touched() const;
  /// Does what find_touched() is there to find.
  void touch();
  /// Lets go of memory of the communicator.
  void close();

 private:
  [[nodiscard]] double input(Rank of, std::size_t at) const noexcept;
  [[nodiscard]] double combined(const ResultPart& part, std::size_t at) const noexcept;
  [[nodiscard]] bool is_in_place() const noexcept;
  [[nodiscard]] std::size_t output_at() const noexcept;
  [[nodiscard]] std::span<std::byte> input_bytes() const noexcept;
  [[nodiscard]] std::span<std::byte> output_bytes() const noexcept;
  void fill();

  CallPlan plan_;
  Rank rank_;
  Rank ranks_;
  std::size_t index_;
  std::size_t input_count_ = 0;
  std::size_t output_count_ = 0;
  std::vector<std::byte> own_;
  SharedBuffer<std::int64_t> shared_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::byte> frozen_;
};

/// By this algorithm, if it has such a schedule here, which is so on all ranks or on none; else, and if it
/// has no name, by what is selected.
[[nodiscard]] Collective call_by(Communicator& comm, Buffers& own, std::string_view algorithm);

}  // namespace cohort::soak
