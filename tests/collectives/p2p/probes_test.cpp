// SPDX-License-Identifier: Apache-2.0
// Messages that their receiver knows little of before they come.
#include <cohort/cohort.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace cohort::test::probes_test {
namespace {

using cohort::test::error_of;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed + i);
  return bytes;
}

MessageRequest sending(Bytes& data, Rank to, std::int32_t tag) {
  MessageRequest request;
  request.sends = true;
  request.peer = to;
  request.tag = tag;
  request.data = data.data();
  request.bytes = data.size();
  return request;
}

/// From whom and with what tag ever.
MessageRequest anything(Bytes& into) {
  MessageRequest request;
  request.peer = MessageRequest::kAnybody;
  request.takes_any_tag = request.takes_less = true;
  request.data = into.data();
  request.bytes = into.size();
  return request;
}

MessageRequest probe_for(Rank from, MessageRequest::Probe probe) {
  MessageRequest request;
  request.peer = from;
  request.takes_any_tag = true;
  request.probe = probe;
  return request;
}

std::string text_of(const std::optional<Error>& error) { return error ? error->what() : ""; }

Task<> send_to_itself(Communicator& comm, Bytes& data) {
  const MessageRequest to = sending(data, comm.rank(), 1);
  co_await comm.call_message(to);
}

Task<> join(TaskScope& scope) { co_await scope.join(); }

/// In a packet, in several, and of what is only offered.
constexpr std::array<std::size_t, 5> kSizes = {0, 5, 3000, 70'000, 3'000'000};

class Probes : public ::testing::TestWithParam<const char*> {
 protected:
  static void run(Rank ranks, const RankFunction& body) {
    CommunicatorOptions options;
    options.transport = GetParam();
    run_ranks(ranks, body, options);
  }
};

TEST_P(Probes, a_recv_of_anything_tells_from_whom_it_was_with_what_tag_and_how_long) {
  auto body = [](Communicator& comm) -> Task<> {
    std::int32_t tag = 10;
    for (const std::size_t size : kSizes) {
      ++tag;
      Bytes data = bytes_of(size, comm.rank());
      const MessageRequest to = sending(data, 0, tag);
      if (comm.rank() != 0) co_await comm.call_message(to);
      std::vector<bool> has_come(comm.size(), false);
      for (Rank other = 1; other < comm.size() && comm.rank() == 0; ++other) {
        Bytes got(size + 7);
        const MessageRequest any = anything(got);
        const Envelope envelope = co_await comm.call_message(any);
        EXPECT_EQ(envelope.tag, tag);
        EXPECT_EQ(envelope.bytes, size);
        got.resize(envelope.bytes);
        EXPECT_EQ(got, bytes_of(size, envelope.from));
        EXPECT_FALSE(has_come[envelope.from]);
        has_come[envelope.from] = true;
      }
      co_await comm.barrier();
    }
  };
  run(3, body);
}

TEST_P(Probes, what_a_probe_sees_stays_there_for_a_recv) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t size : kSizes) {
      Bytes data = bytes_of(size, 1);
      const MessageRequest to = sending(data, 0, 4);
      if (comm.rank() == 1) co_await comm.call_message(to);
      if (comm.rank() == 0) {
        const MessageRequest probe = probe_for(1, MessageRequest::Probe::looks);
        for (int i = 0; i < 2; ++i) {
          const Envelope seen = co_await comm.call_message(probe);
          EXPECT_EQ(seen.bytes, size);
          EXPECT_EQ(seen.tag, 4);
        }
        EXPECT_TRUE(comm.look_now(probe));
        Bytes got(size);
        co_await comm.recv(got, 1, 4);
        EXPECT_EQ(got, data);
        EXPECT_FALSE(comm.look_now(probe));
      }
      co_await comm.barrier();
    }
  };
  run(2, body);
}

TEST_P(Probes, what_was_claimed_is_received_by_its_claim_alone) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t size : kSizes) {
      Bytes first = bytes_of(size, 1);
      Bytes second = bytes_of(size, 2);
      const MessageRequest to = sending(first, 0, 4);
      const MessageRequest then_to = sending(second, 0, 4);
      if (comm.rank() == 1) {
        co_await when_all(comm.call_message(to), comm.call_message(then_to));
      } else {
        const MessageRequest probe = probe_for(1, MessageRequest::Probe::claims);
        const Envelope claimed = co_await comm.call_message(probe);
        Bytes got(size);
        co_await comm.recv(got, 1, 4);
        EXPECT_EQ(got, second);
        MessageRequest claim = anything(got);
        claim.claim = claimed.claim;
        const Envelope envelope = co_await comm.call_message(claim);
        EXPECT_EQ(envelope.bytes, size);
        EXPECT_EQ(got, first);
        auto again = [&]() -> Task<> { co_await comm.call_message(claim); };
        const std::optional<Error> error = co_await error_of(again());
        EXPECT_THAT(text_of(error), HasSubstr("each is received once"));
      }
      co_await comm.barrier();
    }
  };
  run(2, body);
}

TEST_P(Probes, a_rank_sends_to_itself) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t size : kSizes)
      for (const bool is_synchronous : {false, true}) {
        Bytes data = bytes_of(size, comm.rank());
        Bytes got(size);
        MessageRequest to = sending(data, comm.rank(), 1);
        to.is_synchronous = is_synchronous;
        const MessageRequest from = anything(got);
        co_await when_all(comm.call_message(to), comm.call_message(from));
        EXPECT_EQ(got, data);
      }
    co_await comm.barrier();
  };
  run(2, body);
  run(1, body);
}

TEST_P(Probes, many_small_messages_to_itself_wait_for_room_in_their_order) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr std::size_t kMany = 3000;
    std::vector<Bytes> data;
    for (std::size_t i = 0; i < kMany; ++i) data.push_back(bytes_of(500, static_cast<unsigned>(i)));
    TaskScope sends;
    for (Bytes& one : data) sends.spawn(send_to_itself(comm, one));
    for (const Bytes& one : data) {
      Bytes got(500);
      const MessageRequest from = anything(got);
      co_await comm.call_message(from);
      EXPECT_EQ(got, one);
    }
    co_await sends.join();
  };
  run(1, body);
}

TEST_P(Probes, a_synchronous_send_is_not_over_before_it_is_received) {
  auto body = [](Communicator& comm) -> Task<> {
    Bytes data = bytes_of(4, 1);
    bool is_over = false;
    auto send = [&]() -> Task<> {
      MessageRequest to = sending(data, 1 - comm.rank(), 1);
      to.is_synchronous = true;
      co_await comm.call_message(to);
      is_over = true;
    };
    TaskScope sends;
    if (comm.rank() == 0) {
      sends.spawn(send());
      co_await comm.barrier();
      EXPECT_FALSE(is_over);
      co_await comm.barrier();
      co_await sends.join();
      EXPECT_TRUE(is_over);
    } else {
      co_await comm.barrier();
      co_await comm.barrier();
      Bytes got(4);
      co_await comm.recv(got, 0, 1);
      EXPECT_EQ(got, data);
    }
  };
  run(2, body);
}

TEST_P(Probes, a_recv_is_withdrawn_as_long_as_nobody_has_sent_to_it) {
  auto body = [](Communicator& comm) -> Task<> {
    Bytes data = bytes_of(70'000, 1);
    if (comm.rank() == 1) {
      co_await comm.barrier();
      co_await comm.send(data, 0, 4);
    } else {
      PostedReceive posted;
      Bytes never(70'000);
      MessageRequest from = anything(never);
      from.posted = &posted;
      auto receive = [&]() -> Task<> { co_await comm.call_message(from); };
      TaskScope receives(nullptr, TaskScope::OnFailure::keep_others);
      receives.spawn(receive());
      co_await comm.engine().sleep_for(Duration::zero());
      EXPECT_TRUE(posted.withdraw());
      co_await comm.barrier();
      Bytes got(70'000);
      co_await comm.recv(got, 1, 4);
      EXPECT_EQ(got, data);
      receives.cancel(Error(ErrorKind::Cancelled, "nobody wants it"));
      const std::optional<Error> error = co_await error_of(join(receives));
      EXPECT_FALSE(comm.is_failed()) << text_of(error);
    }
    co_await comm.barrier();
  };
  run(2, body);
}

TEST_P(Probes, a_recv_that_has_its_message_is_not_withdrawn) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t size : kSizes) {
      Bytes data = bytes_of(size, 1);
      const MessageRequest to = sending(data, 0, 4);
      if (comm.rank() == 1) {
        co_await comm.call_message(to);
      } else {
        PostedReceive posted;
        Bytes got(size);
        MessageRequest from = anything(got);
        from.posted = &posted;
        co_await comm.call_message(from);
        EXPECT_FALSE(posted.withdraw());
        EXPECT_EQ(got, data);
      }
      co_await comm.barrier();
    }
  };
  run(2, body);
}

TEST_P(Probes, a_message_that_is_longer_than_its_buffer_is_told_with_both_sizes) {
  auto body = [](Communicator& comm) -> Task<> {
    Bytes data = bytes_of(100, 1);
    Bytes got(10);
    const MessageRequest to = sending(data, 0, 3);
    const MessageRequest from = anything(got);
    auto receive = [&]() -> Task<> { co_await comm.call_message(from); };
    auto send = [&]() -> Task<> {
      co_await comm.call_message(to);
      co_await comm.barrier();
    };
    Task<> own = comm.rank() == 0 ? receive() : send();
    const std::optional<Error> error = co_await error_of(std::move(own));
    EXPECT_THAT(text_of(error), HasSubstr("sends 100 bytes with tag 3"));
    EXPECT_THAT(text_of(error), HasSubstr("receives up to 10 bytes"));
  };
  run(2, body);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Probes, ::testing::Values("shm", "tcp"),
                         [](const auto& transport) { return std::string(transport.param); });

}  // namespace
}  // namespace cohort::test::probes_test
