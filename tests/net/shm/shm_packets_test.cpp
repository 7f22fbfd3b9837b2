// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/tuning.h>
#include <cohort/net/shm/shm_packets.h>

#include <cohort/net/transport_list.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/world_engine.h>

#include <gtest/gtest.h>

#include <numeric>

namespace cohort::test::shm_packets_test {
namespace {

/// The packets from rank 0 to rank 1, at both ends, and what they lie in.
struct Channel {
  host::HostGroup& sender_group;
  shm::ShmPackets& sender;
  shm::ShmPackets& receiver;
};

template <class Body>
void with_channel(Body& body) {
  WorldEngine engine;
  const LinkEnd::Choice choice{.address = fresh_unix_address(), .kind = cohort::transports()[0]};
  std::array<std::unique_ptr<LinkEnd>, 2> ends;
  auto make = [&](Rank rank) -> Task<> {
    std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine, rank, choice);
    ends[rank] = std::move(end);
  };
  auto whole = [&]() -> Task<> {
    co_await when_all(make(0), make(1));
    {
      FakeHost host;
      host::HostGroup& group = *ends[0]->transports().group();
      shm::ShmPackets sender(group, host, 1);
      shm::ShmPackets receiver(*ends[1]->transports().group(), host, 0);
      body(Channel{group, sender, receiver});
    }
    for (const auto& end : ends) co_await end->finish();
  };
  engine.run(whole());
}

std::vector<std::byte> numbered(std::size_t bytes, int from) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(i / 7 + static_cast<std::size_t>(from));
  return data;
}

Packet message_of(const std::vector<std::byte>& data) {
  return {.kind = Packet::Kind::message, .bytes = data.size()};
}

void expect_next(shm::ShmPackets& receiver, const std::vector<std::byte>& data) {
  Packet packet;
  ASSERT_TRUE(receiver.peek(packet));
  ASSERT_EQ(packet.bytes, data.size());
  std::vector<std::byte> got(data.size() + 1);
  ASSERT_TRUE(receiver.take(got.data()));
  got.pop_back();
  EXPECT_EQ(got, data);
}

TEST(ShmPackets, of_several_parts_go_round_the_ring_between_small_ones) {
  auto body = [](const Channel& channel) {
    for (int round = 0; round < 100; ++round) {
      const std::vector<std::byte> large =
          numbered(channel.sender.most_payload() - static_cast<std::size_t>(round), round);
      const std::vector<std::byte> small = numbered(static_cast<std::size_t>(round), round);
      ASSERT_TRUE(channel.sender.try_send(message_of(large), large.data()));
      ASSERT_TRUE(channel.sender.try_send(message_of(small), small.data()));
      expect_next(channel.receiver, large);
      expect_next(channel.receiver, small);
    }
  };
  with_channel(body);
}

TEST(ShmPackets, take_as_many_as_there_is_room_for_whole) {
  auto body = [](const Channel& channel) {
    const std::vector<std::byte> large = numbered(channel.sender.most_payload(), 1);
    const std::vector<std::byte> small = numbered(8, 2);
    ASSERT_TRUE(channel.sender.try_send(message_of(small), small.data()));
    int sent = 0;
    while (channel.sender.try_send(message_of(large), large.data())) ++sent;
    EXPECT_EQ(sent, (tuning::messages::kCells - 1) / tuning::messages::kMostCells);
    EXPECT_FALSE(channel.sender.has_room()) << "whoever waits for it would try in vain";
    EXPECT_TRUE(channel.sender.try_send(message_of(small), small.data())) << "one cell is left";
    expect_next(channel.receiver, small);
    for (int i = 0; i < sent; ++i) expect_next(channel.receiver, large);
    expect_next(channel.receiver, small);
    EXPECT_TRUE(channel.sender.has_room());
    EXPECT_TRUE(channel.sender.try_send(message_of(large), large.data()));
    expect_next(channel.receiver, large);
  };
  with_channel(body);
}

/// As if the sender were held up amid its copy.
TEST(ShmPackets, whose_last_part_is_late_are_taken_whole_wherever_they_go_then) {
  auto body = [](const Channel& channel) {
    const std::vector<std::byte> data = numbered(channel.sender.most_payload(), 3);
    ASSERT_TRUE(channel.sender.try_send(message_of(data), data.data()));
    host::Counter& last = channel.sender_group.own().packet(1, tuning::messages::kMostCells - 1).stamp;
    last.store(0);
    std::vector<std::byte> given_up(data.size());
    Packet packet;
    ASSERT_TRUE(channel.receiver.peek(packet));
    EXPECT_FALSE(channel.receiver.take(given_up.data()));
    EXPECT_FALSE(channel.receiver.take(given_up.data()));
    last.store(tuning::messages::kMostCells);
    expect_next(channel.receiver, data);
    EXPECT_FALSE(channel.receiver.peek(packet));
  };
  with_channel(body);
}

/// A receiver has given it a place by then.
TEST(ShmPackets, keep_the_size_that_they_had_when_they_were_first_looked_at) {
  auto body = [](const Channel& channel) {
    const std::vector<std::byte> data = numbered(tuning::messages::kCell + 1, 4);
    ASSERT_TRUE(channel.sender.try_send(message_of(data), data.data()));
    host::PacketCell& first = channel.sender_group.own().packet(1, 0);
    host::Counter& last = channel.sender_group.own().packet(1, 1).stamp;
    last.store(0);
    Packet packet;
    ASSERT_TRUE(channel.receiver.peek(packet));
    std::vector<std::byte> place(data.size());
    EXPECT_FALSE(channel.receiver.take(place.data()));
    first.bytes = channel.sender.most_payload();
    last.store(2);
    expect_next(channel.receiver, data);
  };
  with_channel(body);
}

}  // namespace
}  // namespace cohort::test::shm_packets_test
