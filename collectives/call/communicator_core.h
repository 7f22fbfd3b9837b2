// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/call/health.h>
#include <cohort/collectives/call/resources.h>
#include <cohort/collectives/communicator_options.h>
#include <cohort/collectives/memory/memory_exec.h>
#include <cohort/collectives/memory/shared_heap.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/collectives/selection/selection.h>

namespace cohort {

/// A communicator's inside: runs one collective after the other, in the order of the calls.
///
/// From call to result: sign and number the call, select the algorithm, provide its resources (phases 1 to
/// 3), then run the schedule. Threads: the engine's.
class CommunicatorCore final : public LinkHost, Immovable {
 public:
  CommunicatorCore(Engine& engine, Membership membership, const CommunicatorOptions& options);
  ~CommunicatorCore();

  /// Exchanges shared memory and configuration with all ranks; then collectives may run.
  Task<> establish();
  /// Says goodbye and ends what runs beside. Idempotent. No collective may be running.
  Task<> close();
  /// Why establish() was not through in time: names the first rank that did not answer, if there is one.
  [[nodiscard]] Error silence() const;
  /// Gives the communicator up, and tells all ranks why.
  void give_up(const Error& cause) noexcept { health_.fail(cause); }
  /// Gives the communicator up for a reason of this rank's own.
  void abort(const std::string& reason) noexcept;

  [[nodiscard]] Engine& engine() const noexcept { return engine_; }
  [[nodiscard]] const Membership& membership() const noexcept { return membership_; }
  [[nodiscard]] const std::string& transport() const noexcept { return resources_.transports().name(); }
  [[nodiscard]] const Health& health() const noexcept { return health_; }
  [[nodiscard]] SharedHeap& heap() noexcept { return heap_; }
  [[nodiscard]] std::uint64_t sequence() const noexcept { return running_.sequence; }
  [[nodiscard]] AlgorithmId select(const Call& call) const {
    return select_algorithm(call, reach_, forced_algorithm_);
  }
  [[nodiscard]] Explanation explain(const Call& call) const {
    return explain_choice(call, reach_, forced_algorithm_);
  }
  [[nodiscard]] const Reach& reach() const noexcept { return reach_; }

  /// The path of small messages: completes the call without suspending if it can. Otherwise run() does;
  /// `has_begun` tells it that the call has its number already and waits for peers.
  [[nodiscard]] bool try_complete_now(const Call& call, bool& has_begun) noexcept;
  /// Runs the call, in its turn.
  [[nodiscard]] Task<> run(Call call, bool has_begun);

  // LinkHost:
  [[nodiscard]] const RunningOperation& running() const noexcept override { return running_; }
  void link_failed(Rank peer, const Error& error) noexcept override {
    health_.report_link_fault(peer, error);
  }
  void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept override {
    health_.report_mismatch(peer, sequence, theirs);
  }

 private:
  /// Waits for the calls before this one.
  class Turn;
  /// Watches the running collective: reports a stall, and ends it at its deadline, naming whom it waits for.
  class Watchdog final : public Timer {
   public:
    explicit Watchdog(CommunicatorCore& core) noexcept : core_(core) {}
    void begin(Duration timeout);
    void end() noexcept;
    [[nodiscard]] Duration elapsed() const noexcept { return core_.engine_.now() - started_; }

   private:
    void expire() noexcept override;
    CommunicatorCore& core_;
    TimePoint started_{};
    TimePoint deadline_{};
    bool has_reported_ = false;
  };

  // One collective (communicator_core.cpp):
  void begin(const Call& call) noexcept;
  void end() noexcept;
  Task<> run_watched(Call call);
  Task<> run_schedule(Call call);
  [[nodiscard]] Task<> orchestrate_call(const Call& call);
  template <class Op>
  Task<> orchestrate(const Call& call, Op op);
  void run_alone(const Call& call) noexcept;
  [[nodiscard]] bool complete_here(const Call& call) noexcept;
  [[nodiscard]] Error settle_failure(const std::exception_ptr& failure) noexcept;
  [[nodiscard]] Error deadline_exceeded() const;
  [[nodiscard]] double ranks_per_core() const;

  // Meeting in shared memory (arrival.cpp):
  /// Whether there are other ranks on this host whose memory is mapped: links to them rely on having met.
  [[nodiscard]] bool meets() const noexcept {
    return resources_.group() != nullptr && resources_.group()->members().size() > 1;
  }
  [[nodiscard]] bool uses_slots(const Call& call) const noexcept {
    return fits_arrival_slots(call, call.algorithm, reach_.is_host_wide);
  }
  void announce(const Call& call) noexcept;
  [[nodiscard]] bool agrees(Rank peer) const noexcept;
  Task<> meet();
  [[nodiscard]] bool bind_windows_of(Rank peer, const Call& call) noexcept;
  [[nodiscard]] UserWindows bind_peer_windows(const Call& call) noexcept;
  [[nodiscard]] bool pulls(const Call& call) const noexcept;
  void combine_slots(const Call& call) noexcept;
  void reduce_slots(const Call& call, std::size_t at, std::size_t count) noexcept;
  void reduce_inputs(const Call& call, std::size_t count, std::byte* to) noexcept;

  // Small vectors that peers map (by_reference.cpp):
  static constexpr std::uint32_t kByReference = 4;  ///< in ArrivalSlot::reachable, beside arrival.cpp's
  /// Whether this rank announces its vector by reference. Each decides for itself; arrivals tell the others.
  [[nodiscard]] bool refers(const Call& call) const noexcept;
  [[nodiscard]] bool has_referred(Rank rank) const noexcept;
  [[nodiscard]] Rank count_referring() const noexcept;
  /// Everybody has arrived: combines, and comes to the phase that ends it if anybody refers. False if a peer
  /// has failed or its words make no sense; then nothing was touched.
  [[nodiscard]] bool combine_arrived(const Call& call) noexcept;
  [[nodiscard]] bool combine_shares(const Call& call) noexcept;
  [[nodiscard]] bool combine_mixed(const Call& call) noexcept;
  /// After the phase.
  void finish_combined(const Call& call) noexcept;

  // Measuring when the communicator is made (calibrate.cpp), where slots stop paying (slot_crossover.cpp) and
  // where pulling begins to (pull_crossover.cpp):
  Task<> calibrate();
  Task<> agree_on_slowest(std::span<double> values);
  Task<> measure_pull();
  Task<bool> probe_pull(std::span<const std::byte> own);
  Task<> measure_slots();
  Task<double> time_calls(const Call& call);
  Task<> run_unnumbered(const Call& call);

  Engine& engine_;
  Membership membership_;
  const Duration timeout_;
  const std::optional<AlgorithmId> forced_algorithm_;
  const bool is_isolated_;
  const std::optional<unsigned> copy_threads_;

  RunningOperation running_;
  TaskScope services_;
  ControlPlane control_;
  Health health_;
  Resources resources_;
  SharedHeap heap_;
  MemoryExec exec_;
  Reach reach_;
  std::size_t pull_from_bytes_ = 0;  ///< what the options say
  bool is_one_process_ = false;

  /// How far the running call came before its coroutine was started.
  enum class Progress : std::uint8_t { begun, combined };
  Progress progress_ = Progress::begun;
  bool is_busy_ = false;
  bool is_closed_ = false;
  unsigned completed_in_a_row_ = 0;
  IntrusiveList<Turn> turns_;
  CancelScope* operation_scope_ = nullptr;
  Watchdog watchdog_{*this};
  std::vector<const std::byte*> slot_inputs_;
};

}  // namespace cohort
