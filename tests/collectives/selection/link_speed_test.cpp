// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/link_speed.h>

#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace cohort::link_speed_test {
namespace {

using test::error_from;
using test::kind_of;

LinkSpeed speed(double message_us, double byte_us, double ranks_per_core, std::size_t cache_bytes) {
  LinkSpeed speed;
  speed.message_us = message_us;
  speed.byte_us = byte_us;
  speed.ranks_per_core = ranks_per_core;
  speed.cache_bytes = cache_bytes;
  return speed;
}

TEST(LinkSpeed, is_measured_on_this_host) {
  Engine engine;
  const LinkSpeed measured = engine.run(LinkSpeed::measure(engine, 2.5));
  const LinkSpeed assumed;
  EXPECT_NE(measured.message_us, assumed.message_us);
  EXPECT_NE(measured.byte_us, assumed.byte_us);
  EXPECT_NE(measured.combine_us, assumed.combine_us);
  EXPECT_NE(measured.copy_us, assumed.copy_us);
  EXPECT_GT(measured.message_us, 0);
  EXPECT_GT(measured.byte_us, 0);
  EXPECT_GT(measured.combine_us, 0);
  EXPECT_GT(measured.copy_us, 0);
  EXPECT_EQ(measured.ranks_per_core, 2.5);
  EXPECT_GE(measured.cache_bytes, std::size_t{16} << 10);
}

TEST(LinkSpeed, read_from_its_text_writes_the_same_text) {
  Engine engine;
  for (const LinkSpeed& one :
       {LinkSpeed(), speed(4.8125, 2.0625e-4, 4, 1 << 20), engine.run(LinkSpeed::measure(engine, 1))}) {
    const LinkSpeed read = LinkSpeed::parse(one.text());
    EXPECT_EQ(read.text(), one.text());
    EXPECT_EQ(LinkSpeed::parse(read.text()), read);
    EXPECT_NEAR(read.message_us, one.message_us, one.message_us / 1000);
    EXPECT_NEAR(read.byte_us, one.byte_us, one.byte_us / 1000);
    EXPECT_NEAR(read.copy_us, one.copy_us, one.copy_us / 1000);
    EXPECT_EQ(read.cache_bytes, one.cache_bytes);
  }
}

TEST(LinkSpeed, text_of_another_form_is_refused) {
  for (const std::string text :
       {"", "5", "5 1 1 1 1 1", "5 1 1 1 1 1 ", "5 1 1 1 1 1 1 ", "5 1 1 1 1 1 1 1", "5,1,1,1,1,1,1",
        "-1 1 1 1 1 1 1", "5 nan 1 1 1 1 1", "5 inf 1 1 1 1 1", "5 1e10 1 1 1 1 1", "a b c d e f g"}) {
    const auto error = error_from([&] { (void)LinkSpeed::parse(text); });
    ASSERT_EQ(kind_of(error), "ProtocolError") << text;
    EXPECT_NE(error->message().find("'" + text + "'"), std::string_view::npos) << error->what();
  }
}

TEST(LinkSpeed, ranks_agree_on_the_median_whatever_order_they_hear_each_other_in) {
  std::vector<LinkSpeed> ranks = {speed(5, 3e-4, 1, 1 << 20), speed(900, 1e-4, 4, 2 << 20),
                                  speed(6, 2e-4, 2, 1 << 19), speed(4, 5e-4, 1, 1 << 21),
                                  speed(7, 4e-4, 1, 1 << 20)};
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].copy_us = static_cast<double>(i);
  for (LinkSpeed& one : ranks) one.keeps_figures = true;
  EXPECT_TRUE(LinkSpeed::agreed(ranks).keeps_figures);
  ranks[3].keeps_figures = false;
  const LinkSpeed agreed = LinkSpeed::agreed(ranks);
  EXPECT_EQ(agreed.copy_us, 2);
  EXPECT_EQ(agreed.message_us, 6) << "one rank that was disturbed does not count";
  EXPECT_EQ(agreed.byte_us, 3e-4);
  EXPECT_EQ(agreed.ranks_per_core, 4);
  EXPECT_EQ(agreed.cache_bytes, std::size_t{1} << 19);
  EXPECT_FALSE(agreed.keeps_figures) << "all have to";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::rotate(ranks.begin(), ranks.begin() + 1, ranks.end());
    EXPECT_EQ(LinkSpeed::agreed(ranks), agreed);
  }
}

TEST(LinkSpeed, who_had_no_time_to_measure_does_not_count) {
  std::vector<LinkSpeed> ranks(3);
  EXPECT_EQ(LinkSpeed::agreed(ranks).message_us, LinkSpeed().message_us) << "nobody had";
  EXPECT_FALSE(LinkSpeed::agreed(ranks).is_measured);
  ranks[1].message_us = 70;
  ranks[1].is_measured = true;
  EXPECT_EQ(LinkSpeed::agreed(ranks).message_us, 70);
  EXPECT_TRUE(LinkSpeed::agreed(ranks).is_measured);
  EXPECT_TRUE(LinkSpeed::parse(ranks[1].text()).is_measured);
  EXPECT_FALSE(LinkSpeed::parse(ranks[0].text()).is_measured);
}

TEST(LinkSpeed, without_time_stays_as_it_was_assumed) {
  Engine engine;
  const LinkSpeed measured = engine.run(LinkSpeed::measure(engine, 2, Duration::zero()));
  EXPECT_FALSE(measured.is_measured);
  EXPECT_EQ(measured.message_us, LinkSpeed().message_us);
}

}  // namespace
}  // namespace cohort::link_speed_test
