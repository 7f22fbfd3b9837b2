// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/uring_driver.h>

#include <cohort/engine/io/wakeup.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/outcome.h>

#include <fcntl.h>
#include <gtest/gtest.h>
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
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define COHORT_TEST_CHECKS_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define COHORT_TEST_CHECKS_MEMORY 1
#endif
#endif

namespace cohort {
namespace {

using namespace std::chrono_literals;
using cohort::testing::error_of;
using cohort::testing::kind_of;
using cohort::testing::make_pipe;
using cohort::testing::open_descriptors;
using cohort::testing::socket_pair;

constexpr std::size_t kManyRequests = 10'000;

EngineOptions sleepy() {
  return {.driver = make_uring_driver(), .compute_threads = 1, .spin = Duration::zero()};
}

Task<int> perform(Engine& engine, IoOperation::Request request) {
  IoOperation operation(engine.driver(), request);
  co_return co_await operation;
}

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

TEST(UringDriver, says_how_it_talks_to_the_kernel) {
  EXPECT_EQ(make_uring_driver()->description().substr(0, 8), "io_uring");
}

TEST(UringDriver, reads_what_is_there_or_comes_later) {
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

TEST(UringDriver, reads_a_file_from_where_the_last_read_ended) {
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
}

TEST(UringDriver, sends_and_receives) {
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

TEST(UringDriver, failure_is_a_negative_error_number) {
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
    const auto error = testing::error_from([] { const auto driver = make_uring_driver(); });
    const std::string text = error ? error->what() : "Linux before 6.13 counts nothing";
    const bool is_told = !error || text.find("ResourceLimit: no memory for io_uring") == 0;
    std::fputs(text.c_str(), stderr);
    std::_Exit(is_told ? 0 : 1);
  };
  EXPECT_EXIT(make_one(), ::testing::ExitedWithCode(0), "ulimit -l|Linux before");
}

TEST(UringDriver, connects_and_tells_the_listener) {
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

TEST(UringDriver, polls_for_readiness) {
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

TEST(UringDriver, waits_on_a_futex_word_until_another_thread_wakes_it) {
  Engine engine(sleepy());
  if (!engine.driver().has_futex()) GTEST_SKIP() << "this kernel has no futex wait in io_uring";
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
TEST(UringDriver, request_of_any_kind_ends_when_it_is_cancelled) {
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
      {"connect",
       {.kind = IoKind::connect,
        .descriptor = second.number(),
        .address = full.address(),
        .bytes = full.size_bytes()}},
  };
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

TEST(UringDriver, request_cancelled_before_it_was_handed_over_ends_too) {
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

TEST(UringDriver, has_room_for_many_more_requests_than_its_ring) {
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

TEST(UringDriver, cancels_many_more_requests_than_its_ring_holds) {
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

TEST(UringDriver, moves_messages_of_four_gibibytes_and_more_in_parts) {
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

TEST(UringDriver, sleeps_until_the_moment_asked_for_and_not_less) {
  Engine engine(sleepy());
  for (const Duration delay : {Duration(10us), Duration(1ms), Duration(20ms)}) {
    auto body = [&]() -> Task<> {
      const TimePoint before = engine.now();
      co_await engine.sleep_for(delay);
      EXPECT_GE(engine.now() - before, delay);
    };
    engine.run(body());
  }
}

TEST(UringDriver, wake_from_another_thread_ends_a_sleep_without_end) {
  constexpr int kRounds = 500;
  const std::unique_ptr<Driver> driver = make_uring_driver();
  std::atomic<int> sleeps{0};
  std::thread waker([&] {
    for (int i = 0; i < kRounds; ++i) {
      driver->wake();
      while (sleeps.load() <= i) std::this_thread::yield();
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    driver->sleep(TimePoint(), kNever);
    ++sleeps;
  }
  waker.join();
}

TEST(UringDriver, can_be_destroyed_right_after_a_wake) {
  for (int i = 0; i < 100; ++i) {
    const std::unique_ptr<Driver> driver = make_uring_driver();
    driver->poll();
    driver->wake();
  }
}

TEST(UringDriver, leaves_no_descriptor_behind) {
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    Engine engine(sleepy());
    auto body = [&]() -> Task<> { co_await engine.sleep_for(0s); };
    engine.run(body());
  }
  EXPECT_EQ(open_descriptors(), before);
}

#ifdef COHORT_TEST_CHECKS_MEMORY
TEST(UringDriverDeathTest, memory_that_is_not_valid_is_refused_before_the_kernel_writes_it) {
  auto [a, b] = socket_pair();
  auto freed = std::make_unique<std::array<char, 64>>();
  char* const dangling = freed->data();
  freed.reset();
  auto receive = [&] {
    Engine engine(sleepy());
    engine.run(
        perform(engine, {.kind = IoKind::recv, .descriptor = a.number(), .address = dangling, .bytes = 64}));
  };
  EXPECT_DEATH(receive(), "handed to the kernel are not all valid");
}
#endif

}  // namespace
}  // namespace cohort
