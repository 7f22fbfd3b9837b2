// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/compute_pool.h>

#include <cohort/engine/assert.h>

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
    jobs_.push_back(job);
    if (threads_.size() < thread_count_) threads_.emplace_back([this] { work(); });
  }
  wakeup_.notify_one();
}

void ComputePool::work() {
  for (;;) {
    ComputeJob* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      wakeup_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      job = jobs_.pop_front();
      if (job == nullptr) return;
    }
    job->compute();
    inbox_.post(*job);
  }
}

}  // namespace cohort
