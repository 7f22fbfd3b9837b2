// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/host/payload_ring.h>

#include <cohort/engine/tuning.h>
#include <cohort/net/host/segment.h>

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace cohort::host::payload_ring_test {
namespace {

TEST(PayloadRing, neighbours_never_overlap_nor_leave_the_ring) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  PayloadRing ring;
  std::size_t begin = 0;
  std::size_t end = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t bytes = random() % (random() % 3 == 0 ? tuning::slots::kMostBytes : 20'000) + 1;
    const std::size_t ring_bytes = random() % (2 * PayloadRing::kMostBytes);
    const std::size_t at = ring.take(bytes, ring_bytes);
    ASSERT_TRUE(at + bytes <= begin || end <= at) << bytes << " bytes at " << at << " after " << begin;
    ASSERT_LE(at + bytes, PayloadRing::kMostBytes);
    ASSERT_EQ(at % kCacheLine, 0);
    begin = at;
    end = at + bytes;
  }
}

TEST(PayloadRing, a_place_is_written_again_only_when_all_of_the_ring_was) {
  for (const std::size_t ring_bytes : {PayloadRing::kMostBytes, PayloadRing::kMostBytes / 32}) {
    PayloadRing ring;
    std::set<std::size_t> places;
    for (std::size_t written = 0; written < ring_bytes; written += ring_bytes / 8)
      EXPECT_TRUE(places.insert(ring.take(ring_bytes / 8, ring_bytes)).second);
    EXPECT_EQ(ring.take(ring_bytes / 8, ring_bytes), 0);
  }
}

}  // namespace
}  // namespace cohort::host::payload_ring_test
