// SPDX-License-Identifier: Apache-2.0
// Streams over a library that is made up, for what no device at hand does on demand.
#include <cohort/engine/error.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/framed/framed_link.h>
#include <cohort/net/verbs/verbs_transport.h>
#include <cohort/tests/net/verbs/verbs_streams.h>
#include <cohort/tests/support/descriptors.h>

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <vector>

namespace cohort::verbs::verbs_stream_test {
namespace {

using test::error_from;
using test::error_of;
using test::kind_of;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(VerbsStreams, bytes_come_as_they_were_sent_whatever_the_sizes) {
  std::mt19937 random(7);
  std::size_t sent = 0, received = 0;
  while (received < 50 * kRingBytes) {
    const std::size_t first_part = random() % 100;
    const Bytes bytes = numbered(sent, first_part + random() % (random() % 2 == 0 ? 200 : kRingBytes));
    const int result =
        one->try_send_some(std::span(bytes).first(first_part), std::span(bytes).subspan(first_part));
    if (result > 0) sent += static_cast<std::size_t>(result);
    ASSERT_TRUE(bytes.empty() || result > 0 || result == -EAGAIN) << result;
    Bytes into(1 + random() % kRingBytes);
    const int count = receive(*other, into);
    if (count == -EAGAIN) continue;
    ASSERT_GT(count, 0);
    into.resize(static_cast<std::size_t>(count));
    ASSERT_EQ(into, numbered(received, into.size()));
    received += into.size();
  }
}

TEST_F(VerbsStreams, what_a_device_has_not_read_is_not_written_over) {
  fake.is_holding = true;
  std::size_t sent = 0;
  for (int result = 0; (result = send(*one, numbered(sent, 5000))) > 0;)
    sent += static_cast<std::size_t>(result);
  EXPECT_EQ(sent, kRingBytes);
  EXPECT_EQ(send(*one, 1), -EAGAIN);
  fake.is_holding = false;
  fake.carry_out_all();
  Bytes into(kRingBytes);
  EXPECT_EQ(receive(*other, into), static_cast<int>(kRingBytes));
  EXPECT_EQ(into, numbered(0, kRingBytes));
}

TEST_F(VerbsStreams, who_does_not_read_holds_up_who_sends_and_nothing_else) {
  std::size_t sent = 0;
  for (int result = 0; (result = send(*one, 100)) > 0;) sent += static_cast<std::size_t>(result);
  EXPECT_EQ(sent, kMostMessages * 100U) << "as many messages as receives stand ready";
  EXPECT_EQ(send(*other, 50), 50);
  EXPECT_EQ(receive(*one, 100), 50);
  EXPECT_EQ(receive(*other, sent), static_cast<int>(sent));
  EXPECT_EQ(send(*one, 100), 100);
}

TEST_F(VerbsStreams, small_messages_are_inline_and_few_ask_for_completions) {
  constexpr int kMessages = 160;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(send(*one, 64), 64);
    ASSERT_EQ(receive(*other, 64), 64);
  }
  EXPECT_GE(fake.sends_inline, kMessages);
  EXPECT_LE(fake.sends_signaled, fake.sends_posted / 8);
}

TEST_F(VerbsStreams, until_sent_waits_for_the_device) {
  TaskScope services;
  bool is_sent = false;
  auto closes = [&]() -> Task<> {
    co_await one->until_sent();
    is_sent = true;
  };
  auto device_is_late = [&]() -> Task<> {
    for (int i = 0; i < 5; ++i) co_await engine.sleep_for(Duration::zero());
    EXPECT_FALSE(is_sent);
    fake.carry_out_all();
  };
  auto both = [&]() -> Task<> { co_await when_all(closes(), device_is_late()); };
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_completions(engine));
    fake.is_holding = true;
    EXPECT_EQ(send(*one, 100), 100);
    const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), both()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
  EXPECT_TRUE(is_sent);
  EXPECT_EQ(receive(*other, 1000), 100);
  EXPECT_EQ(receive(*other, 1000), -EAGAIN) << "that it was waited for is told to nobody";
}

TEST_F(VerbsStreams, a_failed_request_is_told_in_words) {
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
  EXPECT_EQ(send(*one, 300), 300);
  expect_failure(*one, "fake0 (queue pair");
  for (const char* text : {"RDMA WRITE of 300 bytes for rank 1 failed: retries exceeded", "status 12"})
    EXPECT_THAT(one->explain(EIO), HasSubstr(text));
}

TEST_F(VerbsStreams, the_cause_is_told_and_not_what_was_flushed_for_it) {
  fake.flushes_receives_first = true;
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RETRY_EXC_ERR; };
  EXPECT_EQ(send(*one, 300), 300);
  expect_failure(*one, "retries exceeded");
  EXPECT_THAT(one->explain(EIO), Not(HasSubstr("flushed")));
}

TEST_F(VerbsStreams, what_had_come_can_be_read_before_a_failure_is_told) {
  for (int i = 0; i < 40; ++i) ASSERT_EQ(send(*other, 10), 10);
  fake.refuses_receives = ENOMEM;
  EXPECT_EQ(receive(*one, 1000), 400);
  expect_failure(*one, "a request to receive from rank 1 was refused: Cannot allocate memory");
}

TEST_F(VerbsStreams, a_peer_that_has_ended_is_told_of_no_credit) {
  for (std::uint32_t i = 0; i < kCreditMessages; ++i) ASSERT_EQ(send(*one, 10), 10);
  one->shutdown();
  const int before = fake.sends_posted;
  EXPECT_EQ(receive(*other, 1000), static_cast<int>(10 * kCreditMessages));
  EXPECT_EQ(receive(*other, 1000), 0);
  EXPECT_EQ(fake.sends_posted, before);
}

TEST_F(VerbsStreams, a_peer_that_has_no_receive_ready_is_told_of) {
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_RNR_RETRY_EXC_ERR; };
  EXPECT_EQ(send(*one, 1), 1);
  expect_failure(*one, "status 13");
}

/// The other pair is gone when the failure is told: no write can come late.
TEST_F(VerbsStreams, a_failure_is_told_after_the_device_has_let_go) {
  const int before = fake.objects;
  fake.status_of = [](const ibv_send_wr&) { return IBV_WC_LOC_PROT_ERR; };
  EXPECT_EQ(send(*one, 1), 1);
  EXPECT_EQ(receive(*one, 1), -EIO);
  EXPECT_EQ(fake.objects, before - 1) << "the queue pair";
  fake.status_of = nullptr;
  EXPECT_EQ(send(*other, 1), 1);
  expect_failure(*other, "retries exceeded");
}

TEST_F(VerbsStreams, what_makes_no_sense_ends_the_stream) {
  using Kind = Immediate::Kind;
  struct Wrong {
    std::uint32_t immediate;
    std::uint32_t came;
  };
  const Wrong wrong[] = {
      {Immediate{Kind::data, 100, 0}.encode(), 99},
      {Immediate{Kind::data, 0, 0}.encode(), 0},
      {Immediate{Kind::data, kRingBytes + 1, 0}.encode(), kRingBytes + 1},
      {Immediate{Kind::data, 100, 1}.encode(), 100},
      {Immediate{Kind::credit, 1, 0}.encode(), 0},
      {Immediate{Kind::credit, 0, 1}.encode(), 0},
      {~0U, 0},
  };
  for (const Wrong& one_of : wrong) {
    connect();
    say(*other, one_of.immediate, one_of.came);
    expect_failure(*other, "rank 0 says by RDMA what makes no sense");
  }
}

TEST_F(VerbsStreams, nothing_comes_behind_the_end) {
  EXPECT_EQ(send(*one, 10), 10);
  one->shutdown();
  EXPECT_EQ(receive(*other, 100), 10);
  EXPECT_EQ(receive(*other, 100), 0);
  EXPECT_EQ(send(*other, 1), -EPIPE);
  EXPECT_THAT(other->explain(EPIPE), HasSubstr("rank 0 has closed"));
  EXPECT_EQ(send(*one, 1), -EPIPE);
}

TEST_F(VerbsStreams, sleeping_engines_are_woken_by_completions) {
  TaskScope services;
  Bytes into(100);
  auto reads = [&]() -> Task<> {
    for (int i = 0; i < 20; ++i) {
      const int count = co_await other->receive_some(into);
      EXPECT_EQ(count, 7);
      EXPECT_EQ(send(*other, 3), 3);
    }
  };
  auto writes = [&]() -> Task<> {
    for (int i = 0; i < 20; ++i) {
      co_await engine.sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(send(*one, 7), 7);
      const int count = co_await one->receive_some(into);
      EXPECT_EQ(count, 3);
    }
  };
  auto both = [&]() -> Task<> { co_await when_all(reads(), writes()); };
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_completions(engine));
    const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), both()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
}

TEST_F(VerbsStreams, a_port_that_stays_down_ends_what_waits_on_it) {
  TaskScope services;
  use_short_patience();
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_events(engine));
    services.spawn(device->watch_port(engine));
    fake.raise(IBV_EVENT_PORT_ERR, 2);
    co_await engine.sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(receive(*one, 1), -EAGAIN) << "another port";
    fake.raise(IBV_EVENT_PORT_ERR, 1);
    const auto error = co_await error_of(with_deadline(std::chrono::seconds(60), one->until_readable()));
    EXPECT_FALSE(error) << error->what();
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
  expect_failure(*one, "fake0 port 1, RoCE v2, GID 0 (10.0.0.1), MTU 4096 says: port error");
  expect_failure(*other, "port error");
}

TEST_F(VerbsStreams, a_port_that_comes_back_ends_nothing) {
  TaskScope services;
  use_short_patience();
  auto whole = [&]() -> Task<> {
    services.spawn(device->watch_events(engine));
    services.spawn(device->watch_port(engine));
    fake.raise(IBV_EVENT_PORT_ERR, 1);
    fake.raise(IBV_EVENT_PORT_ACTIVE, 1);
    co_await engine.sleep_for(3 * settings.patience());
    (void)receive(*one, 10);  // the loop has just looked, so the next one need not
    EXPECT_EQ(send(*other, 10), 10);
    EXPECT_EQ(receive(*one, 10), 10);
    services.cancel();
    co_await services.join();
  };
  engine.run(whole());
}

/// The fake asserts that the event was acknowledged before what it is about is destroyed.
TEST_F(VerbsStreams, a_queue_that_breaks_ends_its_stream_and_no_other) {
  for (const ibv_event_type type :
       {IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR}) {
    connect();
    fake.raise_of_pair(type, one->end_point().pairs[0].number);
    run_until_readable(*one);
    expect_failure(*one, "MTU 4096 says: queue error");
    EXPECT_EQ(receive(*other, 1), -EAGAIN);
  }
}

TEST_F(VerbsStreams, a_device_that_fails_before_the_ends_agree_is_a_link_fault) {
  VerbsStream third(engine, *device, 2);
  const EndPoint theirs = one->end_point();
  fake.raise(IBV_EVENT_DEVICE_FATAL, 1);
  run_until_readable(third);
  const auto error = error_from([&] { third.connect(theirs); });
  EXPECT_EQ(kind_of(error), "LinkFault");
  EXPECT_THAT(error->what(), HasSubstr("port error"));
}

/// Whoever waits for a message has it first.
TEST_F(VerbsStreams, receives_are_posted_again_when_nothing_comes_or_many_are_spent) {
  const int before = fake.receives_posted;
  EXPECT_EQ(send(*one, 10), 10);
  EXPECT_EQ(receive(*other, 10), 10);
  EXPECT_EQ(fake.receives_posted, before);
  EXPECT_EQ(receive(*other, 10), -EAGAIN);
  EXPECT_EQ(fake.receives_posted, before + 1);
  for (std::uint32_t i = 0; i < kLateReceives; ++i) {
    EXPECT_EQ(fake.receives_posted, before + 1);
    EXPECT_EQ(send(*one, 10), 10);
    EXPECT_EQ(receive(*other, 10), 10);
  }
  EXPECT_EQ(fake.receives_posted, before + 1 + static_cast<int>(kLateReceives));
}

TEST_F(VerbsStreams, receives_that_are_refused_are_a_link_fault) {
  VerbsStream third(engine, *device, 2);
  fake.refuses_receives = ENOMEM;
  const auto error = error_from([&] { third.connect(one->end_point()); });
  EXPECT_EQ(kind_of(error), "LinkFault");
  EXPECT_THAT(error->what(), HasSubstr("a request to receive from rank 2 was refused"));
}

/// How many of them a child has that is made now; those of others lead to /dev/null there.
int kept_by_child(const std::vector<int>& descriptors) {
  const pid_t child = ::fork();
  if (child == 0) {
    int kept = 0;
    for (const int descriptor : descriptors) {
      struct stat status {};
      kept += ::fstat(descriptor, &status) == 0 && !S_ISCHR(status.st_mode) ? 1 : 0;
    }
    ::_exit(kept);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(VerbsStreams, descriptors_of_a_device_are_none_of_a_childs_and_its_numbers_are_free_again) {
  const std::vector<int> descriptors = fake.descriptors;
  ASSERT_EQ(descriptors.size(), 3U) << "of a device, its events and its channel";
  EXPECT_EQ(kept_by_child(descriptors), 0);
  one.reset();
  other.reset();
  device.reset();
  for (const int descriptor : descriptors) ASSERT_EQ(::fcntl(STDERR_FILENO, F_DUPFD, descriptor), descriptor);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  for (const int descriptor : descriptors) ASSERT_EQ(::dup2(ends[0], descriptor), descriptor);
  EXPECT_EQ(kept_by_child(descriptors), 3);
  for (const int descriptor : descriptors) ::close(descriptor);
  for (const int end : ends) ::close(end);
}

TEST_F(VerbsStreams, memory_that_may_not_be_locked_is_refused_with_the_limit) {
  fake.most_memory = fake.registered_bytes + kRingBytes;
  const auto error = error_from([&] { const VerbsStream third(engine, *device, 2); });
  EXPECT_EQ(kind_of(error), "ResourceLimit");
  EXPECT_THAT(error->what(), HasSubstr("ulimit -l"));
}

/// Entries of queues as drivers of real devices lay them out (mlx5_wqe.h, mlx5dv.h): a request with its
/// inline bytes, one with one piece of memory to receive into, a completion.
constexpr std::size_t kSendEntry = 256;
constexpr std::size_t kReceiveEntry = 16;
constexpr std::size_t kCompletionEntry = 64;

TEST_F(VerbsStreams, of_a_link_and_its_queues_have_less_than_256_KiB) {
  if (::mallinfo2().uordblks == 0) GTEST_SKIP() << "this allocator does not tell";
  const auto in_use = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  class Nobody final : public LinkOwner {
    [[nodiscard]] const RunningOperation& running() const noexcept override { return operation_; }
    void link_failed(Rank, const Error&) noexcept override {}
    void mismatch(Rank, std::uint64_t, const Signature&) noexcept override {}
    RunningOperation operation_;
  } host;
  const std::size_t before = in_use();
  auto stream = std::make_unique<VerbsStream>(engine, *device, 2);
  const framed::FramedLink link(engine, std::move(stream), host, 0, 2, 0, "verbs");
  const std::size_t entries = std::bit_ceil(kSends) * kSendEntry + std::bit_ceil(kReceives) * kReceiveEntry +
                              std::bit_ceil(kSends + kReceives) * kCompletionEntry;
  const std::size_t all = in_use() - before + entries;
  RecordProperty("bytes", static_cast<int>(all));
  EXPECT_GT(all, 2 * kRingBytes);
  EXPECT_LT(all, std::size_t{256} << 10);
}

TEST_F(VerbsStreams, a_path_that_the_device_refuses_is_a_link_fault) {
  VerbsStream third(engine, *device, 2);
  fake.refuses_to_change = EINVAL;
  const auto error = error_from([&] { third.connect(one->end_point()); });
  EXPECT_EQ(kind_of(error), "LinkFault");
  EXPECT_THAT(error->what(), HasSubstr("cannot be brought to RTR: Invalid argument"));
}

/// A socket that a peer closed is not this rank's fault, whether it is found in sending or in receiving.
TEST_F(VerbsStreams, whose_peer_gives_up_while_they_are_made_lay_it_to_the_peer) {
  start_anew();
  for (const bool is_unread : {false, true}) {
    one.emplace(engine, *device, 1);
    auto [near, far] = test::socket_pair();
    if (is_unread) {
      EXPECT_EQ(::write(near.number(), "x", 1), 1);
    }
    far = {};
    Socket socket(engine, std::move(near));
    std::optional<Error> error;
    auto play = [&]() -> Task<> { error = co_await error_of(agree(*one, socket)); };
    engine.run(play());
    ASSERT_EQ(kind_of(error), "LinkFault");
    EXPECT_THAT(error->what(), HasSubstr("gave up while the connection was set up"));
  }
}

TEST(EndPoint, comes_back_as_it_was_and_is_checked) {
  EndPoint end{.pair_count = 2, .key = 7, .ring = 0x7f0000001000, .lid = 12, .mtu = IBV_MTU_4096};
  end.pairs[0] = {0x123456, 0xabcdef};
  end.pairs[1] = {0x123457, 0xabcde0};
  end.gid.raw[15] = 9;
  const auto bytes = encode(end);
  const EndPoint same = decode(bytes);
  EXPECT_EQ(encode(same), bytes);
  EXPECT_EQ(same.pairs[1].number, end.pairs[1].number);
  EXPECT_EQ(same.pair_count, 2);
  EXPECT_EQ(same.gid.raw[15], 9);
  constexpr std::size_t kPairs = 44;
  for (const std::size_t at : {std::size_t{0}, std::size_t{4}, std::size_t{22}, kPairs - 4, kPairs - 2,
                               kPairs + 3, kPairs + 7, kPairs + 11, EndPoint::kBytes - 1}) {
    auto wrong = bytes;  // magic, ring, MTU, reads, how many pairs, their numbers and packets
    wrong[at] = std::byte{0xff};
    const auto error = error_from([&] { (void)decode(wrong); });
    EXPECT_EQ(kind_of(error), "ProtocolError") << at;
  }
  auto none = bytes;
  none[kPairs - 2] = std::byte{0};
  EXPECT_EQ(kind_of(error_from([&] { (void)decode(none); })), "ProtocolError");
}

}  // namespace
}  // namespace cohort::verbs::verbs_stream_test
