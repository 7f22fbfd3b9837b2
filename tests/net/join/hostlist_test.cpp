// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/hostlist.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace cohort::hostlist_test {
namespace {

using ::testing::HasSubstr;
using Hosts = std::vector<std::string>;

Hosts expand(const std::string& text) { return expand_hostlist(text, "LIST"); }

std::string refusal_of(const std::string& text) {
  try {
    (void)expand(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::InvalidArgument);
    return std::string(error.message());
  }
  return "it was taken";
}

TEST(Hostlist, is_expanded_in_its_order) {
  EXPECT_EQ(expand("h1"), Hosts{"h1"});
  EXPECT_EQ(expand("h[1-3,5]"), (Hosts{"h1", "h2", "h3", "h5"}));
  EXPECT_EQ(expand("h[08-11]"), (Hosts{"h08", "h09", "h10", "h11"}));
  EXPECT_EQ(expand("n[007-010]"), (Hosts{"n007", "n008", "n009", "n010"}));
  EXPECT_EQ(expand("a[0-1]b[0-1]"), (Hosts{"a0b0", "a0b1", "a1b0", "a1b1"}));
  EXPECT_EQ(expand("rack[0-1]n[01-02]"), (Hosts{"rack0n01", "rack0n02", "rack1n01", "rack1n02"}));
  EXPECT_EQ(expand("x,y[1],z"), (Hosts{"x", "y1", "z"}));
}

TEST(Hostlist, keeps_what_stands_around_the_brackets) {
  EXPECT_EQ(expand("n[9-10].rack-1.example"), (Hosts{"n9.rack-1.example", "n10.rack-1.example"}));
  EXPECT_EQ(expand("n[5]"), Hosts{"n5"});
  EXPECT_EQ(expand("[1-2]"), (Hosts{"1", "2"}));
  EXPECT_EQ(expand("n[3,1,2]"), (Hosts{"n3", "n1", "n2"}));
  EXPECT_EQ(expand("n1,n1"), (Hosts{"n1", "n1"}));
}

TEST(Hostlist, that_is_none_is_refused_with_the_place) {
  EXPECT_THAT(refusal_of("n[1"), HasSubstr("LIST='n[1': ']' is missing at character 4"));
  EXPECT_THAT(refusal_of("n[3-1]"), HasSubstr("3 is above 1"));
  EXPECT_THAT(refusal_of("n[]"), HasSubstr("a number is missing at character 3"));
  EXPECT_THAT(refusal_of("n[1-]"), HasSubstr("a number is missing"));
  EXPECT_THAT(refusal_of("n[1,]"), HasSubstr("a number is missing"));
  EXPECT_THAT(refusal_of("n[a]"), HasSubstr("a number is missing"));
  EXPECT_THAT(refusal_of("n[1[2]]"), HasSubstr("']' is missing"));
  EXPECT_THAT(refusal_of("n1]"), HasSubstr("']' does not belong there"));
  EXPECT_THAT(refusal_of("n[01-2]"), HasSubstr("zeros of different widths"));
  EXPECT_THAT(refusal_of("n[1-010]"), HasSubstr("zeros of different widths"));
  EXPECT_THAT(refusal_of(""), HasSubstr("a host is missing"));
  EXPECT_THAT(refusal_of("a,,b"), HasSubstr("a host is missing at character 3"));
  EXPECT_THAT(refusal_of("a,"), HasSubstr("a host is missing"));
  EXPECT_THAT(refusal_of("a b"), HasSubstr("' ' does not belong there"));
  EXPECT_THAT(refusal_of("n[0-99999999999]"), HasSubstr("more than 9 digits"));
  EXPECT_THAT(refusal_of("n[1-70000]"), HasSubstr("more than 65536 hosts"));
  EXPECT_THAT(refusal_of("n[1-999]m[1-999]"), HasSubstr("more than 65536 hosts"));
}

TEST(Hostlist, is_written_shortly) {
  EXPECT_EQ(compress_hostlist(Hosts{"h1", "h2", "h3", "h5"}), "h[1-3,5]");
  EXPECT_EQ(compress_hostlist(Hosts{"h08", "h09", "h10"}), "h[08-10]");
  EXPECT_EQ(compress_hostlist(Hosts{"n9", "n10"}), "n[9-10]");
  EXPECT_EQ(compress_hostlist(Hosts{"n9", "n010"}), "n[9,010]");
  EXPECT_EQ(compress_hostlist(Hosts{"x", "y1", "z"}), "x,y1,z");
  EXPECT_EQ(compress_hostlist(Hosts{}), "");
}

TEST(Hostlist, comes_back_as_it_was_however_it_is_made) {
  std::mt19937 draw(20240401);
  const auto below = [&](unsigned end) { return static_cast<unsigned>(draw() % end); };
  for (int round = 0; round < 10'000; ++round) {
    Hosts hosts;
    const unsigned count = 1 + below(12);
    for (unsigned i = 0; i < count; ++i) {
      const std::string name = std::string(1, "abn"[below(3)]) + (below(4) == 0 ? "7-" : "");
      const std::string number = below(5) == 0   ? ""
                                 : below(2) == 0 ? fmt::format("{:0{}}", below(120), 1 + below(4))
                                                 : std::to_string(below(15));
      hosts.push_back(name + number + (below(3) == 0 ? ".example" : ""));
    }
    const std::string text = compress_hostlist(hosts);
    ASSERT_EQ(expand(text), hosts) << "round " << round << ": " << text;
  }
}

TEST(HostCounts, are_expanded) {
  using Counts = std::vector<std::size_t>;
  EXPECT_EQ(expand_counts("2(x3),1", "C"), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(expand_counts("4", "C"), Counts{4});
  EXPECT_EQ(expand_counts("1,2,1", "C"), (Counts{1, 2, 1}));
  for (const char* text : {"", "2(", "2(x", "2(x3", "2(3)", "a", "2(x3)1", "1,", "2(x70000)"})
    EXPECT_THROW((void)expand_counts(text, "C"), Error) << text;
}

}  // namespace
}  // namespace cohort::hostlist_test
