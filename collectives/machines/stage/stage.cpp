// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/stage.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/loop/frame_pool.h>
#include <cohort/streams/schedule_streams.h>

#include <algorithm>
#include <utility>

namespace cohort::machine {
namespace {

/// Of each size, kept from one run to the next: those of hundreds of ranks, each with a stream for every
/// peer.
constexpr std::size_t kMostFrameBytes = std::size_t{64} << 20;

}  // namespace

/// Stands where an engine's way to the kernel is: there is none, only the stage's own list.
class Stage::NoKernel final : public Driver {
 public:
  explicit NoKernel(Stage& stage) noexcept : stage_(stage) {}

  void submit(IoOperation&) noexcept override {
    COHORT_ASSERT(false, "a schedule asks the system for I/O; it may only use its Exec and its links");
  }
  void cancel(IoOperation&) noexcept override {}
  /// With nothing to resume, all that the last stream led to is over.
  bool poll() noexcept override { return !Engine::current().has_ready() && stage_.resume_next(); }
  bool has_news() const noexcept override { return false; }
  /// Not even a timer helps: no rank of a schedule may wait for one.
  void sleep(TimePoint, TimePoint) noexcept override { stage_.end_all(); }
  void wake() noexcept override {}
  [[nodiscard]] bool has_futex() const noexcept override { return false; }
  [[nodiscard]] std::string description() const override { return "none: all ranks in one thread"; }

 private:
  Stage& stage_;
};

class Stage::NoClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() noexcept override { return TimePoint{}; }
};

Stage::Stage(Rank ranks, std::uint64_t seed)
    : ranks_(ranks), is_shuffled_(seed != 0), random_(seed), nodes_(ranks + 1), running_(ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    nodes_[rank] = {.rank = rank, .parent = ranks};
    nodes_[ranks].children.push_back(rank);
  }
}

std::string Stage::name_of(StreamId stream) const {
  std::string path;
  for (const Node* node = &nodes_[stream]; node->position != 0; node = &nodes_[node->parent])
    path = std::to_string(node->position) + (path.empty() ? "" : ".") + path;
  return path.empty() ? "main stream" : "stream " + path;
}

StreamId Stage::add_stream(Rank rank) {
  nodes_.push_back({.rank = rank});
  return static_cast<StreamId>(nodes_.size() - 1);
}

void Stage::run(std::vector<Task<>> ranks) {
  FramePool::keep_at_most(kMostFrameBytes);
  EngineOptions options;
  options.driver = std::make_unique<NoKernel>(*this);
  options.clock = std::make_unique<NoClock>();
  options.compute_threads = 1;
  options.spin = Duration::zero();
  Engine engine(std::move(options));
  CancelScope scope;
  scope_ = &scope;
  ScheduleStreams streams(this);
  auto main = [](Task<>& rank) { return std::move(rank); };
  auto all = [&]() -> Task<> { co_await streams.fork_join(ranks, main); };
  engine.run(with_scope(scope, all()));
}

bool Stage::acts_as_running(Rank rank, const Operation* wait) const noexcept {
  const Node& node = nodes_[running_];
  return node.rank == rank && is_at_work(running_) && (wait == nullptr || wait->waiter_scope() == node.scope);
}

void Stage::starts(StreamId parent, const CancelScope& scope) noexcept {
  const std::uint32_t place = nodes_[parent].open++;
  if (place == nodes_[parent].children.size()) {
    const StreamId fresh = add_stream(nodes_[parent].rank);
    nodes_[fresh].parent = parent;
    nodes_[fresh].position = place + 1;
    nodes_[parent].children.push_back(fresh);
  }
  running_ = nodes_[parent].children[place];
  nodes_[running_].is_active = true;
  nodes_[running_].scope = &scope;
  if (parent != ranks_) forked(parent, running_);
}

void Stage::ends(bool has_failed) noexcept {
  nodes_[running_].is_active = false;
  if (has_failed) give_up();
}

void Stage::joins(StreamId parent) noexcept {
  if (is_ending_) return;
  running_ = parent;
  Node& node = nodes_[parent];
  const std::uint32_t tasks = std::exchange(node.open, 0U);
  if (parent != ranks_) joined(parent, std::span(node.children).first(tasks));
}

void Stage::give_up() noexcept {
  is_ending_ = true;
  ready_.clear();
}

bool Stage::resume_next() noexcept {
  if (ready_.empty() && !advance()) return false;
  if (ready_.empty()) return true;
  if (is_shuffled_) std::swap(ready_.front(), ready_[random_() % ready_.size()]);
  const Ready next = ready_.front();
  ready_.pop_front();
  running_ = next.stream;
  if (goes_on(*next.operation)) next.operation->complete();
  return true;
}

void Stage::end_all() noexcept {
  if (!is_ending_) stuck();
  give_up();
  scope_->cancel(Error(ErrorKind::Cancelled, "everybody waits for ever"));
}

}  // namespace cohort::machine
