// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/reduction/copy.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cohort::copy_test {
namespace {

std::vector<std::byte> numbered_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(CopyTest, copies_exactly_the_bytes_asked_for) {
  const std::vector<std::byte> source = numbered_bytes(9000);
  for (const Stores stores : {Stores::cached, Stores::streaming}) {
    for (const std::size_t bytes :
         {0U, 1U, 63U, 64U, 65U, 255U, 256U, 257U, 1536U, 1537U, 3072U, 4096U, 8191U}) {
      for (std::size_t shift = 0; shift < 70; shift += 3) {
        std::vector<std::byte> expected(9000, std::byte{0xA5});
        std::vector<std::byte> target = expected;
        std::copy_n(source.begin() + 11, bytes, expected.begin() + static_cast<std::ptrdiff_t>(shift));
        copy(target.data() + shift, source.data() + 11, bytes, stores);
        ASSERT_EQ(target, expected) << bytes << " bytes to offset " << shift;
      }
    }
  }
}

TEST(CopyTest, copy_onto_itself_changes_nothing) {
  std::vector<std::byte> bytes = numbered_bytes(1000);
  copy(bytes.data(), bytes.data(), bytes.size(), Stores::streaming);
  copy(bytes.data(), bytes.data(), bytes.size(), Stores::cached);
  EXPECT_EQ(bytes, numbered_bytes(1000));
}

}  // namespace
}  // namespace cohort::copy_test
