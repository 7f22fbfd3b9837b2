// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/autogroup.h>
#include <cohort/net/membership.h>
#include <cohort/tests/support/forked_part.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace cohort::membership_test {
namespace {

CoreSet cores(std::initializer_list<std::size_t> numbers) {
  CoreSet set;
  for (const std::size_t number : numbers) set.set(number);
  return set;
}

/// Ranks of one host, each a process that may run on these; this process is the first one.
Membership host_of(const std::vector<CoreSet>& sets) {
  Membership membership;
  membership.size = static_cast<Rank>(sets.size());
  for (const CoreSet& set : sets) {
    PeerInfo& peer = membership.peers.emplace_back();
    peer.rank = static_cast<Rank>(membership.peers.size()) - 1;
    peer.process = 100 + peer.rank;
    peer.incarnation = 1000 + peer.rank;
    peer.engine = 10 + peer.rank;
    peer.cores = set;
  }
  return membership;
}

void move_to_container(PeerInfo& peer) { peer.host_id.fill(std::byte{1}); }
void move_to_machine(PeerInfo& peer) {
  move_to_container(peer);
  peer.machine_id = 1;
}

TEST(Membership, ranks_that_are_bound_to_a_core_each_have_one_each) {
  EXPECT_EQ(host_of({cores({0}), cores({1}), cores({2}), cores({1023})}).engines_per_core(), 1);
}

TEST(Membership, ranks_that_may_run_anywhere_share_all_cores) {
  const CoreSet all = cores({0, 1, 2, 3});
  EXPECT_EQ(host_of({all, all}).engines_per_core(), 0.5);
  EXPECT_EQ(host_of(std::vector(12, all)).engines_per_core(), 3);
}

TEST(Membership, ranks_that_are_bound_to_one_core_share_it_however_many_there_are_beside) {
  EXPECT_EQ(host_of({cores({0}), cores({0}), cores({1, 2, 3, 4})}).engines_per_core(), 2);
  EXPECT_EQ(host_of({cores({1, 2, 3, 4}), cores({0}), cores({0})}).engines_per_core(), 3.0 / 5);
}

TEST(Membership, one_that_says_it_has_no_core_harms_nobody) {
  EXPECT_EQ(host_of({cores({0, 1}), CoreSet()}).engines_per_core(), 1);
  EXPECT_EQ(host_of({CoreSet(), CoreSet()}).engines_per_core(), 2);
}

TEST(Membership, cores_are_idle_where_each_rank_has_another_one_for_itself) {
  EXPECT_EQ(host_of(std::vector(2, cores({0, 1, 2, 3}))).core_supply(), CoreSupply::idle);
  EXPECT_EQ(host_of(std::vector(3, cores({0, 1, 2, 3}))).core_supply(), CoreSupply::one_each);
  EXPECT_EQ(host_of({cores({0}), cores({1, 2})}).core_supply(), CoreSupply::one_each);
  EXPECT_EQ(host_of({CoreSet(), CoreSet()}).core_supply(), CoreSupply::shared);
}

TEST(Membership, ranks_that_are_bound_to_one_core_share_it_however_many_are_idle) {
  EXPECT_EQ(host_of({cores({0}), cores({0}), cores({0, 1, 2, 3, 4, 5, 6})}).core_supply(),
            CoreSupply::shared);
}

/// Of each rank, as it sees it.
std::vector<std::optional<std::size_t>> own_cores(Membership membership,
                                                  const std::vector<unsigned>& order = {0, 1, 2, 3, 4, 5, 6,
                                                                                        7}) {
  std::vector<std::optional<std::size_t>> own;
  for (membership.rank = 0; membership.rank < membership.size; ++membership.rank)
    own.push_back(membership.own_core(order));
  return own;
}
using Cores = std::vector<std::optional<std::size_t>>;

TEST(Membership, each_rank_has_a_core_that_no_other_one_has) {
  EXPECT_EQ(own_cores(host_of(std::vector(3, cores({1, 2, 5})))), (Cores{1, 2, 5}));
  EXPECT_EQ(own_cores(host_of({cores({3}), cores({0, 3}), cores({0, 3, 7})})), (Cores{3, 0, 7}));
  EXPECT_EQ(own_cores(host_of(std::vector(2, cores({0, 1, 2, 3}))), {0, 2, 1, 3}), (Cores{0, 2}));
}

TEST(Membership, no_rank_has_a_core_of_its_own_where_one_finds_none) {
  EXPECT_EQ(own_cores(host_of(std::vector(2, cores({4})))), (Cores{std::nullopt, std::nullopt}));
  EXPECT_EQ(own_cores(host_of({cores({0, 1}), cores({0})})), (Cores{std::nullopt, std::nullopt}));
}

TEST(Membership, how_many_cores_there_are_is_known_from_what_all_were_told) {
  EXPECT_EQ(host_of(std::vector(2, cores({3, 4}))).core_supply(), CoreSupply::one_each);
  EXPECT_EQ(host_of(std::vector(3, cores({3, 4}))).core_supply(), CoreSupply::shared);
  EXPECT_EQ(host_of({cores({3}), cores({3}), cores({0, 1, 2})}).core_supply(), CoreSupply::shared);
  Membership membership = host_of({cores({0}), cores({0})});
  membership.peers[1].visible_process = membership.peers[0].visible_process = 7;  // each sees that by itself
  EXPECT_EQ(membership.core_supply(), CoreSupply::shared);
  move_to_machine(membership.peers[1]);
  EXPECT_EQ(membership.core_supply(), CoreSupply::one_each);
}

TEST(Membership, every_rank_of_a_host_says_the_same_of_its_cores) {
  Membership membership = host_of({cores({0}), cores({0, 1, 2, 3}), cores({4})});
  move_to_machine(membership.peers[2]);
  for (membership.rank = 0; membership.rank < 2; ++membership.rank)
    EXPECT_EQ(membership.core_supply(), CoreSupply::idle);
  membership.rank = 2;
  EXPECT_EQ(membership.core_supply(), CoreSupply::one_each);
}

TEST(Membership, ranks_of_other_hosts_and_on_the_same_engine_do_not_count) {
  Membership membership = host_of({cores({0}), cores({0}), cores({0})});
  move_to_machine(membership.peers[1]);
  membership.peers[2].engine = membership.peers[0].engine;
  EXPECT_EQ(membership.engines_per_core(), 1);
  membership.peers[2].engine = 2;
  EXPECT_EQ(membership.engines_per_core(), 2);
}

TEST(Membership, containers_of_a_machine_share_its_cores) {
  Membership membership = host_of(std::vector(4, cores({0, 1})));
  for (const Rank away : {2, 3}) move_to_container(membership.peers[away]);
  for (membership.rank = 0; membership.rank < 4; ++membership.rank) {
    EXPECT_EQ(membership.engines_per_core(), 2);
    EXPECT_EQ(membership.core_supply(), CoreSupply::shared);
    EXPECT_EQ(membership.ranks_of_host(), 2);
    EXPECT_EQ(membership.ranks_of_machine(), 4);
  }
  membership.rank = 0;
  for (const Rank away : {2, 3}) membership.peers[away].cores = cores({2, 3});
  EXPECT_EQ(membership.cores_of_machine(), cores({0, 1, 2, 3}));
  EXPECT_EQ(own_cores(std::move(membership)), (Cores{0, 1, 2, 3}));
}

TEST(Membership, ranks_are_apart_in_sessions_and_containers_of_their_own) {
  test::ForkedPart child("rank 0", [] {
    Membership membership = host_of(std::vector(3, cores({0, 1})));
    membership.peers[0].visible_process = static_cast<std::uint32_t>(::getpid());
    for (const Rank peer : {1, 2})
      membership.peers[peer].visible_process = static_cast<std::uint32_t>(::getppid());
    EXPECT_FALSE(membership.is_any_apart()) << "nobody has looked";
    membership.are_processes_seen = true;
    EXPECT_FALSE(membership.is_any_apart());
    move_to_container(membership.peers[2]);
    EXPECT_TRUE(membership.is_any_apart());
    move_to_machine(membership.peers[2]);
    EXPECT_FALSE(membership.is_any_apart());
    ASSERT_NE(::setsid(), -1);
    EXPECT_EQ(membership.is_any_apart(), !autogroup_of(membership.self().visible_process).empty())
        << "where sessions have groups";
    move_to_machine(membership.peers[1]);
    EXPECT_FALSE(membership.is_any_apart());
  });
  child.join();
}

TEST(Membership, a_rank_of_this_host_that_the_kernel_does_not_show_is_apart) {
  Membership membership = host_of(std::vector(2, cores({0, 1})));
  membership.are_processes_seen = true;
  membership.peers[0].visible_process = 1;
  EXPECT_TRUE(membership.is_any_apart());
}

/// Each is process 1 in its own namespace, and the kernel shows none to another.
TEST(Membership, engines_are_told_apart_whatever_their_processes_say_of_themselves) {
  Membership membership = host_of(std::vector(3, cores({0})));
  for (PeerInfo& peer : membership.peers) peer.process = 1;
  move_to_container(membership.peers[2]);
  membership.peers[0].visible_process = 1;
  membership.are_processes_seen = true;
  EXPECT_EQ(membership.engines_per_core(), 3);
  membership.peers[1].engine = membership.peers[0].engine;
  EXPECT_EQ(membership.engines_per_core(), 2);
}

/// One engine may have ranks that say to be of different hosts.
TEST(Membership, an_engine_counts_once_on_all_its_hosts) {
  Membership membership = host_of(std::vector(2, cores({0})));
  move_to_container(membership.peers[1]);
  membership.peers[1].engine = membership.peers[0].engine;
  EXPECT_EQ(membership.engines_per_core(), 1);
}

}  // namespace
}  // namespace cohort::membership_test
