// SPDX-License-Identifier: Apache-2.0
// A rank whose collective failed may free its buffers at once: no peer touches them any more.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <functional>
#include <latch>
#include <semaphore>
#include <thread>

namespace cohort {
namespace {

constexpr std::size_t kCount = 4 << 20;

/// Floats in pages of their own; after forbid() every access ends the process.
class Pages {
 public:
  Pages() : data_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~Pages() { ::munmap(data_, kBytes); }
  [[nodiscard]] std::span<float> span() const { return {static_cast<float*>(data_), kCount}; }
  void forbid() const { ::mprotect(data_, kBytes, PROT_NONE); }

 private:
  static constexpr std::size_t kBytes = kCount * sizeof(float);
  void* data_;
};

class Withdrawal : public testing::TestWithParam<std::string_view> {
 protected:
  static constexpr Rank kRanks = 3;
  static constexpr std::chrono::milliseconds kLimit{30};

  /// All ranks but the last have a time limit. The last one comes when `until_late` returns, and its engine
  /// hears of nothing meanwhile.
  void run_with_limit(const std::function<void()>& until_late) {
    const std::string_view algorithm = GetParam();
    std::latch through(kRanks);
    const auto body = [&, algorithm](Communicator& comm) -> Task<> {
      const Pages pages;
      const bool is_late = comm.rank() + 1 == comm.size();
      if (is_late) until_late();
      const Duration limit = is_late ? Duration::zero() : Duration(kLimit);
      Collective call = make_call(comm, pages.span(), algorithm).with_deadline(limit);
      bool has_failed = false;
      try {
        co_await std::move(call);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::DeadlineExceeded) << error.what();
        has_failed = true;
      }
      pages.forbid();
      if (has_failed && !is_late) gave_up_.release();
      through.arrive_and_wait();  // ranks that still worked on it would do so until then
    };
    test::run_ranks(kRanks, body);
  }

  std::counting_semaphore<kRanks> gave_up_{0};

 private:
  static Collective make_call(Communicator& comm, std::span<float> data, std::string_view algorithm) {
    Collective call = comm.all_reduce(data, ReduceOp::sum);
    if (algorithm.empty()) return call;
    return std::move(call).with_algorithm(algorithm);
  }
};

TEST_P(Withdrawal, a_rank_that_comes_late_touches_no_buffer_of_those_that_gave_up) {
  const auto until_all_gave_up = [this] {
    for (Rank others = kRanks - 1; others > 0; --others)
      EXPECT_TRUE(gave_up_.try_acquire_for(1000 * kLimit))
          << "a deadline of " << kLimit.count() << " ms is long over";
  };
  run_with_limit(until_all_gave_up);
}

// For real: the time at which the copies and reductions of other threads are under way is what is tested.
TEST_P(Withdrawal, a_deadline_in_the_middle_waits_for_peers_that_touch_the_buffer) {
  for (int more_ms = -3; more_ms <= 3; ++more_ms)
    run_with_limit([&] { std::this_thread::sleep_for(kLimit + std::chrono::milliseconds(more_ms)); });
}

INSTANTIATE_TEST_SUITE_P(, Withdrawal, testing::Values("", "mesh", "ring"), [](const auto& test) {
  return test.param.empty() ? std::string("selected") : std::string(test.param);
});

}  // namespace
}  // namespace cohort
