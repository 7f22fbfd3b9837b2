// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/job/resources.h>
#include <cohort/collectives/memory/copy_workers.h>
#include <cohort/collectives/memory/stores_trial.h>
#include <cohort/collectives/onehost/step_list.h>
#include <cohort/collectives/schedules/any_algorithm.h>
#include <cohort/collectives/schedules/exec.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cohort {

/// The machine that moves real bytes: this rank's memory, its links, and peers' memory where it is mapped.
///
/// Large steps are done in parts of some ten microseconds, and after each something else on the engine that
/// waits may have a turn.
class MemoryExec final : public Exec {
 public:
  MemoryExec(Engine& engine, const Membership& membership, LinkOwner& host, Resources& resources);

  /// Before each collective: how its user windows are reached, the same everywhere, how much data it touches,
  /// and of which kind it is, which matters where that is much.
  void begin(UserWindows user_windows, std::size_t footprint_bytes, std::size_t kind = 0) noexcept;
  /// After each that has not failed, if it may have touched much.
  void end() noexcept;

  /// Finds the steps of a part of a local schedule, without touching any data.
  template <std::invocable Part>
  void record(StepList& steps, Part part) {
    struct Recording {
      StepList*& to;
      ~Recording() { to = nullptr; }
    };
    steps.clear();
    recorded_ = &steps;
    const Recording until_here{recorded_};
    part();
  }
  /// How much of recorded steps is done.
  struct Position {
    std::size_t step = 0;
    std::size_t bytes = 0;  ///< of that one
  };
  /// Goes on with them in parts of `part_bytes`, as far as what they read in peers' slots has come, and until
  /// others on the engine should have their turn: has_come(rank, bytes) says whether so many bytes have, from
  /// the beginning of the slot. True: all is done. `has_waited`: for this turn; the first part takes it back.
  template <class HasCome>
  [[nodiscard]] bool run_as_it_comes(const StepList& steps, Position& done, std::size_t part_bytes,
                                     const HasCome& has_come, bool& has_waited) {
    for (; done.step < steps.steps().size(); ++done.step, done.bytes = 0) {
      const StepList::Step& step = steps.steps()[done.step];
      while (done.bytes < step.addressed.bytes) {
        const std::size_t bytes = std::min(part_bytes, step.addressed.bytes - done.bytes);
        if (!may_run(step.addressed, bytes, has_waited)) return false;
        for (const PlacedSlice& input : step.inputs)
          if (is_peers_slot(input) && !has_come(input.rank, input.slice.offset + done.bytes + bytes))
            return false;
        step.addressed.part(done.bytes, bytes, lists_).run();
        done.bytes += bytes;
      }
    }
    return true;
  }

  /// The data of a call is about to be staged. Once for each, on all ranks.
  void count_staged_call() noexcept { ++own_plan().staged_calls; }
  /// Of so many ranks. Where no core is idle, messages pass from now on through a part of each CCL buffer
  /// that stays in caches; threads that help want larger pieces. The same on all ranks.
  void set_cores(CoreSupply cores, std::size_t ranks_of_host) noexcept;

  /// Threads that help with large steps.
  [[nodiscard]] CopyWorkers& workers() noexcept { return workers_; }

  /// Runs the first part of a local schedule, whose steps are plain calls: they are recorded, and then done
  /// in turns with others on the engine. Both arguments outlive the task.
  Task<> combine_in_turns(const AnyAlgorithm& algorithm, const OperatorArguments& arguments);

  [[nodiscard]] const Hosts& hosts() const noexcept override { return resources_.transports().hosts(); }
  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return resources_.link(peer, lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return resources_.buffer_bytes(); }
  [[nodiscard]] Task<> pull(Rank peer, Slice to, Slice from) override;
  [[nodiscard]] Task<> push(Rank peer, Slice to, Slice from) override;
  [[nodiscard]] Reducer reducer(const Combine& combine) const noexcept override;
  [[nodiscard]] Task<> phase() override;
  void perform(const LocalStep& step) override;
  [[nodiscard]] bool perform_awhile(LocalStep& step) override;
  [[nodiscard]] Task<> perform_rest(LocalStep& step) override;

 private:
  /// Which way the kernel copies.
  enum class ByKernel : std::uint8_t { pull, push };
  /// Between as many bytes of this rank's memory and of a peer's process.
  Task<> copy_by_kernel(ByKernel way, Rank peer, Slice here, Slice there);
  [[nodiscard]] std::optional<int> copy_part_by_kernel(ByKernel way, Rank peer, std::byte* here,
                                                       std::uintptr_t there, std::size_t bytes);
  [[nodiscard]] Error failure_of_kernel(ByKernel way, Rank peer, int error_number, std::byte* here,
                                        std::size_t bytes) const;

  [[nodiscard]] std::byte* address(const PlacedSlice& place) const noexcept;
  /// Of byte `at` of all of these.
  template <class Address>
  [[nodiscard]] std::span<const Address> addresses(std::span<const PlacedSlice> places, std::size_t at,
                                                   std::vector<Address>& kept) const;
  [[nodiscard]] Stores stores_of(const LocalStep& step) const noexcept;
  /// Whether so many bytes of each of its slices may be done in this turn.
  [[nodiscard]] bool may_run(const AddressedStep& step, std::size_t bytes, bool& has_waited) noexcept {
    const std::size_t traffic = bytes * (step.inputs.size() + step.outputs.size()) / 2;
    return engine_.pace().may_do(traffic, std::exchange(has_waited, false));
  }
  [[nodiscard]] bool is_peers_slot(const PlacedSlice& place) const noexcept {
    return place.slice.window == WindowId::slot && place.rank != rank();
  }
  /// `bytes` from `at` on of each of a step's slices. On any thread, with lists of its own.
  [[nodiscard]] AddressedStep part_of(const LocalStep& step, std::size_t at, std::size_t bytes,
                                      AddressedStep::Lists& lists) const;
  [[nodiscard]] bool perform_parts_awhile(LocalStep& step, bool has_waited);
  [[nodiscard]] bool may_go_on() const noexcept;
  /// A peer has withdrawn its memory, and says why: ends by the cancellation that this brings.
  Task<> until_cause();
  /// With what threads can help.
  Task<> share(const LocalStep& step);

  Engine& engine_;
  const Membership& membership_;
  LinkOwner& host_;
  const RunningOperation& running_;
  Resources& resources_;
  const std::span<const WindowTable> windows_of_host_;  ///< by rank; empty where nobody's memory is mapped
  StoresTrial stores_trial_;
  Stores stores_ = Stores::cached;  ///< of results

  AddressedStep::Lists lists_;    ///< of the part of a step that runs
  StepList in_turns_;             ///< of combine_in_turns(), kept
  StepList* recorded_ = nullptr;  ///< where the steps of a local schedule go; null: they are run
  CopyWorkers workers_;
};

}  // namespace cohort
