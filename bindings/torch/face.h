// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/interrupt.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// What the torch backend asks of cohort, without what either side is made of: torch brings another fmt and
/// another pybind11, which what includes cohort may not see.
namespace cohort::torch_face {

struct Memory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// A collective, by the names that cohort gives to operators, types and reductions. Memory outlives it.
struct Collective {
  std::string op;
  std::string type = "float32";
  std::string reduce = "sum";
  double factor = 1;  ///< of scaled_sum
  std::uint32_t root = 0;
  Memory in{};
  Memory out{};
  /// In place of in and out: several in one call, of all_reduce, all_gather and reduce_scatter. Each in
  /// place, or from that of `inputs` in the same place.
  std::vector<Memory> tensors{};
  std::vector<Memory> inputs{};
  /// In place of out, where Ranks::takes_blocks_apart(): the block of each rank, as large as `in`.
  std::vector<void*> blocks{};
  std::vector<std::size_t> counts{};
  std::vector<std::size_t> recv_counts{};
  double timeout_s = 0;  ///< 0: the group's
};

struct Message {
  bool is_send = false;
  bool is_from_anybody = false;
  std::uint32_t peer = 0;
  std::int32_t tag = 0;
  Memory data{};
  double timeout_s = 0;
};

/// How a call ended.
struct Outcome {
  std::string failure;     ///< empty: well
  bool is_late = false;    ///< because a deadline has passed
  std::uint32_t from = 0;  ///< of a message
};

/// A call that was started. Threads: any.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool is_over() = 0;
  /// Drives, if nobody else does. Not above zero: without end. `interrupt` may be null. Whether it is over.
  virtual bool wait(double timeout_s, bindings::Interrupt* interrupt) = 0;
};

/// How buckets of gradients are averaged, by the names of graph/.
struct BucketOptions {
  std::string form = "flat";  ///< "shares" and "leader": host by host
  std::string compression{};  ///< for buckets that ask for it; empty: none can
  bool has_error_feedback = true;
  double top_ratio = 0;
  double momentum = 0;
  unsigned rank = 0;
};

/// A bucket of gradients, averaged in place. Memory outlives it.
struct BucketCall {
  std::string name;  ///< what its residual is kept by
  std::string type;
  Memory data{};
  bool compresses = false;  ///< float32 only
  double timeout_s = 0;     ///< 0: the communicator's
};

/// Whether it pays to compress a bucket, and why.
struct BucketDecision {
  bool pays = false;
  std::string text;
};

/// Averages buckets of all ranks, one after another in the order in which they were started, over groups of
/// its own: other calls of the ranks may come between. Threads: any; state() and restore() while none is
/// under way.
class Buckets {
 public:
  using State = std::map<std::string, std::vector<float>>;
  virtual ~Buckets() = default;
  /// As Ranks::start.
  virtual std::shared_ptr<Pending> start(BucketCall call, std::function<void(const Outcome&)> over) = 0;
  /// What a rank computes to compress an element, the slowest one's, in microseconds. A collective.
  virtual double measure_work(bindings::Interrupt* interrupt) = 0;
  virtual BucketDecision decide(double idle_us, double byte_us, std::size_t elements,
                                double work_us_per_element) = 0;
  /// Residuals and what else compression keeps from step to step, by bucket.
  virtual State state() = 0;
  virtual void restore(State state) = 0;
};

/// A communicator of one process group. Threads: any.
class Ranks {
 public:
  virtual ~Ranks() = default;
  /// `over` is told how it ended: by whoever drives, maybe before this returns; short. Throws
  /// std::invalid_argument for what is wrong on this rank alone.
  virtual std::shared_ptr<Pending> start(Collective call, std::function<void(const Outcome&)> over) = 0;
  virtual std::shared_ptr<Pending> start(Message call, std::function<void(const Outcome&)> over) = 0;
  /// Makes it and waits for it. `interrupt` may be null.
  virtual Outcome call(Collective call, bindings::Interrupt* interrupt) = 0;
  /// Whether an all_gather of so many bytes from each writes them wherever they go; the same from call to
  /// call.
  virtual bool takes_blocks_apart(std::size_t block_bytes) noexcept = 0;
  /// Memory that peers of this host map. Null where there is no room for it, or the communicator is closed.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) noexcept = 0;
  /// Calls of all ranks fail with this reason, those under way, too.
  virtual void abort(const std::string& reason) = 0;
  /// Lets go of it: no call can be made any more; it is left when those under way are over, and no memory of
  /// it is in use.
  virtual void leave() noexcept = 0;
  /// Why it has failed, if it has.
  virtual Outcome state() = 0;
  virtual const std::string& name() const noexcept = 0;
  /// Those of its ranks, over the connections and memory that there are: made by them alone, each with the
  /// same ranks and name, as often. `interrupt` may be null.
  virtual std::shared_ptr<Ranks> group(const std::vector<std::uint32_t>& ranks, const std::string& name,
                                       bindings::Interrupt* interrupt) = 0;
  /// All of them make it. Throws std::invalid_argument for options that make no sense, std::runtime_error.
  virtual std::shared_ptr<Buckets> buckets(const BucketOptions& options, bindings::Interrupt* interrupt) = 0;
};

struct Place {
  std::string name;
  std::vector<std::uint32_t> world_ranks{};  ///< of its ranks, for errors; empty: it is the world
  std::string address;
  std::string secret;             ///< of the store, hexadecimal; empty: that of the environment, or none
  const void* options = nullptr;  ///< cohort::JoinOptions of the environment, of whatever else joining takes
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  double timeout_s = 0;       ///< of calls, above zero
  double join_timeout_s = 0;  ///< not above zero: as for every communicator
};

/// COHORT_TIMEOUT in seconds; 0: it is not set, or cannot be read, which join() tells all ranks.
double timeout_of_environment_s();

/// Joins. Throws std::runtime_error. `interrupt` may be null.
std::shared_ptr<Ranks> join(const Place& place, bindings::Interrupt* interrupt);

/// Leaves every group that was joined, at the latest in a few seconds: with this reason for the other ranks,
/// or in good order if it is empty. What is under way ends before, and no thread of the library calls
/// anything any more.
void leave_all(const std::string& reason) noexcept;

}  // namespace cohort::torch_face
