// SPDX-License-Identifier: Apache-2.0
// What a forked child may not keep of its parent's sockets.
#include <cohort/engine/io/fork_guard.h>

#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/descriptors.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <vector>

namespace cohort::fork_guard_test {
namespace {

/// A child that does nothing, from its making to its end with this.
class Idler {
 public:
  Idler() : process_(::fork()) {
    if (process_ == 0)
      for (;;) ::pause();
  }
  Idler(const Idler&) = delete;
  Idler& operator=(const Idler&) = delete;
  ~Idler() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_;
};

/// A client that the loop knows nothing of.
Descriptor connect_to(const Address& address) {
  Descriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.number(), reinterpret_cast<const sockaddr*>(address.data()),
                      static_cast<socklen_t>(address.size_bytes())),
            0);
  return client;
}

bool sees_its_end(const Descriptor& client) {
  pollfd entry{.fd = client.number(), .events = POLLIN, .revents = 0};
  char byte = 0;
  return ::poll(&entry, 1, 10'000) == 1 && ::recv(client.number(), &byte, 1, 0) <= 0;
}

/// A byte and a connection come at once, and who is told of the byte makes a child before anybody is told of
/// the connection.
TEST(ForkGuard, a_connection_that_has_come_and_was_not_taken_yet_is_none_of_a_childs) {
  Engine engine;
  Listener listener(engine, Address::unix_abstract(fmt::format("cohort-fork-guard-{}", ::getpid())));
  const auto pipe = test::make_pipe();
  Descriptor client;
  std::optional<Idler> child;
  auto forks = [&]() -> Task<> {
    IoOperation byte(engine.driver(),
                     {.kind = IoKind::poll, .descriptor = pipe.first.number(), .flags = POLLIN});
    co_await byte;
    child.emplace();
  };
  auto takes = [&]() -> Task<> { const Socket socket = co_await listener.accept(); };
  auto both_come = [&]() -> Task<> {
    co_await engine.sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(::write(pipe.second.number(), "x", 1), 1);
    client = connect_to(listener.local_address());
  };
  auto body = [&]() -> Task<> { co_await when_all(forks(), takes(), both_come()); };
  engine.run(body());
  EXPECT_TRUE(sees_its_end(client)) << "the child holds it open";
}

/// The first number of a guarded socket that is still one in this process, or that is free: 1 and 2.
int kept_or_free(const std::vector<Socket>& sockets) {
  for (const Socket& socket : sockets) {
    struct stat status {};
    if (::fstat(socket.descriptor(), &status) != 0) return 2;
    if (S_ISSOCK(status.st_mode)) return 1;
  }
  return 0;
}

TEST(ForkGuard, numbers_stay_taken_in_a_child_that_may_open_nothing) {
  if (sanitizers::kAddress)
    GTEST_SKIP() << "UBSan opens a pipe to look at a type, and has no descriptors either";
  Engine engine;
  std::vector<Socket> sockets;
  for (int i = 0; i < 3; ++i) {
    auto [one, other] = test::socket_pair();
    sockets.emplace_back(engine, std::move(one));
    sockets.emplace_back(engine, std::move(other));
  }
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few{64, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Descriptor> hoard;
  for (int number = ::dup(STDOUT_FILENO); number >= 0; number = ::dup(STDOUT_FILENO))
    hoard.emplace_back(number);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(kept_or_free(sockets));
  hoard.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: a socket is kept, 2: a number is free";
}

}  // namespace
}  // namespace cohort::fork_guard_test
