// SPDX-License-Identifier: Apache-2.0
// A rank whose collective failed may free its buffers at once: no peer touches them any more.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <semaphore>
#include <thread>
#include <vector>

namespace cohort::withdrawal_test {
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

constexpr float kUntouched = -1;

/// Ranks whose memory the kernel copies into that of rank 0, which gives up before the last rank comes.
void push_into_memory_of_who_gave_up(
    const std::function<Collective(Communicator&, std::span<const float>, std::span<float>)>& make_call) {
  constexpr Rank kRanks = 3;
  constexpr std::size_t kBlock = std::size_t{16} << 10;  // over before it hears of anything
  constexpr std::chrono::milliseconds kLimit{30};
  std::binary_semaphore root_gave_up{0};
  std::latch through(kRanks);
  const auto body = [&](Communicator& comm) -> Task<> {
    const bool is_late = comm.rank() + 1 == comm.size();
    const std::vector<float> in(kBlock, 1);
    std::vector<float> out(comm.rank() == 0 ? kRanks * kBlock : 0);
    if (is_late) {
      EXPECT_TRUE(root_gave_up.try_acquire_for(1000 * kLimit));
    }
    const Duration limit = is_late ? Duration::zero() : Duration(kLimit);
    Collective call = make_call(comm, in, out).with_algorithm("direct").with_deadline(limit);
    bool has_failed = false;
    try {
      co_await std::move(call);
    } catch (const Error&) {
      has_failed = true;
    }
    EXPECT_TRUE(has_failed) << "rank " << comm.rank();
    std::ranges::fill(out, kUntouched);
    if (comm.rank() == 0) root_gave_up.release();
    through.arrive_and_wait();
    EXPECT_EQ(std::ranges::count(out, kUntouched), std::ranges::ssize(out));
  };
  CommunicatorOptions options;
  options.is_isolated = true;
  options.pull_from_bytes = 1;
  test::run_ranks(kRanks, body, options);
}

TEST(WithdrawalOfPrivateMemory, nothing_is_gathered_into_it) {
  push_into_memory_of_who_gave_up([](Communicator& comm, std::span<const float> in, std::span<float> out) {
    return comm.gather(in, out, 0);
  });
}

TEST(WithdrawalOfPrivateMemory, nothing_is_reduced_into_it) {
  push_into_memory_of_who_gave_up([](Communicator& comm, std::span<const float> in, std::span<float> out) {
    return comm.reduce(in, out.first(comm.rank() == 0 ? in.size() : 0), ReduceOp::sum, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(, Withdrawal, testing::Values("", "mesh", "ring"), [](const auto& test) {
  return test.param.empty() ? std::string("selected") : std::string(test.param);
});

}  // namespace
}  // namespace cohort::withdrawal_test
