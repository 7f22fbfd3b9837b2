// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/interfaces.h>

#include <cohort/engine/io/ports.h>
#include <cohort/engine/io/reserved_ports.h>
#include <cohort/engine/io/route.h>
#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cohort::interfaces_test {
namespace {

using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

InterfaceAddress at(const char* interface, const char* host, unsigned bits, bool is_up = true) {
  return {interface, Address::parse_numeric(std::string(host) + ":0"), bits, is_up};
}

const std::vector<InterfaceAddress> kOfHost = {
    at("lo", "127.0.0.1", 8),      at("docker0", "172.17.0.1", 16),  at("eth0", "10.0.0.5", 24),
    at("eth1", "192.168.7.5", 24), at("ib0", "10.9.0.5", 16, false), at("lo", "[::1]", 128),
    at("eth0", "[fd00::5]", 64),
};

std::string chosen(const std::string& choice, const char* peer, const char* routed = nullptr) {
  std::optional<Address> way;
  if (routed != nullptr) way = Address::parse_numeric(routed);
  const InterfaceChoice parsed = choice.empty() ? InterfaceChoice() : InterfaceChoice::parse(choice, "X");
  return choose_own_address(parsed, kOfHost, Address::parse_numeric(peer), way).to_string();
}

TEST(InterfaceChoice, takes_names_beginnings_and_networks_and_excludes) {
  const auto allowed = [](const std::string& text) {
    const InterfaceChoice choice = InterfaceChoice::parse(text, "X");
    std::set<std::string> names;
    for (const InterfaceAddress& one : kOfHost)
      if (choice.allows(one)) names.insert(one.interface);
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(allowed("eth0"), Names{"eth0"});
  EXPECT_EQ(allowed("eth*"), (Names{"eth0", "eth1"}));
  EXPECT_EQ(allowed("eth1,docker0"), (Names{"eth1", "docker0"}));
  EXPECT_EQ(allowed("10.0.0.0/8"), (Names{"eth0", "ib0"}));
  EXPECT_EQ(allowed("fd00::/16"), Names{"eth0"});
  EXPECT_EQ(allowed("^docker0,lo"), (Names{"eth0", "eth1", "ib0"}));
  EXPECT_EQ(allowed("^10.0.0.0/8,fd00::/8"), (Names{"lo", "docker0", "eth1"}));
}

TEST(InterfaceChoice, that_is_none_is_refused) {
  for (const char* text :
       {"", "^", "eth0,", ",eth0", "eth0,^eth1", "10.0.0.0/33", "10.0/8/8", "10.0.0.0/", "cafe/8"})
    EXPECT_EQ(kind_of(error_from([&] { (void)InterfaceChoice::parse(text, "X"); })), "InvalidArgument")
        << text;
}

TEST(OwnAddress, is_that_of_the_way_to_the_peer_unless_it_is_excluded) {
  EXPECT_EQ(chosen("", "10.0.0.9:1", "10.0.0.5:0"), "10.0.0.5:0");
  EXPECT_EQ(chosen("eth1", "10.0.0.9:1", "10.0.0.5:0"), "192.168.7.5:0");
  EXPECT_EQ(chosen("eth1,eth0", "10.0.0.9:1", "10.0.0.5:0"), "10.0.0.5:0");
  EXPECT_EQ(chosen("^eth0", "192.168.7.9:1"), "192.168.7.5:0") << "of the peer's network";
  EXPECT_EQ(chosen("eth*", "8.8.8.8:1"), "10.0.0.5:0") << "the first that others may reach";
  EXPECT_EQ(chosen("eth*", "[fd00::9]:1"), "[fd00::5]:0");
}

TEST(OwnAddress, that_is_left_by_no_interface_is_told_with_what_there_is) {
  const auto none = error_from([] { (void)chosen("ib0", "10.9.0.9:1"); });
  ASSERT_EQ(kind_of(none), "InvalidArgument");
  EXPECT_THAT(none->what(), HasSubstr("COHORT_SOCKET_IFNAME='ib0' leaves no IPv4 address that is up"));
  EXPECT_THAT(none->what(), HasSubstr("ib0 10.9.0.5/16 (down)"));
}

TEST(OwnAddress, of_this_host_is_one_of_its_own) {
  EXPECT_FALSE(interface_addresses().empty());
  EXPECT_NO_THROW((void)choose_own_address(InterfaceChoice()));
}

TEST(Route, of_a_link_takes_the_link_that_is_known_here) {
  const Address peer = Address::parse_numeric("[fe80::7]:80");
  EXPECT_EQ(route::on_link_of(peer, Address::parse_numeric("[fe80::1%lo]:9")).to_string(), "[fe80::7%lo]:80");
  EXPECT_EQ(route::on_link_of(peer, Address::parse_numeric("10.0.0.1:9")), peer);
  const Address wide = Address::parse_numeric("[fd00::7]:80");
  EXPECT_EQ(route::on_link_of(wide, Address::parse_numeric("[fe80::1%lo]:9")), wide);
}

TEST(PortRange, is_two_ports) {
  const PortRange range = PortRange::parse("29400-29499", "X");
  EXPECT_EQ(range.low, 29400);
  EXPECT_EQ(range.count(), 100U);
  for (const char* text : {"", "5", "5-", "-5", "6-5", "0-5", "5-65536", "a-b"})
    EXPECT_EQ(kind_of(error_from([&] { (void)PortRange::parse(text, "X"); })), "InvalidArgument") << text;
}

TEST(ReservedPort, is_of_the_range_and_of_nobody_else_until_all_are_taken) {
  const Address host = Address::parse_numeric("127.0.0.1:0");
  const ReservedPort any(host, std::nullopt);
  const std::uint16_t port = any.address().port();
  EXPECT_NE(port, 0);
  const Address beside = Address::parse_numeric("127.0.0.2:0");
  const PortRange range{port, port};
  const ReservedPort first(beside, range);
  EXPECT_EQ(first.address().port(), port);
}

TEST(ReservedPorts, are_given_back_when_their_time_is_over) {
  constexpr Duration kKept = std::chrono::minutes(10);
  const Address host = Address::parse_numeric("127.0.0.1:0");
  const TimePoint begin{};
  const std::size_t open = descriptor_limit::count_open();
  ReservedPorts ports(kKept);
  const std::uint16_t first = ports.add(host, std::nullopt, begin).port();
  EXPECT_NE(ports.add(host, std::nullopt, begin + kKept - Duration(1)).port(), first);
  EXPECT_EQ(descriptor_limit::count_open(), open + 2);
  for (int hour = 1; hour < 30; ++hour) {
    (void)ports.add(host, std::nullopt, begin + std::chrono::hours(hour));
    EXPECT_EQ(descriptor_limit::count_open(), open + 1) << hour;
  }
  EXPECT_EQ(ports.size(), 1U);
}

TEST(ListenWithin, tries_each_port_once_and_tells_when_none_is_free) {
  std::set<std::uint16_t> tried;
  const auto refuse = [&](const Address& address) -> int {
    EXPECT_TRUE(tried.insert(address.port()).second);
    throw Error(ErrorKind::SystemError, "taken");
  };
  const PortRange range{7000, 7004};
  const auto none =
      error_from([&] { (void)listen_within(range, Address::parse_numeric("127.0.0.1:0"), refuse); });
  ASSERT_EQ(kind_of(none), "ResourceLimit");
  EXPECT_THAT(none->what(), HasSubstr("all 5 ports from 7000 to 7004 are taken at 127.0.0.1"));
  EXPECT_EQ(tried.size(), 5U);
}

}  // namespace
}  // namespace cohort::interfaces_test
