// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/case_memory.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

namespace cohort::machine::case_memory_test {
namespace {

constexpr bool kRecycles = !sanitizers::kAddress && !sanitizers::kThread;
constexpr std::size_t kSizes[] = {0,    1,    16,   17,    511,   512,       513,      1024,
                                  1025, 4096, 5000, 65536, 65537, 2'097'152, 2'097'153};

/// A thread has memory of its own, so each test starts with none.
template <class Function>
void on_fresh_thread(Function function) {
  std::thread(std::move(function)).join();
}

TEST(CaseMemory, blocks_are_wholly_writable_and_apart_whatever_has_gone_back) {
  on_fresh_thread([] {
    std::vector<std::pair<unsigned char*, std::size_t>> blocks;
    for (unsigned round = 0; round < 6; ++round) {
      for (const std::size_t bytes : kSizes) {
        auto* const block = static_cast<unsigned char*>(CaseMemory::allocate(bytes));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignof(std::max_align_t), 0U) << bytes;
        std::memset(block, static_cast<int>(blocks.size() % 251), bytes);
        blocks.emplace_back(block, bytes);
      }
      for (std::size_t i = 0; i < blocks.size(); ++i)
        for (std::size_t at = 0; at < blocks[i].second; ++at) ASSERT_EQ(blocks[i].first[at], i % 251) << i;
      while (round % 2 == 1 && blocks.size() > 20) {  // most of them, the last ones first
        CaseMemory::release(blocks.back().first, blocks.back().second);
        blocks.pop_back();
      }
    }
    for (const auto& [block, bytes] : blocks) CaseMemory::release(block, bytes);
  });
}

TEST(CaseMemory, recycles_the_block_released_last_of_the_same_size_class) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  on_fresh_thread([] {
    void* const kept = CaseMemory::allocate(8);
    void* const first = CaseMemory::allocate(600);
    void* const second = CaseMemory::allocate(1024);
    CaseMemory::release(first, 600);
    CaseMemory::release(second, 1024);
    EXPECT_EQ(CaseMemory::allocate(513), second);
    EXPECT_EQ(CaseMemory::allocate(1000), first);
    CaseMemory::release(first, 1000);
    CaseMemory::release(second, 513);
    CaseMemory::release(kept, 8);
  });
}

TEST(CaseMemory, the_next_case_gets_its_blocks_where_the_last_one_had_them) {
  if (!kRecycles) GTEST_SKIP() << "sanitizer builds do not recycle";
  on_fresh_thread([] {
    std::vector<void*> last;
    for (int run = 0; run < 3; ++run) {
      std::vector<void*> blocks;
      for (std::size_t i = 0; i < 200'000; ++i)
        blocks.push_back(CaseMemory::allocate(1 + i % 100));  // two chunks
      EXPECT_TRUE(run == 0 || blocks == last) << run;
      for (std::size_t i = 0; i < blocks.size(); ++i) CaseMemory::release(blocks[i], 1 + i % 100);
      last = blocks;
    }
  });
}

}  // namespace
}  // namespace cohort::machine::case_memory_test
