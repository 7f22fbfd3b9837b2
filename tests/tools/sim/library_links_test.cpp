// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/library_links.h>

#include <gtest/gtest.h>

#include <cstddef>

namespace cohort::sim::library_links_test {
namespace {

TEST(LibraryLinks, between_hosts_links_are_those_of_the_library) {
  EXPECT_EQ(transport_between(true), "shm");
  EXPECT_EQ(transport_between(false), "tcp");
  const Topology topology = library_topology();
  EXPECT_GT(topology.network.message_ns, 0);
  EXPECT_GT(topology.network.core_gigabytes_per_second, 0);
  const sim::Setup small{.ranks = 8, .bytes = 8};
  const sim::Setup large{.ranks = 8, .bytes = std::size_t{64} << 20};
  ASSERT_NE(choice_of_library(operator_of<AllReduce>, topology, small), nullptr);
  EXPECT_NE(choice_of_library(operator_of<AllReduce>, topology, small)->name(), "ring");
  EXPECT_NE(choice_of_library(operator_of<AllReduce>, topology, small)->name(),
            choice_of_library(operator_of<AllReduce>, topology, large)->name());
  EXPECT_NE(choice_of_library(operator_of<Barrier>, topology, small), nullptr);
  Topology one_host = topology;
  one_host.ranks_per_host = 8;
  EXPECT_EQ(choice_of_library(operator_of<AllReduce>, one_host, small), nullptr);
}

}  // namespace
}  // namespace cohort::sim::library_links_test
