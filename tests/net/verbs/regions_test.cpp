// SPDX-License-Identifier: Apache-2.0
// Memory that a device reaches, up to the limit on locked memory, over a library that is made up.
#include <cohort/tests/net/verbs/verbs_streams.h>

namespace cohort::verbs::regions_test {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

class RegionsOfADevice : public VerbsStreams {
 protected:
  Regions& regions() { return device->regions(); }
  Regions::Region lend(const Bytes& memory) { return regions().of(memory, Regions::Use::lend); }
  Regions::Region fill(const Bytes& memory) { return regions().of(memory, Regions::Use::fill); }
  /// From now on so much more can be registered.
  void leave(std::size_t bytes) { fake.most_memory = fake.registered_bytes + bytes; }

  Bytes first_ = Bytes(kBytes);
  Bytes second_ = Bytes(kBytes);
};

TEST_F(RegionsOfADevice, that_nobody_uses_make_room_for_others) {
  regions().declare(first_);
  leave(kBytes);
  EXPECT_TRUE(lend(first_));
  EXPECT_TRUE(lend(second_));
  EXPECT_TRUE(lend(first_)) << "and are registered anew";
}

TEST_F(RegionsOfADevice, that_are_used_stay) {
  regions().declare(first_);
  leave(kBytes);
  const Regions::Region used = lend(first_);
  const std::uint32_t key = used->rkey;
  EXPECT_FALSE(lend(second_));
  EXPECT_EQ(lend(first_)->rkey, key);
}

/// The kernel takes locks and looks at pages to say no.
TEST_F(RegionsOfADevice, are_not_asked_for_over_and_over_at_the_limit) {
  leave(0);
  for (int times = 0; times < 5; ++times) EXPECT_FALSE(fill(first_));
  EXPECT_EQ(fake.refused_registrations, 1);
}

TEST_F(RegionsOfADevice, are_asked_for_again_once_one_was_given_back) {
  leave(kBytes);
  Regions::Region used = fill(first_);
  EXPECT_FALSE(fill(second_));
  used.reset();
  EXPECT_TRUE(fill(second_));
}

TEST_F(RegionsOfADevice, are_asked_for_again_once_one_was_forgotten) {
  leave(0);
  regions().declare(first_);
  EXPECT_FALSE(lend(second_));
  fake.most_memory = ~0UL;
  regions().forget(first_.data());
  EXPECT_TRUE(lend(second_)) << "its owner has unlocked what it held";
}

TEST_F(RegionsOfADevice, of_memory_that_cannot_be_registered_say_nothing_of_others) {
  fake.refuses_memory = EFAULT;
  EXPECT_FALSE(fill(first_));
  fake.refuses_memory = 0;
  EXPECT_TRUE(fill(second_));
}

TEST_F(RegionsOfADevice, cover_what_lies_within_declared_memory_and_nothing_beyond) {
  regions().declare(first_);
  const auto key_of = [&](std::size_t at, std::size_t bytes) {
    const Regions::Region region = regions().of({first_.data() + at, bytes}, Regions::Use::lend);
    return region ? region->rkey : 0;
  };
  const std::uint32_t whole = key_of(0, kBytes);
  EXPECT_EQ(key_of(kBytes - 1, 1), whole);
  EXPECT_EQ(key_of(100, kBytes - 100), whole);
  EXPECT_NE(key_of(kBytes / 2, kBytes), whole);
  EXPECT_EQ(key_of(kBytes, 1), 0U) << "too small to be lent once";
}

TEST_F(RegionsOfADevice, that_were_withdrawn_end_with_their_users) {
  regions().declare(first_);
  const std::size_t before = fake.registered_bytes;
  Regions::Region used = lend(first_);
  regions().withdraw(std::span(first_).subspan(10, 20));
  EXPECT_EQ(fake.registered_bytes, before + kBytes);
  used.reset();
  EXPECT_EQ(fake.registered_bytes, before);
}

}  // namespace
}  // namespace cohort::verbs::regions_test
