// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/payload.h>

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <vector>

namespace cohort::framed::payload_test {
namespace {

using ::testing::Each;

void add(const Reducer&, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i)
    inout[i] = static_cast<std::byte>(std::to_integer<int>(inout[i]) + std::to_integer<int>(in[i]));
}

constexpr std::size_t kBlockBytes = 4096;
constexpr Reducer kAddWords{.fold = add, .element_bytes = 4};

void stage(ReceiveBuffer& staging, std::size_t bytes) {
  const std::span<std::byte> room = staging.room(bytes);
  std::memset(room.data(), 1, bytes);
  staging.append(bytes);
}

TEST(Payload, of_nothing_is_complete) { EXPECT_TRUE(Payload().is_complete()); }

TEST(Payload, takes_what_is_staged_and_leaves_what_stands_behind) {
  ReceiveBuffer staging(kBlockBytes);
  std::array<std::byte, 8> to{};
  Payload payload(to.data(), to.size(), nullptr);
  stage(staging, 5);
  payload.take(staging);
  EXPECT_EQ(payload.left(), 3U);
  stage(staging, 10);
  payload.take(staging);
  EXPECT_TRUE(payload.is_complete());
  EXPECT_EQ(staging.size(), 7U);
  EXPECT_THAT(to, Each(std::byte{1}));
}

TEST(Payload, combines_whole_elements_only) {
  ReceiveBuffer staging(kBlockBytes);
  std::array<std::byte, 8> to{};
  to.fill(std::byte{2});
  Payload payload(to.data(), to.size(), &kAddWords);
  stage(staging, 6);
  payload.take(staging);
  EXPECT_EQ(payload.left(), 4U);
  EXPECT_EQ(staging.size(), 2U);
  stage(staging, 2);
  payload.take(staging);
  EXPECT_TRUE(payload.is_complete());
  EXPECT_EQ(staging.size(), 0U);
  EXPECT_THAT(to, Each(std::byte{3}));
}

}  // namespace
}  // namespace cohort::framed::payload_test
