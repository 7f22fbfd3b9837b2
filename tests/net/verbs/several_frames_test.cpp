// SPDX-License-Identifier: Apache-2.0
// A link whose device reads several payloads at once, and does so when the test says.
#include <cohort/net/framed/framed_link.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/net/verbs/verbs_streams.h>

namespace cohort::verbs::several_frames_test {
namespace {

using framed::FramedLink;
using namespace test;

constexpr std::size_t kBytes = 128 * kKiB;
constexpr std::size_t kWindowBytes = 16 * kBytes;

class SeveralFrames : public ::testing::Test {
 public:
  void SetUp() override {
    fake.devices = {FakeDevice{.gids = {FakeVerbs::ipv4(0)}}};
    device.emplace(fake.library(), *choose_port(fake.library(), settings).port, settings);
    std::array<std::unique_ptr<VerbsStream>, 2> streams;
    for (Rank rank = 0; rank < 2; ++rank)
      streams[rank] = std::make_unique<VerbsStream>(engine, *device, 1 - rank);
    for (Rank rank = 0; rank < 2; ++rank) streams[rank]->connect(streams[1 - rank]->end_point());
    for (Rank rank = 0; rank < 2; ++rank) {
      hosts[rank].expected_peer = 1 - rank;
      for (const WindowId window : {WindowId::send, WindowId::recv, WindowId::ccl_in, WindowId::ccl_out}) {
        hosts[rank].bind_own(window, kWindowBytes);
        device->regions().declare({at(rank, {window, 0, 0}), kWindowBytes});
        std::fill_n(at(rank, {window, 0, 0}), kWindowBytes, std::byte{0});
      }
      links[rank].emplace(engine, std::move(streams[rank]), hosts[rank], rank, 1 - rank, Lane{0}, "verbs");
    }
    for (std::size_t i = 0; i < kWindowBytes; ++i) at(0, in_send(0))[i] = value(i);
  }
  void TearDown() override {
    for (auto& link : links) link.reset();
    device.reset();
    EXPECT_EQ(fake.objects, 0) << "something was not given back";
  }
  /// Runs it with both links served; nothing may be left under way.
  template <class Body>
  void run(Body& body) {
    auto whole = [&]() -> Task<> {
      TaskScope services, watches;
      watches.spawn(device->watch_completions(engine));
      for (auto& link : links) services.spawn(link->serve());
      const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), body()));
      EXPECT_FALSE(error) << error->what();
      for (auto& link : links) link->shutdown();
      co_await services.join();
      watches.cancel();
      co_await watches.join();
    };
    engine.run(whole());
  }
  Task<> take_turns() {
    for (int turn = 0; turn < 30; ++turn) co_await engine.sleep_for(Duration::zero());
  }
  /// So many requests of both ends are carried out, and what they bring is taken.
  Task<> carry_out(int requests) {
    co_await take_turns();
    for (int i = 0; i < requests; ++i) EXPECT_TRUE(fake.carry_out());
    co_await take_turns();
  }
  Task<> carry_out_all() {
    fake.is_holding = false;
    fake.carry_out_all();
    co_await take_turns();
  }
  /// Counts what has completed.
  Task<> counted(Task<> one) {
    co_await one;
    ++completed;
  }

  std::byte* at(Rank rank, const Slice& slice) { return hosts[rank].state.windows.at(slice); }
  static std::byte value(std::size_t i) { return static_cast<std::byte>(1 + (i * 31 >> 4) % 200); }
  /// Whether the slice of that rank is what rank 0 has there in its `send`.
  bool has_come(const Slice& slice, Rank rank = 1) {
    return std::equal(at(rank, slice), at(rank, slice) + slice.bytes, at(0, in_send(0)) + slice.offset);
  }
  static Slice part(Slice of, std::size_t i) { return {of.window, i * kBytes, kBytes}; }

  FakeVerbs fake;
  Settings settings;
  Engine engine{without_spinning()};
  std::optional<Device> device;
  std::array<FakeHost, 2> hosts;
  std::array<std::optional<FramedLink>, 2> links;
  int completed = 0;
};

TEST_F(SeveralFrames, are_read_while_those_behind_them_come_and_complete_in_order) {
  constexpr int kCount = 4;
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    for (std::size_t i = 0; i < kCount; ++i) all.spawn(send(*links[0], part(in_send(0), i)));
    for (std::size_t i = 0; i < kCount; ++i) all.spawn(counted(recv(*links[1], part(in_recv(0), i))));
    co_await carry_out(kCount);
    EXPECT_EQ(fake.reads, kCount);
    EXPECT_EQ(completed, 0);
    for (int i = 1; i <= kCount; ++i) {
      co_await carry_out(1);
      EXPECT_EQ(completed, i);
      EXPECT_TRUE(has_come(part(in_recv(0), static_cast<std::size_t>(i - 1))));
      EXPECT_FALSE(i < kCount && has_come(part(in_recv(0), static_cast<std::size_t>(i))));
    }
    co_await carry_out_all();
    co_await all.join();
  };
  run(body);
}

TEST_F(SeveralFrames, go_on_when_their_receives_are_posted_late) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    for (std::size_t i = 0; i < 12; ++i) all.spawn(send(*links[0], part(in_send(0), i)));
    co_await take_turns();
    for (std::size_t i = 0; i < 12; ++i) {
      co_await recv(*links[1], part(in_recv(0), i));
      EXPECT_TRUE(has_come(part(in_recv(0), i)));
    }
    co_await all.join();
  };
  run(body);
}

TEST_F(SeveralFrames, are_as_many_as_were_started) {
  constexpr std::size_t kCount = 100;
  auto body = [&]() -> Task<> {
    TaskScope all;
    for (std::size_t i = 0; i < kCount; ++i) all.spawn(send(*links[0], part(in_send(0), i % 16)));
    for (std::size_t i = 0; i < kCount; ++i) all.spawn(counted(recv(*links[1], part(in_recv(0), i % 16))));
    co_await all.join();
    EXPECT_EQ(completed, static_cast<int>(kCount));
    for (std::size_t i = 0; i < 16; ++i) EXPECT_TRUE(has_come(part(in_recv(0), i)));
  };
  run(body);
}

/// Its completion queue is looked at by who waits, or by the loop, not by both.
TEST_F(SeveralFrames, that_are_waited_for_are_looked_for_once_in_a_turn) {
  auto body = [&]() -> Task<> {
    const auto polls_of_turns = [&]() -> Task<int> {
      const int before = fake.polls;
      co_await take_turns();
      co_return fake.polls - before;
    };
    const int idle = co_await polls_of_turns();
    TaskScope all;
    all.spawn(recv(*links[1], in_recv(8)));
    co_await take_turns();
    const int waiting = co_await polls_of_turns();
    EXPECT_LT(waiting, idle + idle / 4);
    co_await send(*links[0], in_send(8));
    co_await all.join();
  };
  run(body);
}

/// That of a put, and one behind it: neither is there before the bytes are.
TEST_F(SeveralFrames, are_read_before_signals_behind_them_are_told) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    const Slice there = in_ccl_in(kBytes);
    all.spawn(put(*links[0], in_send(kBytes), there, Signal::DataSignal));
    all.spawn(post(*links[0], Signal::Ack));
    all.spawn(counted(wait(*links[1], Signal::DataSignal)));
    all.spawn(counted(wait(*links[1], Signal::Ack)));
    co_await carry_out(2);
    EXPECT_EQ(fake.reads, 1);
    EXPECT_EQ(completed, 0);
    co_await carry_out(1);
    EXPECT_TRUE(has_come(there));
    EXPECT_EQ(completed, 2);
    co_await carry_out_all();
    co_await all.join();
  };
  run(body);
}

TEST_F(SeveralFrames, are_read_before_one_behind_them_is_combined) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    for (std::size_t i = 0; i < 3; ++i) all.spawn(send(*links[0], part(in_send(0), 0)));
    const Slice to = in_recv(kBytes);
    all.spawn(counted(recv(*links[1], to)));
    all.spawn(counted(recv_reduce(*links[1], to, adder(8))));
    all.spawn(counted(recv(*links[1], part(to, 1))));
    co_await carry_out(3);
    EXPECT_EQ(fake.reads, 1) << "to be combined with what is on its way";
    co_await carry_out_all();
    co_await all.join();
    EXPECT_EQ(completed, 3);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kBytes; ++i)
      wrong += at(1, to)[i] == LinkEnd::plus(value(i), value(i)) ? 0 : 1;
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(at(1, part(to, 1))[0], value(0));
  };
  run(body);
}

TEST_F(SeveralFrames, are_there_for_a_get_behind_them) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    const Slice there = in_ccl_in(kBytes);
    all.spawn(put(*links[0], in_send(kBytes), there, Signal::DataSignal));
    all.spawn(counted(get(*links[0], there, in_recv(kBytes))));
    all.spawn(wait(*links[1], Signal::DataSignal));
    co_await carry_out(2);
    EXPECT_EQ(fake.sends_posted, 3) << "a loan, a question and a read: no answer yet";
    co_await carry_out_all();
    co_await all.join();
    EXPECT_TRUE(has_come(in_recv(kBytes), 0));
  };
  run(body);
}

/// The device has stopped when their memory is their callers' again.
TEST_F(SeveralFrames, that_are_cancelled_leave_their_memory_alone) {
  auto body = [&]() -> Task<> {
    TaskScope sending, receiving;
    fake.is_holding = true;
    for (std::size_t i = 0; i < 3; ++i) sending.spawn(send(*links[0], part(in_send(0), i)));
    for (std::size_t i = 0; i < 3; ++i) receiving.spawn(counted(recv(*links[1], part(in_recv(0), i))));
    co_await carry_out(3);
    co_await carry_out(1);
    EXPECT_EQ(completed, 1);
    receiving.cancel();
    co_await receiving.join();
    co_await carry_out_all();
    EXPECT_TRUE(has_come(part(in_recv(0), 0)));
    EXPECT_EQ(at(1, part(in_recv(0), 1))[0], std::byte{0});
    EXPECT_EQ(at(1, part(in_recv(0), 2))[0], std::byte{0});
    EXPECT_EQ(hosts[1].failures.size(), 0U) << "who cancels knows";
    sending.cancel();
    co_await sending.join();
  };
  run(body);
}

/// Who lent them has the memory back.
TEST_F(SeveralFrames, whose_sender_gives_up_can_be_read_no_longer) {
  auto body = [&]() -> Task<> {
    TaskScope sending, receiving;
    for (std::size_t i = 0; i < 3; ++i) sending.spawn(send(*links[0], part(in_send(0), i)));
    co_await take_turns();
    sending.cancel();
    co_await sending.join();
    receiving.spawn(counted(recv(*links[1], part(in_recv(0), 0))));
    co_await take_turns();
    EXPECT_EQ(completed, 0);
    EXPECT_EQ(at(1, in_recv(1))[0], std::byte{0});
    EXPECT_EQ(hosts[0].failures.size(), 0U) << "who cancels knows";
    EXPECT_EQ(hosts[1].failures.size(), 1U);
    receiving.cancel();
    co_await receiving.join();
  };
  run(body);
}

TEST_F(SeveralFrames, that_fail_are_told_once_though_nothing_else_is_received) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    for (std::size_t i = 0; i < 2; ++i) all.spawn(send(*links[0], part(in_send(0), i)));
    all.spawn(post(*links[0], Signal::Ack));  // waits behind them
    for (std::size_t i = 0; i < 2; ++i) all.spawn(counted(recv(*links[1], part(in_recv(0), i))));
    co_await carry_out(3);
    fake.status_of = [](const ibv_send_wr&) { return IBV_WC_REM_ACCESS_ERR; };
    co_await carry_out_all();
    EXPECT_EQ(completed, 0);
    EXPECT_EQ(hosts[1].failures.size(), 1U);
    const std::string why = hosts[1].failures.empty() ? "" : hosts[1].failures[0].what();
    EXPECT_THAT(why, ::testing::HasSubstr("in the middle of a frame failed"));
    all.cancel();
    co_await all.join();
  };
  run(body);
}

/// Where a device reads for it, too.
TEST_F(SeveralFrames, that_come_when_their_collective_is_over_end_the_link) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    all.spawn(put(*links[0], in_send(kBytes), in_ccl_in(kBytes), Signal::DataSignal));
    co_await take_turns();
    fake.refuses_memory = EINVAL;  // so it is not fetched, but received
    co_await carry_out(1);
    EXPECT_EQ(fake.reads, 1);
    hosts[1].state.is_running = false;
    co_await carry_out_all();
    EXPECT_EQ(hosts[1].failures.size(), 1U);
    const std::string why = hosts[1].failures.empty() ? "" : hosts[1].failures[0].what();
    EXPECT_THAT(why, ::testing::HasSubstr("still sends 131072 bytes of collective 1"));
    EXPECT_EQ(at(1, in_ccl_in(kBytes))[0], std::byte{0});
    all.cancel();
    co_await all.join();
  };
  run(body);
}

TEST_F(SeveralFrames, that_nobody_waited_for_end_the_link_with_the_next_collective) {
  auto body = [&]() -> Task<> {
    TaskScope all;
    fake.is_holding = true;
    all.spawn(put(*links[0], in_send(kBytes), in_ccl_in(kBytes), Signal::DataSignal));
    co_await carry_out(1);
    EXPECT_EQ(fake.reads, 1);
    ++hosts[1].state.sequence;
    links[1]->operation_started();
    co_await carry_out_all();
    EXPECT_EQ(hosts[1].failures.size(), 1U);
    EXPECT_EQ(at(1, in_ccl_in(kBytes))[0], std::byte{0});
    all.cancel();
    co_await all.join();
  };
  run(body);
}

}  // namespace
}  // namespace cohort::verbs::several_frames_test
