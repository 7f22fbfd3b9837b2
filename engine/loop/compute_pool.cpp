// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/compute_pool.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>

#include <system_error>

namespace cohort {

ComputePool::~ComputePool() {
  {
    const std::lock_guard lock(mutex_);
    COHORT_ASSERT(jobs_.empty(), "the compute pool ends with jobs that nobody ran");
    stopping_ = true;
  }
  wakeup_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ComputePool::submit(ComputeJob& job) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_ >= idle_ && threads_.size() < thread_count_) start_thread();
    jobs_.push_back(job);
    ++queued_;
  }
  wakeup_.notify_one();
}

void ComputePool::start_thread() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    if (threads_.empty())
      throw Error(ErrorKind::ResourceLimit,
                  fmt::format("no thread for offloaded work: {}; check ulimit -u and the cgroup's pids.max",
                              error.what()));
  }
}

void ComputePool::work() {
  for (;;) {
    ComputeJob* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      wakeup_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      --idle_;
      job = jobs_.pop_front();
      if (job == nullptr) return;
      --queued_;
    }
    computing_.fetch_add(1, std::memory_order_relaxed);
    job->compute();
    computing_.fetch_sub(1, std::memory_order_relaxed);
    inbox_.post(*job);
  }
}

}  // namespace cohort
