// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/host_memory.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/tests/support/world_engine.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace cohort::test::host_memory_test {
namespace {

const host::HostSizes kSizes{.lines_bytes = 640, .part_bytes = 3 * memory_map::page_bytes()};

/// As far as memory asks.
Membership member_of(Rank size, Rank rank) {
  Membership membership;
  membership.rank = rank;
  membership.size = size;
  membership.peers.resize(size);
  for (Rank peer = 0; peer < size; ++peer) membership.peers[peer].incarnation = 1 + peer;
  return membership;
}

/// Some ranks of a communicator, on one host.
class HostMemoryOf {
 public:
  HostMemoryOf(Engine& engine, Rank size, std::vector<Rank> members, bool is_isolated)
      : members_(std::move(members)) {
    for (const Rank member : members_)
      of_.push_back(
          std::make_unique<host::HostMemory>(engine, member_of(size, member), members_, kSizes, is_isolated));
  }
  [[nodiscard]] host::HostMemory& operator[](std::size_t place) { return *of_[place]; }

  /// What one says to another one.
  void introduce(std::size_t from, std::size_t to) {
    of_[to]->adopt(members_[from], copies_of(of_[from]->descriptors_for_peers()));
  }
  void introduce_all() {
    for (std::size_t from = 0; from < of_.size(); ++from)
      for (std::size_t to = 0; to < of_.size(); ++to)
        if (from != to) introduce(from, to);
  }
  static std::vector<Descriptor> copies_of(const std::vector<int>& descriptors) {
    std::vector<Descriptor> copies;
    for (const int descriptor : descriptors) copies.emplace_back(::dup(descriptor));
    return copies;
  }

 private:
  const std::vector<Rank> members_;
  std::vector<std::unique_ptr<host::HostMemory>> of_;
};

class HostMemory : public ::testing::TestWithParam<bool> {
 protected:
  WorldEngine engine_;
};

TEST_P(HostMemory, has_a_part_and_lines_of_each_rank_which_all_see) {
  const std::vector<Rank> members = {1, 4, 5};
  HostMemoryOf memory(engine_, 7, members, GetParam());
  memory.introduce_all();
  unsigned char value = 0;
  for (std::size_t writer = 0; writer < members.size(); ++writer) {
    host::HostMemory& own = memory[writer];
    const Rank rank = members[writer];
    SharedMemory& part = own.part(rank);
    ASSERT_EQ(part.size_bytes(), kSizes.part_bytes);
    std::fill_n(part.data(), part.size_bytes(), std::byte{++value});
    std::fill_n(own.lines(rank), kSizes.lines_bytes, std::byte{++value});
  }
  for (std::size_t reader = 0; reader < members.size(); ++reader) {
    value = 0;
    for (const Rank of : members) {
      const std::byte* const part = memory[reader].part(of).data();
      const std::byte* const lines = memory[reader].lines(of);
      EXPECT_EQ(part[0], std::byte{++value});
      EXPECT_EQ(part[kSizes.part_bytes - 1], std::byte{value});
      EXPECT_EQ(lines[0], std::byte{++value});
      EXPECT_EQ(lines[kSizes.lines_bytes - 1], std::byte{value});
    }
  }
}

/// A peer may ring as soon as its own end has the memory.
TEST_P(HostMemory, may_be_slept_beside_before_it_has_come) {
  HostMemoryOf memory(engine_, 2, {0, 1}, GetParam());
  EXPECT_TRUE(memory[0].is_backed());
  EXPECT_FALSE(memory[1].is_backed());
  memory[1].listener().wake_up();
  memory.introduce(0, 1);
  EXPECT_TRUE(memory[1].is_backed());
  const auto& words = *reinterpret_cast<host::DoorbellWords*>(memory[0].lines(1));
  memory[1].listener().fall_asleep();
  EXPECT_EQ(words.asleep.load(), 1);
  memory[1].listener().wake_up();
  EXPECT_EQ(words.asleep.load(), 0);
}

TEST_P(HostMemory, lies_at_one_address_for_threads_unless_they_are_isolated) {
  HostMemoryOf memory(engine_, 2, {0, 1}, GetParam());
  EXPECT_EQ(memory[0].part(1).data() != memory[1].part(1).data(), GetParam());
}

TEST_P(HostMemory, comes_from_its_first_rank_and_from_nobody_else) {
  HostMemoryOf memory(engine_, 3, {0, 1, 2}, GetParam());
  const auto expect_refused = [&](Rank from, std::size_t descriptors) {
    const std::vector<int> passed(descriptors, memory[0].part(0).descriptor());
    try {
      memory[1].adopt(from, HostMemoryOf::copies_of(passed));
      ADD_FAILURE() << descriptors << " descriptors of rank " << from << " were taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::ProtocolError);
      EXPECT_EQ(error.culprit(), from);
    }
    EXPECT_FALSE(memory[1].is_backed());
  };
  expect_refused(0, 0);
  expect_refused(0, 3);
  expect_refused(2, 2);
  EXPECT_EQ(memory[1].descriptors_for_peers().size() + 1, memory[0].descriptors_for_peers().size());
}

INSTANTIATE_TEST_SUITE_P(Everywhere, HostMemory, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "isolated" : "of_threads"; });

}  // namespace
}  // namespace cohort::test::host_memory_test
