// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/port.h>

#include <cohort/engine/error.h>
#include <cohort/tests/support/fake_verbs.h>

#include <gmock/gmock.h>

#include <cerrno>
#include <cstdlib>

namespace cohort::verbs::port_test {
namespace {

using test::FakeDevice;
using test::FakeVerbs;
using ::testing::HasSubstr;

class ChoosePort : public ::testing::Test {
 public:
  [[nodiscard]] Choice choose() const { return choose_port(fake.library(), settings); }
  void expect_refusal(const char* text) {
    const Choice choice = choose();
    EXPECT_FALSE(choice.port);
    EXPECT_THAT(choice.why_not, HasSubstr(text));
  }
  void TearDown() override { EXPECT_EQ(fake.objects, 0) << "something was not given back"; }

  FakeVerbs fake;
  Settings settings;
};

TEST_F(ChoosePort, of_no_device_says_so) { expect_refusal("no RDMA device"); }

TEST_F(ChoosePort, takes_the_first_device_that_can_be_used) {
  fake.devices = {
      FakeDevice{.name = "iwarp0", .transport = IBV_TRANSPORT_IWARP, .gids = {FakeVerbs::ipv4(0)}},
      FakeDevice{.name = "locked0", .opens = false, .gids = {FakeVerbs::ipv4(0)}},
      FakeDevice{.name = "down0", .state = IBV_PORT_DOWN, .gids = {FakeVerbs::ipv4(0)}},
      FakeDevice{.name = "bare0"},
      FakeDevice{.name = "good0", .gids = {FakeVerbs::ipv4(3)}},
      FakeDevice{.name = "better0", .gids = {FakeVerbs::ipv4(0)}}};
  const Choice choice = choose();
  ASSERT_TRUE(choice.port);
  EXPECT_EQ(choice.port->describe(), "good0 port 1, RoCE v2, GID 3 (10.0.0.1), MTU 4096");
}

TEST_F(ChoosePort, says_of_each_device_why_it_is_not_used) {
  fake.devices = {FakeDevice{.name = "iwarp0", .transport = IBV_TRANSPORT_IWARP},
                  FakeDevice{.name = "locked0", .opens = false},
                  FakeDevice{.name = "down0", .state = IBV_PORT_DOWN}, FakeDevice{.name = "bare0"}};
  for (const char* text : {"iwarp0: an iWARP device", "locked0: cannot be opened: Permission denied",
                           "down0 port 1: is not active", "bare0 port 1: has no address"})
    expect_refusal(text);
}

TEST_F(ChoosePort, refuses_a_device_on_which_no_connection_can_be_made) {
  fake.devices = {FakeDevice{.gids = {FakeVerbs::ipv4(0)}}};
  fake.most_memory = std::size_t{64} << 10;
  for (const char* text : {"fake0 port 1: fake0 refuses 131072 bytes of registered memory", "ulimit -l"})
    expect_refusal(text);
  fake.most_memory = ~std::size_t{0};
  fake.refuses_pairs = ENOSPC;
  expect_refusal("fake0 port 1: fake0: making a queue pair of 63 sends and 105 receives");
}

TEST_F(ChoosePort, prefers_addresses_that_are_routed) {
  const ibv_gid_entry old = FakeVerbs::gid(0, IBV_GID_TYPE_ROCE_V1, 0xfe);
  const ibv_gid_entry local = FakeVerbs::gid(1, IBV_GID_TYPE_ROCE_V2, 0xfe);
  const ibv_gid_entry global = FakeVerbs::gid(2, IBV_GID_TYPE_ROCE_V2, 0x20);
  const ibv_gid_entry ipv4 = FakeVerbs::ipv4(3);
  const auto chosen_of = [&](std::vector<ibv_gid_entry> gids) {
    fake.devices = {FakeDevice{.gids = std::move(gids)}};
    return choose().port->gid.gid_index;
  };
  EXPECT_EQ(chosen_of({old, local, global, ipv4, FakeVerbs::ipv4(7)}), 3U);
  EXPECT_EQ(chosen_of({old, local, global}), 2U);
  EXPECT_EQ(chosen_of({old, local}), 1U);
  EXPECT_EQ(chosen_of({old}), 0U);
}

TEST_F(ChoosePort, follows_what_was_asked_for_or_names_what_there_is) {
  fake.devices = {FakeDevice{.name = "one0", .gids = {FakeVerbs::ipv4(0)}},
                  FakeDevice{.name = "two0", .gids = {FakeVerbs::ipv4(0, 8), FakeVerbs::ipv4(5, 9)}}};
  settings.device = "two0";
  settings.gid_index = 5;
  EXPECT_EQ(choose().port->describe(), "two0 port 1, RoCE v2, GID 5 (10.0.0.9), MTU 4096");
  settings.gid_index = 7;
  expect_refusal(
      "COHORT_IB_GID_INDEX=7: it has no such GID, but 0 (10.0.0.8, RoCE v2), 5 (10.0.0.9, RoCE v2)");
  settings.gid_index.reset();
  settings.port = 2;
  expect_refusal("has no port 2");
  settings.device = "three0";
  expect_refusal("COHORT_IB_HCA=three0: there is no such device, but one0, two0");
}

TEST_F(ChoosePort, fabrics_are_equal_where_ports_reach_each_other) {
  const auto fabric_of = [&](const ibv_gid_entry& gid, bool is_ethernet) {
    fake.devices = {FakeDevice{.is_ethernet = is_ethernet, .gids = {gid}}};
    return choose().port->fabric();
  };
  const std::uint64_t roce = fabric_of(FakeVerbs::ipv4(0, 1), true);
  EXPECT_EQ(roce, fabric_of(FakeVerbs::ipv4(4, 200), true));
  EXPECT_NE(roce, fabric_of(FakeVerbs::gid(0, IBV_GID_TYPE_ROCE_V2, 0x20), true));
  EXPECT_NE(roce, fabric_of(FakeVerbs::gid(0, IBV_GID_TYPE_ROCE_V1, 0xfe), true));
  const std::uint64_t subnet = fabric_of(FakeVerbs::gid(0, IBV_GID_TYPE_IB, 0xfe), false);
  EXPECT_EQ(subnet, 0xfe80000000000000);
  EXPECT_NE(subnet, fabric_of(FakeVerbs::gid(0, IBV_GID_TYPE_IB, 0xfd), false));
  EXPECT_NE(fabric_of(FakeVerbs::gid(0, IBV_GID_TYPE_IB, 0), false), 0U);
}

/// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(Settings, come_from_the_environment) {
  const Variable variables[] = {{"COHORT_IB_HCA", "mlx5_0:2"},
                                {"COHORT_IB_GID_INDEX", "3"},
                                {"COHORT_IB_TC", "106"},
                                {"COHORT_IB_SL", "5"},
                                {"COHORT_IB_TIMEOUT", "20"},
                                {"COHORT_IB_RETRY_CNT", "7"},
                                {"COHORT_IB_QPS_PER_CONNECTION", "16"}};
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.device, "mlx5_0");
  EXPECT_EQ(settings.port, 2);
  EXPECT_EQ(settings.gid_index, 3);
  EXPECT_EQ(settings.traffic_class, 106);
  EXPECT_EQ(settings.service_level, 5);
  EXPECT_EQ(settings.timeout, 20);
  EXPECT_EQ(settings.retry_count, 7);
  EXPECT_EQ(settings.pairs, 16);
}

TEST(Settings, that_no_device_could_have_are_refused) {
  const std::pair<const char*, const char*> wrong[] = {{"COHORT_IB_HCA", "mlx5_0:0"},
                                                       {"COHORT_IB_HCA", "mlx5_0:x"},
                                                       {"COHORT_IB_GID_INDEX", "-1"},
                                                       {"COHORT_IB_TC", "256"},
                                                       {"COHORT_IB_SL", "16"},
                                                       {"COHORT_IB_TIMEOUT", "0"},
                                                       {"COHORT_IB_TIMEOUT", "32"},
                                                       {"COHORT_IB_RETRY_CNT", "8"},
                                                       {"COHORT_IB_QPS_PER_CONNECTION", "0"},
                                                       {"COHORT_IB_QPS_PER_CONNECTION", "17"}};
  for (const auto& [name, value] : wrong) {
    const Variable variable(name, value);
    EXPECT_THROW((void)Settings::from_environment(), Error) << name << "=" << value;
  }
}

}  // namespace
}  // namespace cohort::verbs::port_test
