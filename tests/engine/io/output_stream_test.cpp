// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/output_stream.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/io/pipe.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/process_support.h>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <string>

namespace cohort::output_stream_test {
namespace {

using namespace std::chrono_literals;

/// More than any pipe or socket holds at once.
std::string much_text() {
  std::string text;
  while (text.size() < 3'000'000) text += std::to_string(text.size()) + " ";
  return text;
}

/// Writes all of it while a slow reader takes it out of the other end.
void expect_to_pass_whole(int write_end, Descriptor read_end) {
  Engine engine;
  const std::string text = much_text();
  std::string received;
  auto write = [&]() -> Task<> {
    OutputStream stream(engine, write_end);
    co_await engine.sleep_for(1ms);
    const bool has_reader = co_await stream.write(text);
    EXPECT_TRUE(has_reader);
  };
  auto read = [&]() -> Task<> {
    PipeReader reader(engine, std::move(read_end));
    std::vector<std::byte> bytes(10'000);
    while (received.size() < text.size()) {
      co_await reader.until_readable();
      const auto count = reader.try_read(bytes);
      received.append(reinterpret_cast<const char*>(bytes.data()), count.value_or(0));
    }
  };
  auto body = [&]() -> Task<> {
    TaskScope scope;
    scope.spawn(write());
    scope.spawn(read());
    co_await scope.join();
  };
  engine.run(body());
  EXPECT_TRUE(received == text);
}

TEST(OutputStream, a_slow_reader_of_a_pipe_gets_everything) {
  Pipe pipe = Pipe::create();
  expect_to_pass_whole(pipe.write_end.number(), std::move(pipe.read_end));
  EXPECT_EQ(::fcntl(pipe.write_end.number(), F_GETFL) & O_NONBLOCK, 0)
      << "others share it and expect it to block";
}

TEST(OutputStream, a_slow_reader_of_a_socket_gets_everything) {
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor write_end(ends[0]);
  expect_to_pass_whole(write_end.number(), Descriptor(ends[1]));
}

TEST(OutputStream, a_file_is_written_where_it_stands) {
  Engine engine;
  const test::Collector file;
  ASSERT_EQ(::write(file.descriptor(), "before ", 7), 7);
  OutputStream stream(engine, file.descriptor());
  EXPECT_TRUE(engine.run(stream.write("after")));
  EXPECT_EQ(file.text(), "before after");
}

TEST(OutputStream, a_reader_that_has_gone_is_an_answer_and_no_signal) {
  Engine engine;
  Pipe early = Pipe::create();
  early.read_end.close();
  OutputStream to_nobody(engine, early.write_end.number());
  EXPECT_FALSE(engine.run(to_nobody.write("text")));

  Pipe late = Pipe::create();
  OutputStream stream(engine, late.write_end.number());
  EXPECT_TRUE(engine.run(stream.write("text")));
  late.read_end.close();
  EXPECT_FALSE(engine.run(stream.write("text")));

  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor write_end(ends[0]);
  ::close(ends[1]);
  OutputStream socket(engine, write_end.number());
  EXPECT_FALSE(engine.run(socket.write("text")));

  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

TEST(OutputStream, what_cannot_be_written_is_an_error) {
  Engine engine;
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  OutputStream stream(engine, full.number());
  const auto error = test::error_from([&] { engine.run(stream.write("text")); });
  EXPECT_EQ(test::kind_of(error), "ResourceLimit");
}

TEST(OutputStream, a_write_that_nobody_reads_can_be_cancelled) {
  Engine engine;
  const Pipe pipe = Pipe::create();
  OutputStream stream(engine, pipe.write_end.number());
  const std::string text = much_text();
  auto write = [&]() -> Task<> { co_await stream.write(text); };
  auto body = [&]() -> Task<std::optional<Error>> {
    co_return co_await test::error_of(with_deadline(20ms, write()));
  };
  const auto error = engine.run(body());
  EXPECT_EQ(test::kind_of(error), "DeadlineExceeded");
}

TEST(OutputStream, knows_when_two_go_to_one_place) {
  Engine engine;
  const Pipe first = Pipe::create();
  const Pipe second = Pipe::create();
  const Descriptor copy(::dup(first.write_end.number()));
  const OutputStream one(engine, first.write_end.number());
  EXPECT_TRUE(one.is_same_place(OutputStream(engine, copy.number())));
  EXPECT_FALSE(one.is_same_place(OutputStream(engine, second.write_end.number())));
}

}  // namespace
}  // namespace cohort::output_stream_test
