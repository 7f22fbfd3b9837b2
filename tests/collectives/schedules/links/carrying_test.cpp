// SPDX-License-Identifier: Apache-2.0
// How hosts cut each other's vectors. What is made of it is the checker's.
#include <cohort/collectives/schedules/links/carrying.h>

#include <gtest/gtest.h>

#include <vector>

namespace cohort::carrying_test {
namespace {

/// Hosts of 1, 2, 4 and 3 ranks.
const Hosts& hosts() {
  static const std::vector<Rank> host_of = {0, 1, 1, 2, 2, 2, 2, 3, 3, 3};
  static const Hosts hosts(host_of);
  return hosts;
}

TEST(HostVectors, of_blocks_have_one_for_each_rank) {
  const HostVectors vectors = HostVectors::of_blocks(hosts(), 20, 4);
  for (Rank host = 0; host < hosts().count(); ++host)
    for (Rank place = 0; place < hosts().size_of(host); ++place) {
      const HostVectors::Range block = vectors.part(host, place, hosts().size_of(host));
      EXPECT_EQ(block.begin, place * std::size_t{20});
      EXPECT_EQ(block.bytes(), 20U);
    }
}

/// Each rank has its own block as its slice; what lies between is cut by the number of blocks.
TEST(HostVectors, of_blocks_that_differ_are_cut_by_their_number) {
  const std::vector<std::size_t> counts = {3, 0, 5, 2, 1, 0, 4, 7, 0, 9};
  constexpr std::size_t kElement = 4;
  const OperatorArguments of{.count = 9, .element_bytes = kElement, .counts = counts};
  const HostVectors vectors = HostVectors::of_blocks(hosts(), BlockList(WindowId::send, of), kElement);
  for (Rank host = 0; host < hosts().count(); ++host) {
    std::size_t end = 0;
    for (Rank place = 0; place < hosts().size_of(host); ++place) {
      const HostVectors::Range block = vectors.part(host, place, hosts().size_of(host));
      EXPECT_EQ(block.begin, end);
      EXPECT_EQ(block.bytes(), counts[hosts().ranks_of(host)[place]] * kElement);
      end = block.end;
    }
  }
  // Host 2 has 2, 1, 0 and 4 elements: of 3 parts each is a block and a third.
  EXPECT_EQ(vectors.part(2, 0, 3).end, 2 * kElement);
  EXPECT_EQ(vectors.part(2, 1, 3).end, 3 * kElement);
  EXPECT_EQ(vectors.part(2, 2, 3).end, 7 * kElement);
}

/// Whatever their hosts' bandwidths.
void expect_parts_to_follow_one_another(const Hosts& of) {
  constexpr std::size_t kElement = 4;
  for (std::size_t count = 0; count < 100; ++count) {
    const HostVectors vectors = HostVectors::of_vector(of, count * kElement, kElement);
    std::size_t end = 0;
    for (Rank host = 0; host < of.count(); ++host) {
      const HostVectors::Range whole = vectors.of_host(host);
      EXPECT_EQ(whole.begin, end);
      end = whole.end;
      for (Rank parts = 1; parts < 6; ++parts) {
        std::size_t end_of_part = 0;
        for (Rank index = 0; index < parts; ++index) {
          const HostVectors::Range part = vectors.part(host, index, parts);
          EXPECT_EQ(part.begin, end_of_part);
          EXPECT_EQ(part.end % kElement, 0U);
          end_of_part = part.end;
        }
        EXPECT_EQ(end_of_part, whole.bytes());
      }
    }
    EXPECT_EQ(end, count * kElement);
  }
}

TEST(HostVectors, of_a_vector_follow_one_another_and_so_do_their_parts) {
  expect_parts_to_follow_one_another(hosts());
  expect_parts_to_follow_one_another(hosts().with_bandwidths(std::vector<std::uint32_t>{3, 1, 50, 2}));
}

TEST(HostVectors, of_a_vector_are_as_large_as_bandwidths_say) {
  const Hosts faster = hosts().with_bandwidths(std::vector<std::uint32_t>{1, 4, 2, 1});
  const HostVectors vectors = HostVectors::of_vector(faster, 320, 4);
  EXPECT_EQ(vectors.of_host(0).bytes(), 40U);
  EXPECT_EQ(vectors.of_host(1).bytes(), 160U);
  EXPECT_EQ(vectors.of_host(2).bytes(), 80U);
  EXPECT_EQ(vectors.of_host(3).bytes(), 40U);
}

/// What Needs asks links for.
TEST(HostVectors, parts_have_elements_in_common_only_where_their_fractions_overlap) {
  const Hosts one_host(1);
  std::size_t found = 0;
  for (std::size_t count = 1; count < 100; ++count) {
    const HostVectors vectors = HostVectors::of_vector(one_host, count, 1);
    for (Rank parts = 1; parts < 8; ++parts)
      for (Rank others = 1; others < 8; ++others)
        for (Rank one = 0; one < parts; ++one)
          for (Rank other = 0; other < others; ++other) {
            const bool do_overlap = one * others < (other + 1) * parts && other * parts < (one + 1) * others;
            const HostVectors::Range mine = vectors.part(0, one, parts);
            const std::size_t common = mine.common_with(vectors.part(0, other, others)).bytes();
            found += common;
            if (!do_overlap) {
              ASSERT_EQ(common, 0U) << one << "/" << parts << " and " << other << "/" << others;
            }
          }
  }
  EXPECT_GT(found, 0U);
}

}  // namespace
}  // namespace cohort::carrying_test
