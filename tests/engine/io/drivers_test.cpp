// SPDX-License-Identifier: Apache-2.0
// How requests of every kind end.
#include <cohort/engine/io/wakeup.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/engine/io/drivers.h>
#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/outcome.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define COHORT_TEST_CHECKS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COHORT_TEST_CHECKS_MEMORY 1
#endif
#endif

namespace cohort::drivers_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::make_pipe;
using cohort::test::open_descriptors;
using cohort::test::socket_pair;

constexpr std::size_t kManyRequests = 10'000;

INSTANTIATE_TEST_SUITE_P(Every, Drivers, every_driver(), driver_name);

void write_all(const Descriptor& to, std::string_view text) {
  ASSERT_EQ(::write(to.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

/// A listening Unix socket with a name of its own, and its address.
class TestListener {
 public:
  TestListener() : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(::bind(number(), address(), sizeof(sa_family_t)), 0) << "the kernel chooses a name";
    socklen_t size = sizeof name_;
    EXPECT_EQ(::getsockname(number(), address(), &size), 0);
    size_bytes_ = size;
    EXPECT_EQ(::listen(number(), 64), 0);
  }
  [[nodiscard]] int number() const { return descriptor_.number(); }
  [[nodiscard]] sockaddr* address() { return reinterpret_cast<sockaddr*>(&name_); }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] Descriptor connect() {
    Descriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(client.number(), address(), static_cast<socklen_t>(size_bytes_)), 0);
    return client;
  }

 private:
  Descriptor descriptor_;
  sockaddr_un name_{.sun_family = AF_UNIX, .sun_path = {}};
  std::size_t size_bytes_ = 0;
};

TEST_P(Drivers, says_how_it_talks_to_the_kernel) {
  EXPECT_EQ(make()->description().find(is_uring() ? "io_uring (" : "epoll (for a test)"), 0);
}

TEST_P(Drivers, reads_what_is_there_or_comes_later) {
  Engine engine(sleepy());
  auto [reader, writer] = make_pipe();
  std::array<char, 16> bytes{};
  const IoOperation::Request read{
      .kind = IoKind::read, .descriptor = reader.number(), .address = bytes.data(), .bytes = bytes.size()};
  write_all(writer, "now");
  EXPECT_EQ(engine.run(perform(engine, read)), 3);
  EXPECT_STREQ(bytes.data(), "now");
  auto writes = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    write_all(writer, "later");
  };
  auto body = [&]() -> Task<int> {
    const auto results = co_await when_all(perform(engine, read), writes());
    co_return std::get<0>(results);
  };
  EXPECT_EQ(engine.run(body()), 5);
  EXPECT_STREQ(bytes.data(), "later");
  writer.close();
  EXPECT_EQ(engine.run(perform(engine, read)), 0) << "the end of the stream";
}

TEST_P(Drivers, reads_a_file_from_where_the_last_read_ended) {
  Engine engine(sleepy());
  const Descriptor file(::memfd_create("file", MFD_CLOEXEC));
  write_all(file, "firstsecond");
  ::lseek(file.number(), 0, SEEK_SET);
  std::array<char, 7> bytes{};
  IoOperation::Request read{
      .kind = IoKind::read, .descriptor = file.number(), .address = bytes.data(), .bytes = 5};
  EXPECT_EQ(engine.run(perform(engine, read)), 5);
  EXPECT_STREQ(bytes.data(), "first");
  read.bytes = 6;
  EXPECT_EQ(engine.run(perform(engine, read)), 6);
  EXPECT_STREQ(bytes.data(), "second");
  const IoOperation::Request poll{
      .kind = IoKind::poll, .descriptor = file.number(), .flags = POLLIN | POLLOUT};
  EXPECT_EQ(engine.run(perform(engine, poll)), POLLIN | POLLOUT) << "a file is always ready";
}

TEST_P(Drivers, sends_and_receives) {
  Engine engine(sleepy());
  auto [a, b] = socket_pair();
  std::string text = "good morning";
  std::array<char, 32> bytes{};
  auto body = [&]() -> Task<> {
    Task<int> receives = perform(
        engine,
        {.kind = IoKind::recv, .descriptor = b.number(), .address = bytes.data(), .bytes = bytes.size()});
    Task<int> sends = perform(
        engine,
        {.kind = IoKind::send, .descriptor = a.number(), .address = text.data(), .bytes = text.size()});
    const auto results = co_await when_all(std::move(receives), std::move(sends));
    EXPECT_EQ(std::get<0>(results), 12);
    EXPECT_EQ(std::get<1>(results), 12);
  };
  engine.run(body());
  EXPECT_EQ(bytes.data(), text);
}

TEST_P(Drivers, failure_is_a_negative_error_number) {
  Engine engine(sleepy());
  std::byte byte{};
  EXPECT_EQ(
      engine.run(perform(engine, {.kind = IoKind::read, .descriptor = -1, .address = &byte, .bytes = 1})),
      -EBADF);
  const Descriptor file(::memfd_create("file", MFD_CLOEXEC));
  EXPECT_EQ(engine.run(perform(
                engine, {.kind = IoKind::recv, .descriptor = file.number(), .address = &byte, .bytes = 1})),
            -ENOTSOCK);
}

TEST(UringDriver, without_locked_memory_the_limit_is_named) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become a user that has no ring yet";
  const auto make_one = [] {
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0 || ::setuid(65533) != 0) std::_Exit(99);
    const auto error = test::error_from([] { const auto driver = make_uring_driver(); });
    const std::string text = error ? error->what() : "Linux before 6.13 counts nothing";
    const bool is_told = !error || text.find("ResourceLimit: no memory for io_uring") == 0;
    std::fputs(text.c_str(), stderr);
    std::_Exit(is_told ? 0 : 1);
  };
  EXPECT_EXIT(make_one(), ::testing::ExitedWithCode(0), "ulimit -l|Linux before");
}

/// The kernel may take them in parts; who asks for all gets all.
TEST_P(Drivers, sends_all_of_what_does_not_fit_at_once) {
  Engine engine(sleepy());
  auto [a, b] = socket_pair();
  std::vector<char> sent(4 << 20);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i % 251);
  std::vector<char> received(sent.size());
  auto receives = [&, from = b.number()]() -> Task<> {
    for (std::size_t done = 0; done < received.size();) {
      Task<int> part = perform(engine, {.kind = IoKind::recv,
                                        .descriptor = from,
                                        .address = received.data() + done,
                                        .bytes = received.size() - done});
      const int result = co_await part;
      if (result <= 0) co_return;
      done += static_cast<std::size_t>(result);
    }
  };
  auto body = [&, to = a.number()]() -> Task<int> {
    Task<int> sends = perform(engine, {.kind = IoKind::send,
                                       .descriptor = to,
                                       .address = sent.data(),
                                       .bytes = sent.size(),
                                       .flags = MSG_WAITALL | MSG_NOSIGNAL});
    const auto results = co_await when_all(std::move(sends), receives());
    co_return std::get<0>(results);
  };
  EXPECT_EQ(engine.run(body()), static_cast<int>(sent.size()));
  EXPECT_EQ(received, sent);
}

TEST_P(Drivers, reader_and_writer_of_one_descriptor_wait_beside_each_other) {
  Engine engine(sleepy());
  auto [a, b] = socket_pair();
  std::vector<char> bytes(1 << 20);
  while (::send(a.number(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  std::string order;
  auto waits = [&, of = a.number()](std::uint32_t events, char letter) -> Task<> {
    Task<int> poll = perform(engine, {.kind = IoKind::poll, .descriptor = of, .flags = events});
    const int ready = co_await poll;
    EXPECT_NE(static_cast<std::uint32_t>(ready) & events, 0U);
    order += letter;
  };
  auto answers = [&, peer = b.number()]() -> Task<> {
    co_await engine.sleep_for(1ms);
    EXPECT_EQ(::send(peer, "x", 1, 0), 1);
    while (order.empty()) co_await engine.sleep_for(1ms);
    while (::recv(peer, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  };
  auto body = [&]() -> Task<> { co_await when_all(waits(POLLOUT, 'w'), waits(POLLIN, 'r'), answers()); };
  engine.run(body());
  EXPECT_EQ(order, "rw");
}

TEST_P(Drivers, refused_connection_is_the_kernels_error) {
  Engine engine(sleepy());
  TestListener listener;
  const std::string closed_address = [&] {
    const Descriptor bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(bound.number(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::getsockname(bound.number(), reinterpret_cast<sockaddr*>(&name), &size), 0);
    return std::string(reinterpret_cast<const char*>(&name), size);
  }();
  const Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const IoOperation::Request connect{.kind = IoKind::connect,
                                     .descriptor = client.number(),
                                     .address = const_cast<char*>(closed_address.data()),
                                     .bytes = closed_address.size()};
  EXPECT_EQ(engine.run(perform(engine, connect)), -ECONNREFUSED);
}

/// The new file must not be told what the old one was watched for.
TEST_P(Drivers, number_of_a_closed_descriptor_is_watched_anew) {
  Engine engine(sleepy());
  for (int round = 0; round < 3; ++round) {
    auto [reader, writer] = make_pipe();
    const Descriptor held(::dup(writer.number()));  // the old file stays open
    const IoOperation::Request readable{.kind = IoKind::poll, .descriptor = reader.number(), .flags = POLLIN};
    auto body = [&]() -> Task<std::string> {
      const auto error = co_await error_of(with_deadline(1ms, perform(engine, readable)));
      co_return kind_of(error);
    };
    EXPECT_EQ(engine.run(body()), "DeadlineExceeded") << round;
    write_all(writer, "x");
    EXPECT_EQ(engine.run(perform(engine, readable)) & POLLIN, POLLIN) << round;
  }
}

TEST_P(Drivers, connects_and_tells_the_listener) {
  Engine engine(sleepy());
  TestListener listener;
  const Descriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto body = [&]() -> Task<> {
    Task<int> polls =
        perform(engine, {.kind = IoKind::poll, .descriptor = listener.number(), .flags = POLLIN});
    Task<int> connects = perform(engine, {.kind = IoKind::connect,
                                          .descriptor = client.number(),
                                          .address = listener.address(),
                                          .bytes = listener.size_bytes()});
    const auto results = co_await when_all(std::move(polls), std::move(connects));
    EXPECT_EQ(std::get<0>(results) & POLLIN, POLLIN);
    EXPECT_EQ(std::get<1>(results), 0);
  };
  engine.run(body());
  const Descriptor accepted(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(accepted.is_open());
  write_all(client, "x");
  char byte = 0;
  EXPECT_EQ(::read(accepted.number(), &byte, 1), 1);
}

TEST_P(Drivers, polls_for_readiness) {
  Engine engine(sleepy());
  const Descriptor event = wakeup::make_event();
  auto signals = [&]() -> Task<> {
    co_await engine.sleep_for(1ms);
    wakeup::signal_event(event.number());
  };
  auto body = [&]() -> Task<int> {
    Task<int> polls = perform(engine, {.kind = IoKind::poll, .descriptor = event.number(), .flags = POLLIN});
    const auto results = co_await when_all(std::move(polls), signals());
    co_return std::get<0>(results);
  };
  EXPECT_EQ(engine.run(body()) & POLLIN, POLLIN);
}

TEST_P(Drivers, waits_on_a_futex_word_until_another_thread_wakes_it) {
  Engine engine(sleepy());
  if (!engine.driver().has_futex()) GTEST_SKIP() << "no futex waits here";
  std::atomic<std::uint32_t> word{7};
  const IoOperation::Request wait{.kind = IoKind::futex_wait, .address = &word, .expected = 7};
  auto changes = [&]() -> Task<> {
    auto from_a_thread = [&] {
      word = 8;
      wakeup::wake_futex(word);
    };
    co_await engine.sleep_for(1ms);
    co_await engine.offload(from_a_thread);
  };
  auto body = [&]() -> Task<int> {
    const auto results = co_await when_all(perform(engine, wait), changes());
    co_return std::get<0>(results);
  };
  EXPECT_EQ(engine.run(body()), 0);
  EXPECT_EQ(engine.run(perform(engine, wait)), -EAGAIN) << "the word has changed already: no wait";
}

/// Everything that can be cancelled, each by a deadline while it is in flight.
TEST_P(Drivers, request_of_any_kind_ends_when_it_is_cancelled) {
  Engine engine(sleepy());
  auto [reader, writer] = make_pipe();
  auto [a, b] = socket_pair();
  TestListener listener;
  TestListener full;  // whose queue is full, so that connecting waits
  ::listen(full.number(), 0);
  const Descriptor first = full.connect();
  const Descriptor second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<char> bytes(8 << 20);
  std::atomic<std::uint32_t> word{7};
  iovec piece{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;

  struct Case {
    std::string name;
    IoOperation::Request request;
  };
  std::vector<Case> cases = {
      {"read", {.kind = IoKind::read, .descriptor = reader.number(), .address = bytes.data(), .bytes = 1}},
      {"recv", {.kind = IoKind::recv, .descriptor = a.number(), .address = bytes.data(), .bytes = 1}},
      {"recv_message", {.kind = IoKind::recv_message, .descriptor = a.number(), .address = &message}},
      {"poll of a listener", {.kind = IoKind::poll, .descriptor = listener.number(), .flags = POLLIN}},
      {"poll", {.kind = IoKind::poll, .descriptor = reader.number(), .flags = POLLIN}},
      {"send",
       {.kind = IoKind::send,
        .descriptor = a.number(),
        .address = bytes.data(),
        .bytes = bytes.size(),
        .flags = MSG_WAITALL | MSG_NOSIGNAL}},
      {"send_message",
       {.kind = IoKind::send_message,
        .descriptor = a.number(),
        .address = &message,
        .flags = MSG_WAITALL | MSG_NOSIGNAL}},
  };
  const IoOperation::Request connect{.kind = IoKind::connect,
                                     .descriptor = second.number(),
                                     .address = full.address(),
                                     .bytes = full.size_bytes()};
  if (is_uring())
    cases.push_back({"connect", connect});
  else
    EXPECT_EQ(engine.run(perform(engine, connect)), -EAGAIN);
  if (engine.driver().has_futex())
    cases.push_back({"futex_wait", {.kind = IoKind::futex_wait, .address = &word, .expected = 7}});
  const auto descriptors = open_descriptors();
  for (const Case& c : cases) {
    auto body = [&]() -> Task<std::string> {
      const auto error = co_await error_of(with_deadline(2ms, perform(engine, c.request)));
      co_return kind_of(error);
    };
    EXPECT_EQ(engine.run(body()), "DeadlineExceeded") << c.name;
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_P(Drivers, request_cancelled_before_it_was_handed_over_ends_too) {
  Engine engine(sleepy());
  auto [reader, writer] = make_pipe();
  char byte = 0;
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    auto reads = [&]() -> Task<> {
      Task<int> read = perform(
          engine, {.kind = IoKind::read, .descriptor = reader.number(), .address = &byte, .bytes = 1});
      const auto error = co_await error_of(std::move(read));
      EXPECT_EQ(kind_of(error), "Cancelled");
    };
    tasks.spawn(reads());
    tasks.cancel();
    co_await tasks.join();
  };
  engine.run(body());
}

TEST_P(Drivers, has_room_for_many_more_requests_than_its_ring) {
  Engine engine(sleepy());
  const Descriptor event = wakeup::make_event();
  std::size_t ready = 0;
  auto polls = [&]() -> Task<> {
    Task<int> poll = perform(engine, {.kind = IoKind::poll, .descriptor = event.number(), .flags = POLLIN});
    const int result = co_await poll;
    if ((result & POLLIN) != 0) ++ready;
  };
  auto body = [&]() -> Task<> {
    TaskScope tasks;
    for (std::size_t i = 0; i < kManyRequests; ++i) tasks.spawn(polls());
    co_await engine.sleep_for(1ms);
    EXPECT_EQ(ready, 0U);
    wakeup::signal_event(event.number());  // all of them at once
    co_await tasks.join();
  };
  engine.run(body());
  EXPECT_EQ(ready, kManyRequests);
}

TEST_P(Drivers, cancels_many_more_requests_than_its_ring_holds) {
  Engine engine(sleepy());
  const Descriptor event = wakeup::make_event();
  std::size_t cancelled = 0;
  auto polls = [&]() -> Task<> {
    Task<int> poll = perform(engine, {.kind = IoKind::poll, .descriptor = event.number(), .flags = POLLIN});
    const auto error = co_await error_of(std::move(poll));
    if (kind_of(error) == "Cancelled") ++cancelled;
  };
  for (const bool in_the_kernel : {false, true}) {
    auto body = [&]() -> Task<> {
      TaskScope tasks;
      for (std::size_t i = 0; i < kManyRequests; ++i) tasks.spawn(polls());
      if (in_the_kernel) co_await engine.sleep_for(1ms);
      tasks.cancel();
      co_await tasks.join();
    };
    engine.run(body());
  }
  EXPECT_EQ(cancelled, 2 * kManyRequests);
}

TEST_P(Drivers, moves_messages_of_four_gibibytes_and_more_in_parts) {
  Engine engine(sleepy());
  constexpr std::size_t kBytes = std::size_t{1} << 32;  // a request's length has 32 bits
  void* memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto [reader, writer] = make_pipe();
  auto [a, b] = socket_pair();
  write_all(writer, "piped");
  write_all(a, "hello");
  EXPECT_EQ(
      engine.run(perform(
          engine, {.kind = IoKind::read, .descriptor = reader.number(), .address = memory, .bytes = kBytes})),
      5);
  EXPECT_EQ(
      engine.run(perform(
          engine, {.kind = IoKind::recv, .descriptor = b.number(), .address = memory, .bytes = kBytes})),
      5);
  const int sent = engine.run(perform(engine, {.kind = IoKind::send,
                                               .descriptor = a.number(),
                                               .address = memory,
                                               .bytes = kBytes,
                                               .flags = MSG_DONTWAIT | MSG_NOSIGNAL}));
  EXPECT_GT(sent, 0);
  ::munmap(memory, kBytes);
}

#ifdef COHORT_TEST_CHECKS_MEMORY
TEST(UringDriverDeathTest, memory_that_is_not_valid_is_refused_before_the_kernel_writes_it) {
  auto [a, b] = socket_pair();
  auto freed = std::make_unique<std::array<char, 64>>();
  char* const dangling = freed->data();
  freed.reset();
  auto receive = [&] {
    Engine engine({.driver = make_uring_driver(), .compute_threads = 1, .spin = Duration::zero()});
    engine.run(
        perform(engine, {.kind = IoKind::recv, .descriptor = a.number(), .address = dangling, .bytes = 64}));
  };
  EXPECT_DEATH(receive(), "handed to the kernel are not all valid");
}
#endif

}  // namespace
}  // namespace cohort::drivers_test
