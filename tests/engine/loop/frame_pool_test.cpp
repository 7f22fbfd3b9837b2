// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/loop/frame_pool.h>

#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace cohort::frame_pool_test {
namespace {

using namespace std::chrono_literals;

constexpr bool kRecycles = !sanitizers::kAddress && !sanitizers::kThread;

/// A thread has a pool of its own, so each test starts with a fresh one.
template <class Function>
void on_fresh_thread(Function function) {
  std::thread(std::move(function)).join();
}

TEST(FramePool, blocks_are_aligned_to_64_bytes_and_wholly_writable) {
  on_fresh_thread([] {
    std::vector<std::pair<void*, std::size_t>> blocks;
    for (int round = 0; round < 2; ++round) {
      for (std::size_t bytes = 1; bytes <= 1500; bytes += 7)
        blocks.emplace_back(FramePool::allocate(bytes), bytes);
      for (const auto& [block, bytes] : blocks) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U) << bytes;
        std::memset(block, 0xab, bytes);
      }
      for (const auto& [block, bytes] : blocks) FramePool::release(block, bytes);
      blocks.clear();
    }
  });
}

TEST(FramePool, recycles_the_block_released_last_of_the_same_size_class) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  on_fresh_thread([] {
    void* first = FramePool::allocate(65);
    void* second = FramePool::allocate(100);
    FramePool::release(first, 65);
    FramePool::release(second, 100);
    EXPECT_EQ(FramePool::allocate(128), second);
    EXPECT_EQ(FramePool::allocate(66), first);
    FramePool::release(first, 66);
    void* other_class = FramePool::allocate(64);
    EXPECT_NE(other_class, first);
    FramePool::release(other_class, 64);
    FramePool::release(second, 128);
  });
}

TEST(FramePool, statistics_count_requests_what_came_from_the_system_and_the_largest) {
  on_fresh_thread([] {
    EXPECT_EQ(FramePool::statistics().requests, 0U);
    for (int i = 0; i < 10; ++i) FramePool::release(FramePool::allocate(200), 200);
    for (int i = 0; i < 5; ++i) FramePool::release(FramePool::allocate(4000), 4000);
    const FramePool::Statistics statistics = FramePool::statistics();
    EXPECT_EQ(statistics.requests, 15U);
    EXPECT_EQ(statistics.from_system, kRecycles ? 1U + 5U : 15U) << "frames above 2 KiB are not recycled";
    EXPECT_EQ(statistics.largest_bytes, 4000U);
  });
}

TEST(FramePool, frames_of_tasks_are_recycled) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  on_fresh_thread([] {
    test::VirtualEngine engine;
    auto child = [&]() -> Task<> { co_await engine.sleep_for(1ms); };
    auto body = [&]() -> Task<> {
      for (int i = 0; i < 1000; ++i) co_await child();
    };
    engine.run(body());
    const FramePool::Statistics statistics = FramePool::statistics();
    EXPECT_GT(statistics.requests, 1000U);
    EXPECT_LT(statistics.from_system, 10U);
  });
}

TEST(FramePool, block_freed_by_another_thread_joins_that_threads_pool) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  void* block = nullptr;
  on_fresh_thread([&] { block = FramePool::allocate(300); });
  on_fresh_thread([&] {
    FramePool::release(block, 300);
    EXPECT_EQ(FramePool::allocate(300), block);
    EXPECT_EQ(FramePool::statistics().from_system, 0U);
    FramePool::release(block, 300);
  });
}

TEST(FramePool, a_thread_that_only_frees_keeps_a_bounded_number_of_blocks) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  constexpr std::size_t kBlocks = 10'000;
  for (const std::size_t bytes : {64U, 2048U}) {
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = FramePool::allocate(bytes);
    on_fresh_thread([&] {
      for (void* block : blocks) FramePool::release(block, bytes);
      for (void*& block : blocks) block = FramePool::allocate(bytes);
      EXPECT_EQ(kBlocks - FramePool::statistics().from_system, 256 * 1024 / bytes);
      for (void* block : blocks) FramePool::release(block, bytes);
    });
  }
}

TEST(FramePool, a_thread_keeps_as_many_blocks_as_it_is_told_to) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  constexpr std::size_t kBlocks = 10'000;
  constexpr std::size_t kBytes = 1024;
  on_fresh_thread([&] {
    FramePool::keep_at_most(kBlocks * kBytes);
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = FramePool::allocate(kBytes);
    for (void* block : blocks) FramePool::release(block, kBytes);
    for (void*& block : blocks) block = FramePool::allocate(kBytes);
    EXPECT_EQ(FramePool::statistics().from_system, kBlocks);
    for (void* block : blocks) FramePool::release(block, kBytes);
  });
}

TEST(FramePool, ending_thread_gives_back_blocks_that_it_only_ever_freed) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  constexpr std::size_t kBlocks = 20'000;
  constexpr std::size_t kBytes = 1000;
  auto pass_through_a_thread = [] {
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = FramePool::allocate(kBytes);
    on_fresh_thread([&] {
      for (void* block : blocks) FramePool::release(block, kBytes);
    });
  };
  const auto in_use = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  on_fresh_thread([&] { pass_through_a_thread(); });  // the pools' own memory
  const std::size_t before = in_use();
  on_fresh_thread([&] { pass_through_a_thread(); });
  EXPECT_LT(in_use(), before + kBlocks * kBytes / 2);
}

}  // namespace
}  // namespace cohort::frame_pool_test
