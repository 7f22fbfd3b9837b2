// SPDX-License-Identifier: Apache-2.0
// Joining between real processes, which die as real processes do.
#include <cohort/net/join/join.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::join_processes_test {
namespace {

using ::cohort::test::exchange_ranks;
using ::cohort::test::fresh_unix_address;
using ::cohort::test::join_into;
using ::cohort::test::Joined;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

constexpr auto kLook = std::chrono::milliseconds(2);

/// Runs `body` in a process of its own, started before this one has an engine; its result is the exit status.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : process_(::fork()) {
    if (process_ == 0) ::_exit(body());
  }
  ~Child() {
    if (process_ > 0) kill();
  }
  void kill() {
    ::kill(process_, SIGKILL);
    static_cast<void>(wait());
  }
  [[nodiscard]] int wait() {
    int status = -1;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return status;
  }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_;
};

/// As ever, with time for processes that get little of it.
std::vector<JoinOptions> world_of(Rank size, const std::string& address) {
  std::vector<JoinOptions> world = ::cohort::test::world_of(size, address);
  for (JoinOptions& options : world) options.timeout = std::chrono::minutes(1);
  return world;
}

/// Unix addresses at which this process listens: that of rank 0, and one for each other rank that rank 0 has
/// let in, which opens it just before it introduces itself.
std::size_t unix_listeners() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int domain = 0;
    int listens = 0;
    ::socklen_t size = sizeof(int);
    if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) continue;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    if (listens != 0) ++count;
  }
  return count;
}

/// A pipe by which a child tells that it has come so far.
class Told {
 public:
  Told() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() {
    for (const int end : ends_) ::close(end);
  }
  void tell() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  [[nodiscard]] bool has_been_told() const {
    pollfd entry{.fd = ends_[0], .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) == 1;
  }
  [[nodiscard]] bool wait() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// Joins, talks to everybody, and returns 0; or the kind of error. Not as rank 0 it can tell when it has
/// introduced itself to rank 0.
int take_part(JoinOptions options, const Told* introduced = nullptr) {
  Engine engine;
  Joined joined;
  auto tell = [&]() -> Task<> {
    if (introduced == nullptr) co_return;
    while (unix_listeners() == 0 && !joined.error) co_await engine.sleep_for(kLook);
    co_await engine.sleep_for(kLook);  // the kernel has what the loop had for it in that turn
    introduced->tell();
  };
  auto both = [&]() -> Task<> { co_await when_all(join_into(engine, std::move(options), joined), tell()); };
  engine.run(both());
  if (joined.error) return 100 + static_cast<int>(joined.error->kind());
  engine.run(exchange_ranks(*joined.membership));
  return 0;
}

/// Connections that the listener at this Unix address has accepted and that still stand.
std::size_t accepted_at(const std::string& address) {
  std::ifstream table("/proc/net/unix");
  const std::string name = " @" + address.substr(address.find(':') + 1);
  constexpr std::string_view kConnected = " 03 ";
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);)
    if (line.ends_with(name) && line.find(kConnected) != std::string::npos) ++count;
  return count;
}

TEST(JoinProcesses, eight_processes_meet) {
  constexpr Rank kSize = 8;
  const std::string address = fresh_unix_address();
  std::vector<std::unique_ptr<Child>> children;
  for (Rank rank = 1; rank < kSize; ++rank)
    children.push_back(
        std::make_unique<Child>([&] { return take_part(std::move(world_of(kSize, address)[rank])); }));
  Engine engine;
  Joined joined;
  engine.run(join_into(engine, std::move(world_of(kSize, address)[0]), joined));
  ASSERT_TRUE(joined.membership) << joined.error->what();
  for (Rank rank = 1; rank < kSize; ++rank) {
    EXPECT_EQ(joined.membership->peers[rank].process,
              static_cast<std::uint32_t>(children[rank - 1]->process()));
    EXPECT_TRUE(joined.membership->shares_host(rank));
    EXPECT_FALSE(joined.membership->shares_process(rank));
  }
  engine.run(exchange_ranks(*joined.membership));
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
}

TEST(JoinProcesses, a_killed_rank_0_is_named_to_those_who_joined_it) {
  const std::string address = fresh_unix_address();
  Child rank_0([&] { return take_part(std::move(world_of(4, address)[0])); });
  Engine engine;
  std::vector<JoinOptions> world = world_of(4, address);
  std::vector<Joined> joined(3);
  auto kill_it = [&]() -> Task<> {
    while (unix_listeners() < 2) co_await engine.sleep_for(kLook);  // both were let in
    rank_0.kill();
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine, std::move(world[1]), joined[1]),
                      join_into(engine, std::move(world[2]), joined[2]), kill_it());
  };
  engine.run(everybody());
  for (const Rank rank : {1, 2}) {
    ASSERT_EQ(kind_of(joined[rank].error), "PeerDied");
    EXPECT_EQ(joined[rank].error->culprit(), Rank{0});
    EXPECT_THAT(joined[rank].error->what(), HasSubstr("rank 0 at " + address + " died while rank"));
  }
}

TEST(JoinProcesses, a_killed_member_is_succeeded_by_its_restart) {
  const std::string address = fresh_unix_address();
  const Told introduced;
  const Told go;
  Child first([&] { return take_part(std::move(world_of(3, address)[1]), &introduced); });
  Child second([&] { return go.wait() ? take_part(std::move(world_of(3, address)[1])) : 99; });
  Engine engine;
  std::vector<JoinOptions> world = world_of(3, address);
  std::vector<Joined> joined(3);
  auto restart = [&]() -> Task<> {
    while (!introduced.has_been_told()) co_await engine.sleep_for(kLook);
    first.kill();
    while (accepted_at(address) > 0) co_await engine.sleep_for(kLook);  // rank 0 has seen that it went
    go.tell();
    co_await join_into(engine, std::move(world[2]), joined[2]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine, std::move(world[0]), joined[0]), restart());
  };
  engine.run(everybody());
  for (const Rank rank : {0, 2}) ASSERT_TRUE(joined[rank].membership) << joined[rank].error->what();
  EXPECT_EQ(joined[0].membership->peers[1].process, static_cast<std::uint32_t>(second.process()));
  auto talk = [&]() -> Task<> {
    co_await when_all(exchange_ranks(*joined[0].membership), exchange_ranks(*joined[2].membership));
  };
  engine.run(talk());
  EXPECT_EQ(second.wait(), 0);
}

TEST(JoinProcesses, a_stopped_member_that_never_connects_is_named_at_the_deadline) {
  const std::string address = fresh_unix_address();
  const Told introduced;
  Child rank_1([&] { return take_part(std::move(world_of(3, address)[1]), &introduced); });
  Engine engine;
  std::vector<JoinOptions> world = world_of(3, address);
  world[2].timeout = std::chrono::seconds(2);  // from when all are there
  std::vector<Joined> joined(3);
  auto stop_it = [&]() -> Task<> {
    while (!introduced.has_been_told()) co_await engine.sleep_for(kLook);
    ::kill(rank_1.process(), SIGSTOP);
    co_await join_into(engine, std::move(world[2]), joined[2]);
  };
  auto everybody = [&]() -> Task<> {
    co_await when_all(join_into(engine, std::move(world[0]), joined[0]), stop_it());
  };
  engine.run(everybody());
  for (const Rank rank : {0, 2}) {
    EXPECT_EQ(kind_of(joined[rank].error), "PeerSilent");
    EXPECT_EQ(joined[rank].error->culprit(), Rank{1});
  }
}

TEST(JoinProcesses, more_than_a_hundred_meet) {
  constexpr Rank kMany = 128;
  std::vector<JoinOptions> world = world_of(kMany, fresh_unix_address());
  std::vector<std::unique_ptr<Child>> children;
  for (JoinOptions& options : world)
    children.push_back(std::make_unique<Child>([&options] { return take_part(std::move(options)); }));
  for (const auto& child : children) EXPECT_EQ(child->wait(), 0);
}

}  // namespace
}  // namespace cohort::join_processes_test
