// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/stage.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>

#include <algorithm>
#include <utility>

namespace cohort::machine {

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
  void sleep(TimePoint, TimePoint until) noexcept override {
    if (until != kNever)
      stage_.now_ = std::max(stage_.now_, until);
    else
      stage_.end_all();
  }
  void wake() noexcept override {}
  [[nodiscard]] bool has_futex() const noexcept override { return false; }
  [[nodiscard]] std::string description() const override { return "none: all ranks in one thread"; }

 private:
  Stage& stage_;
};

class Stage::OwnClock final : public Clock {
 public:
  explicit OwnClock(const Stage& stage) noexcept : stage_(stage) {}
  [[nodiscard]] TimePoint now() noexcept override { return stage_.now_; }

 private:
  const Stage& stage_;
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
  EngineOptions options;
  options.driver = std::make_unique<NoKernel>(*this);
  options.clock = std::make_unique<OwnClock>(*this);
  options.compute_threads = 1;
  options.spin = Duration::zero();
  Engine engine(std::move(options));
  CancelScope scope;
  scope_ = &scope;
  const Watch watch(*this);
  auto all = [&]() -> Task<> { co_await when_all(ranks); };
  engine.run(with_scope(scope, all()));
}

void Stage::task_starts() noexcept {
  const StreamId parent = running_;
  const std::uint32_t place = nodes_[parent].open++;
  if (place == nodes_[parent].children.size()) {
    const StreamId fresh = add_stream(nodes_[parent].rank);
    nodes_[fresh].parent = parent;
    nodes_[fresh].position = place + 1;
    nodes_[parent].children.push_back(fresh);
  }
  forking_.push_back(parent);
  running_ = nodes_[parent].children[place];
  if (parent != ranks_) forked(parent, running_);
}

void Stage::task_started() noexcept {
  running_ = forking_.back();
  forking_.pop_back();
}

void Stage::task_ends(bool has_failed) noexcept {
  if (!has_failed) return;
  is_ending_ = true;
  ready_.clear();
}

void Stage::tasks_joined() noexcept {
  if (is_ending_) return;
  if (nodes_[running_].open == 0) running_ = nodes_[running_].parent;  // its last task has just ended
  Node& parent = nodes_[running_];
  const std::uint32_t tasks = std::exchange(parent.open, 0U);
  if (running_ == ranks_) return;
  joined(running_, std::span(parent.children).first(tasks));
}

bool Stage::resume_next() noexcept {
  if (ready_.empty() && !advance()) return false;
  if (ready_.empty()) return true;
  if (is_shuffled_) std::swap(ready_.front(), ready_[random_() % ready_.size()]);
  const Ready next = ready_.front();
  ready_.pop_front();
  running_ = next.stream;
  complete(*next.operation);
  return true;
}

void Stage::end_all() noexcept {
  stuck();
  is_ending_ = true;
  ready_.clear();
  scope_->cancel(Error(ErrorKind::Cancelled, "everybody waits for ever"));
}

}  // namespace cohort::machine
