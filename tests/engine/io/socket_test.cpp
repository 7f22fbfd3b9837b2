// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/socket.h>

#include <cohort/engine/system/sanitizers.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

namespace cohort::socket_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::open_descriptors;
using cohort::test::socket_pair;

EngineOptions sleepy() { return {.compute_threads = 1, .spin = Duration::zero()}; }

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// A listener at any free place of a kind: "127.0.0.1:0", "[::1]:0", or a Unix socket.
Address any_address(const std::string& kind) {
  static int count = 0;
  if (kind == "unix")
    return Address::unix_abstract(fmt::format("cohort-socket-test-{}-{}", ::getpid(), ++count));
  return Address::parse(kind);
}

class SocketKinds : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SocketKinds, ::testing::Values("unix", "127.0.0.1:0"));

TEST_P(SocketKinds, moves_a_long_message_whole_both_ways_at_once) {
  Engine engine(sleepy());
  Listener listener(engine, any_address(GetParam()));
  constexpr std::size_t kBytes = 3'000'001;
  std::string sent(kBytes, '\0');
  for (std::size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<char>(i * 7 + i / 1000);
  auto exchange = [&](Socket socket) -> Task<> {
    std::string got(kBytes, '\0');
    Task<> sends = socket.send(bytes_of(sent));
    Task<bool> receives = socket.receive(std::as_writable_bytes(std::span(got)));
    const auto results = co_await when_all(std::move(sends), std::move(receives));
    EXPECT_TRUE(std::get<1>(results));
    EXPECT_TRUE(got == sent);
  };
  auto server = [&]() -> Task<> {
    Socket socket = co_await listener.accept();
    co_await exchange(std::move(socket));
  };
  auto client = [&]() -> Task<> {
    Socket socket = co_await Socket::connect(engine, listener.local_address());
    co_await exchange(std::move(socket));
  };
  auto body = [&]() -> Task<> { co_await when_all(server(), client()); };
  engine.run(with_deadline(30s, body()));
}

TEST_P(SocketKinds, end_of_the_stream_is_a_value_between_messages_and_a_fault_within_one) {
  Engine engine(sleepy());
  Listener listener(engine, any_address(GetParam()));
  auto server = [&]() -> Task<> {
    const std::string half = "half";
    Socket first = co_await listener.accept();
    first.shutdown();
    Socket second = co_await listener.accept();
    co_await second.send(bytes_of(half));
    second.shutdown();
  };
  auto client = [&]() -> Task<> {
    std::array<std::byte, 8> bytes{};
    Socket first = co_await Socket::connect(engine, listener.local_address());
    const bool more = co_await first.receive(bytes);
    EXPECT_FALSE(more);
    Socket second = co_await Socket::connect(engine, listener.local_address());
    const auto error = co_await error_of(second.receive(bytes));
    EXPECT_EQ(kind_of(error), "LinkFault");
    EXPECT_NE(error->message().find("4 of 8 bytes"), std::string_view::npos) << error->what();
  };
  auto body = [&]() -> Task<> { co_await when_all(server(), client()); };
  engine.run(with_deadline(30s, body()));
}

TEST_P(SocketKinds, connect_until_waits_for_a_listener_that_comes_later) {
  Engine engine(sleepy());
  Address address = any_address(GetParam());
  if (!address.is_unix())
    address = Listener(engine, address).local_address();  // a port that was free just now
  auto server = [&]() -> Task<> {
    co_await engine.sleep_for(30ms);
    Listener listener(engine, address);
    const Socket socket = co_await listener.accept();
    EXPECT_TRUE(socket.is_open());
  };
  auto client = [&]() -> Task<> {
    const Socket socket = co_await Socket::connect_until(engine, address, engine.now() + 20s);
    EXPECT_TRUE(socket.is_open());
  };
  auto body = [&]() -> Task<> { co_await when_all(server(), client()); };
  engine.run(with_deadline(30s, body()));
}

/// Who leaves waits for it: a kernel that has bytes for nobody resets the connection.
TEST(Socket, what_was_sent_is_acknowledged_in_time_or_never_will_be) {
  Engine engine(sleepy());
  Listener listener(engine, any_address("127.0.0.1:0"));
  const std::string text(1000, 'x');
  auto until_acknowledged = [&](Socket& socket) -> Task<> {
    while (!socket.is_acknowledged()) co_await engine.sleep_for(1ms);
  };
  auto body = [&]() -> Task<> {
    Socket caller = co_await Socket::connect(engine, listener.local_address());
    Socket called = co_await listener.accept();
    EXPECT_TRUE(caller.is_acknowledged()) << "nothing was sent";
    EXPECT_TRUE(caller.try_send(bytes_of(text)));
    co_await until_acknowledged(caller);
    called = Socket();  // with all of that unread
    co_await engine.sleep_for(1ms);
    std::array<std::byte, 1> nothing{};
    EXPECT_LE(caller.try_receive_some(nothing), 0);
    (void)caller.try_send(bytes_of(text));
    co_await until_acknowledged(caller);
    EXPECT_TRUE(Socket().is_acknowledged());
  };
  engine.run(with_deadline(20s, body()));
}

/// More than its kernel takes, so that some is left here.
TEST(Socket, a_reset_ends_waiting_for_what_was_not_acknowledged) {
  Engine engine(sleepy());
  Listener listener(engine, any_address("127.0.0.1:0"));
  const std::string text(std::size_t{16} << 20, 'x');
  auto body = [&]() -> Task<> {
    Socket caller = co_await Socket::connect(engine, listener.local_address());
    Socket called = co_await listener.accept();
    while (caller.try_send_some(bytes_of(text), {}) > 0) co_await engine.sleep_for(1ms);
    EXPECT_FALSE(caller.is_acknowledged());
    called = Socket();
    while (!caller.is_acknowledged()) co_await engine.sleep_for(1ms);
  };
  engine.run(with_deadline(20s, body()));
}

TEST(Socket, refused_connection_names_the_address) {
  Engine engine(sleepy());
  auto connect = [&](TimePoint deadline) -> Task<Socket> {
    Task<Socket> task =
        Socket::connect_until(engine, Address::unix_abstract("cohort-nobody-there"), deadline);
    co_return co_await task;
  };
  const auto error = error_from([&] { (void)engine.run(connect(engine.now())); });
  ASSERT_EQ(kind_of(error), "SystemError");
  EXPECT_NE(error->message().find("unix:cohort-nobody-there"), std::string_view::npos) << error->what();
}

TEST(Socket, descriptors_travel_with_a_message_and_more_than_wanted_are_closed) {
  Engine engine(sleepy());
  const auto before = open_descriptors();
  {
    auto [a, b] = socket_pair();
    const std::array<int, 3> sent = {a.number(), b.number(), STDOUT_FILENO};
    Socket left(engine, std::move(a));
    Socket right(engine, std::move(b));
    std::vector<Descriptor> got;
    auto body = [&]() -> Task<> {
      const std::string text = "hi";
      std::array<std::byte, 2> bytes{};
      const bool is_sent = co_await left.pass(bytes_of(text), std::span(sent));
      EXPECT_TRUE(is_sent);
      const bool whole = co_await right.receive(bytes, got, 2);
      EXPECT_TRUE(whole);
    };
    engine.run(body());
    EXPECT_EQ(got.size(), 2U);
    EXPECT_EQ(open_descriptors(), before + 4);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, sends_two_pieces_as_one) {
  Engine engine(sleepy());
  auto [a, b] = socket_pair();
  Socket left(engine, std::move(a));
  Socket right(engine, std::move(b));
  const std::string header = "header:";
  const std::string payload(400'000, 'p');
  for (const std::string& second : {payload, std::string()}) {
    auto receive = [&]() -> Task<> {
      std::string got(header.size() + second.size(), '\0');
      co_await right.receive(std::as_writable_bytes(std::span(got)));
      EXPECT_TRUE(got == header + second);
    };
    auto body = [&]() -> Task<> {
      co_await when_all(left.send(bytes_of(header), bytes_of(second)), receive());
    };
    engine.run(with_deadline(30s, body()));
  }
}

TEST(Listener, taken_address_says_what_to_do) {
  Engine engine(sleepy());
  const Listener first(engine, Address::parse("127.0.0.1:0"));
  const auto error = error_from([&] { const Listener second(engine, first.local_address()); });
  ASSERT_EQ(kind_of(error), "SystemError");
  EXPECT_NE(error->message().find("another job uses it"), std::string_view::npos) << error->what();
}

/// The loop must go on when descriptors run out, whether or not somebody is knocking: the kernel refuses to
/// wait for a connection that it could give no descriptor.
TEST(Listener, out_of_descriptors_keeps_the_loop_running_and_recovers) {
  if (sanitizers::kAddress)
    GTEST_SKIP() << "UBSan opens a pipe to look at a type, and has no descriptors either";
  Engine engine(sleepy());
  Listener listener(engine, any_address("unix"));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{64, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Descriptor> hoard;
  for (int number = ::dup(STDOUT_FILENO); number >= 0; number = ::dup(STDOUT_FILENO))
    hoard.emplace_back(number);
  auto accepts = [&]() -> Task<> {
    const Socket socket = co_await listener.accept();
    EXPECT_TRUE(socket.is_open());
  };
  auto others = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    hoard.clear();
    const Socket socket = co_await Socket::connect(engine, listener.local_address());
    EXPECT_TRUE(socket.is_open());
    co_await engine.sleep_for(1ms);
  };
  auto body = [&]() -> Task<> { co_await when_all(accepts(), others()); };
  engine.run(with_deadline(30s, body()));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_P(SocketKinds, connections_that_race_with_the_cancellation_of_accept_do_not_leak) {
  Engine engine(sleepy());
  const auto descriptors = open_descriptors();
  auto round = [&](bool somebody_waits, int turns_before_cancel) -> Task<> {
    Listener listener(engine, any_address(GetParam()));
    CancelScope scope;
    Socket early;
    if (somebody_waits) {
      Socket socket = co_await Socket::connect(engine, listener.local_address());
      early = std::move(socket);
    }
    auto accepts = [&]() -> Task<> {
      const Socket socket = co_await listener.accept();
      EXPECT_NE(::fcntl(socket.descriptor(), F_GETFD) & FD_CLOEXEC, 0) << "not for programs that we start";
    };
    auto cancels = [&]() -> Task<> {
      for (int i = 0; i < turns_before_cancel; ++i) co_await engine.sleep_for(0s);
      const Socket late = co_await Socket::connect(engine, listener.local_address());
      scope.cancel();
      co_await engine.sleep_for(0s);
    };
    auto both = [&]() -> Task<> { co_await when_all(with_scope(scope, accepts()), cancels()); };
    const auto error = co_await error_of(both());
    EXPECT_TRUE(kind_of(error) == "Cancelled" || kind_of(error) == "no error") << error->what();
  };
  for (int i = 0; i < 60; ++i) engine.run(round(i % 2 == 0, i % 3));
  EXPECT_EQ(open_descriptors(), descriptors);
}

/// What accept() does when the kernel answers with each of these, one after the other: how often it asks.
std::size_t asked_until_it_throws(const std::vector<int>& error_numbers, std::optional<Error>& error) {
  test::VirtualEngine engine;
  Listener listener(engine, any_address("unix"));
  std::size_t asked = 0;
  auto answers = [&]() -> Task<> {
    for (const int error_number : error_numbers) {
      while (engine.virtual_driver().in_flight() == 0) {
        co_await engine.sleep_for(1ms);
        if (error) co_return;
      }
      ++asked;
      engine.virtual_driver().finish_next(-error_number);
      co_await engine.sleep_for(0s);
    }
  };
  auto accepts = [&]() -> Task<> {
    const auto failure = co_await error_of(listener.accept());
    error = failure;
  };
  auto body = [&]() -> Task<> { co_await when_all(accepts(), answers()); };
  engine.run(body());
  return asked;
}

TEST(Listener, goes_on_where_buffers_memory_or_the_network_fail) {
  const std::vector<int> passing = {ENOBUFS,      ENOMEM,    EPERM,       EMFILE,    ENFILE,    ENETDOWN,
                                    ECONNABORTED, EPROTO,    ENOPROTOOPT, ENONET,    EINTR,     EAGAIN,
                                    EHOSTUNREACH, EHOSTDOWN, ENETUNREACH, ETIMEDOUT, EOPNOTSUPP};
  for (const int last : {EBADF, EINVAL, ENOTSOCK, EFAULT}) {
    std::vector<int> answers = passing;
    answers.push_back(last);
    std::optional<Error> error;
    EXPECT_EQ(asked_until_it_throws(answers, error), answers.size());
    ASSERT_EQ(kind_of(error), "SystemError");
    EXPECT_NE(error->message().find("accepting a connection at unix:"), std::string_view::npos)
        << error->what();
  }
}

TEST(Socket, knows_that_this_host_has_nothing_left_to_call_from) {
  test::VirtualEngine engine;
  const Address to = Address::parse("10.0.0.9:7000");
  std::optional<Error> error;
  auto calls = [&]() -> Task<> {
    const auto failure = co_await error_of(Socket::connect(engine, to));
    error = failure;
  };
  auto answers = [&]() -> Task<> {
    engine.virtual_driver().finish_next(-EADDRNOTAVAIL);
    co_return;
  };
  auto body = [&]() -> Task<> { co_await when_all(calls(), answers()); };
  engine.run(body());
  ASSERT_EQ(kind_of(error), "ResourceLimit");
  for (const char* words : {"connecting to 10.0.0.9:7000", "ip_local_port_range"})
    EXPECT_NE(error->message().find(words), std::string_view::npos) << error->what();
}

int buffer_bytes(const Socket& socket, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(socket.descriptor(), SOL_SOCKET, option, &value, &size), 0);
  return value;
}

TEST(Socket, buffers_get_the_room_that_was_asked_for_or_stay_as_they_were) {
  Engine engine(sleepy());
  auto ends = socket_pair();
  Socket socket(engine, std::move(ends.first));
  for (const int option : {SO_RCVBUF, SO_SNDBUF}) {
    const int before = buffer_bytes(socket, option);
    constexpr int kModest = 64 << 10;  // every host allows that much
    socket.set_buffer_bytes(kModest);
    EXPECT_EQ(buffer_bytes(socket, option), 2 * kModest) << "Linux counts its own overhead in";
    constexpr int kHuge = 512 << 20;
    socket.set_buffer_bytes(kHuge);
    const int after = buffer_bytes(socket, option);
    EXPECT_TRUE(after == 2 * kHuge || after == 2 * kModest) << before << ", then " << after;
  }
}

TEST(Address, reads_what_it_writes) {
  for (const char* text : {"unix:some-name", "127.0.0.1:4242", "10.1.2.3:0", "[::1]:65535", "[fe80::1%lo]:7"})
    EXPECT_EQ(Address::parse(text).to_string(), text);
  EXPECT_EQ(Address::parse("tcp:127.0.0.1:1").to_string(), "127.0.0.1:1");
  EXPECT_EQ(Address::parse("127.0.0.1:99").with_any_port().to_string(), "127.0.0.1:0");
}

TEST(Address, knows_what_stays_on_this_host) {
  EXPECT_TRUE(Address::parse("unix:x").is_unix());
  EXPECT_FALSE(Address::parse("127.0.0.1:1").is_unix());
  for (const char* local : {"unix:x", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"})
    EXPECT_TRUE(Address::parse(local).is_loopback()) << local;
  for (const char* remote : {"10.0.0.1:1", "0.0.0.0:1", "[fe80::1]:1"})
    EXPECT_FALSE(Address::parse(remote).is_loopback()) << remote;
}

TEST(Address, refuses_what_is_none_and_says_what_is_accepted) {
  const std::string long_name = "unix:" + std::string(200, 'n');
  for (const std::string& refused :
       {std::string(), std::string("unix:"), long_name, std::string("127.0.0.1"), std::string("127.0.0.1:"),
        std::string("127.0.0.1:65536"), std::string(":1"), std::string("127.0.0.1:-1"), std::string("::1:1"),
        std::string("[]:1"), std::string("300.0.0.1:1")}) {
    const auto error = error_from([&] { (void)Address::parse(refused); });
    ASSERT_EQ(kind_of(error), "InvalidArgument") << refused;
    EXPECT_NE(error->message().find("write unix:NAME, HOST:PORT or [IPV6]:PORT"), std::string_view::npos);
  }
}

/// No descriptor more may be opened while it lives.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest_free), .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptorLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(Socket, a_descriptor_that_has_no_room_here_is_an_error_that_names_the_limit) {
  if (sanitizers::kAddress)
    GTEST_SKIP() << "UBSan opens a pipe to look at a type, and has no descriptors either";
  Engine engine(sleepy());
  auto body = [&]() -> Task<> {
    Listener listener(engine, any_address("unix"));
    Socket one = co_await Socket::connect(engine, listener.local_address());
    Socket other = co_await listener.accept();
    const std::string text = "hello";
    const std::array<int, 1> passed = {other.descriptor()};
    const bool is_sent = co_await one.pass(bytes_of(text), passed);
    EXPECT_TRUE(is_sent);
    std::string got(text.size(), '\0');
    std::vector<Descriptor> descriptors;
    std::optional<Error> error;
    {
      const NoDescriptorLeft limit;
      const auto failure =
          co_await error_of(other.receive(std::as_writable_bytes(std::span(got)), descriptors, 1));
      error = failure;
    }
    EXPECT_EQ(kind_of(error), "ResourceLimit");
    const std::string text_of_error(error ? error->message() : "");
    EXPECT_NE(text_of_error.find("ulimit -n"), std::string::npos) << text_of_error;
  };
  engine.run(with_deadline(30s, body()));
}

}  // namespace
}  // namespace cohort::socket_test
