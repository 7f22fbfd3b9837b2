// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/call.h>
#include <cohort/engine/engine.h>
#include <cohort/net/membership.h>

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// Above it nothing is measured: what a rank sees then is mostly how long the others had its core.
inline constexpr double kMostRanksPerCoreToMeasure = 8;

/// How ranks measure together as their communicator is made: by calls of all of them, outside of the numbers
/// of the user's, and by agreeing on what these took. All ranks do the same, in the same order.
class JointMeasurement {
 public:
  /// Runs a call of all ranks.
  using RunCall = std::function<Task<>(const Call& call)>;
  /// By which algorithm they agree: one that serves however they reach each other.
  using Choose = std::function<const AnyAlgorithm*(const Call& call)>;

  JointMeasurement(Engine& engine, const Membership& membership, RunCall run, Choose choose)
      : engine_(engine), membership_(membership), run_(std::move(run)), choose_(std::move(choose)) {}

  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }

  [[nodiscard]] Task<> run(const Call& call) const { return run_(call); }
  /// Waits until all have come here.
  [[nodiscard]] Task<> meet() const;
  /// From now on there is so much time. Before, and where one rank has no more, nothing is measured: what is
  /// left out has a default in its place, on all ranks.
  void allow(Duration budget) noexcept {
    until_ = after(engine_.now(), budget);
    is_time_over_ = budget <= Duration::zero();
  }
  /// Whether all ranks have time left. All wait until all have come here.
  Task<bool> has_time();
  /// Each rank's time of a call, in us: the best of several batches, since others are disturbed by whatever
  /// else runs.
  Task<double> time(const Call& call);
  /// The median of them, of a call that is made in two ways, by turns, so that what disturbs one disturbs the
  /// other: `way` makes it, and whatever makes it go the first or the second way.
  ///
  /// Before each call it gets a new input from `rewrite`, as from a program that computes: memory that nobody
  /// has written since is in its reader's cache. Then all ranks meet. Neither is timed, but that some go on a
  /// little before others is, in both ways.
  ///
  /// Without `rewrite` calls follow each other, as where ranks share cores: after meeting they would time how
  /// ranks come to have one.
  using Way = std::function<Call(std::size_t which)>;
  using Rewrite = std::function<void()>;
  /// Nothing, on all ranks, where the time of one was over meanwhile.
  Task<std::optional<std::array<double, 2>>> time_both(Way way, Rewrite rewrite,
                                                       int calls_per_batch = kCallsPerBatch);
  /// The same of one call, which is enough where it takes long.
  Task<double> time_once(const Call& call) const;
  /// values[i] = the largest of all ranks.
  Task<> agree_on_slowest(std::span<double> values) const;
  /// Calls follow each other without a pause.
  static constexpr int kCallsPerBatch = 4;

  /// What all ranks know already. The numbers may differ, as their users' files may: of each the largest
  /// counts, as of what is measured.
  template <class Figures>
  Task<std::optional<Figures>> known_to_all(std::optional<Figures> own) const {
    double lacks = own ? 0 : 1;
    co_await agree_on_slowest(std::span(&lacks, 1));
    if (lacks != 0) co_return std::nullopt;
    co_await agree_on_slowest(*own);
    co_return own;
  }
  /// A call on these buffers by the algorithm by which ranks agree; what is combined is the largest.
  [[nodiscard]] Call agreed_call(Operator op, DataType type, std::span<const std::byte> in,
                                 std::span<std::byte> out) const;

  /// The largest of this rank's calls since it was set to 1, or of any rank's where they have agreed on it;
  /// see spread_of().
  double spread = 1;

 private:
  /// How long one of its calls takes.
  Task<Duration> run_batch(const Call& call, int calls) const;
  /// Nothing where the time was over.
  Task<std::optional<Duration>> run_batch_while_there_is_time(const Call& call, const Rewrite& rewrite,
                                                              int calls);
  // In us. Widen the spread.
  [[nodiscard]] double best_of(const std::vector<Duration>& batches) noexcept;
  [[nodiscard]] double median_of(std::vector<Duration> batches) noexcept;

  Engine& engine_;
  const Membership& membership_;
  const RunCall run_;
  const Choose choose_;
  TimePoint until_{};
  bool is_time_over_ = true;  ///< on some rank, as all know
};

}  // namespace cohort
