// SPDX-License-Identifier: Apache-2.0
// For how long nothing has come from the host at the other end of a connection, by a network that is cut.
#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/when_all.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/user_namespace.h>

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

namespace cohort::silence_test {
namespace {

using namespace std::chrono_literals;

/// The loopback interface of this process's network namespace.
bool set_loopback(bool is_up) {
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  const int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
  bool is_set = ::ioctl(socket, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  is_set = is_set && ::ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  ::close(socket);
  return is_set;
}

Task<> cut_and_listen(Engine& engine) {
  Listener listener(engine, Address::parse("127.0.0.1:0"));
  Socket one = co_await Socket::connect(engine, listener.local_address());
  Socket other = co_await listener.accept();
  std::array<std::byte, 64> bytes{};
  co_await one.send(bytes);
  co_await other.receive(bytes);
  while (!one.is_acknowledged()) co_await engine.sleep_for(1ms);
  EXPECT_EQ(one.silence(), Duration::zero()) << "nothing is on its way";
  EXPECT_TRUE(set_loopback(false));
  EXPECT_TRUE(one.try_send(bytes));
  co_await engine.sleep_for(400ms);
  EXPECT_GE(one.silence(), 300ms);
  EXPECT_EQ(other.silence(), Duration::zero()) << "it has sent nothing";
}

TEST(Silence, is_known_of_what_is_not_acknowledged) {
  test::ForkedPart part("a network of its own", [] {
    if (!test::become_only_user(0) || ::unshare(CLONE_NEWNET) != 0 || !set_loopback(true)) return;
    Engine engine;
    engine.run(cut_and_listen(engine));
  });
  part.join();
}

/// As a control connection of a rank that computes: its kernel goes on saying that there is no room.
TEST(HostTimeout, ends_no_connection_whose_other_end_has_no_room) {
  constexpr Duration kTimeout = std::chrono::seconds(1);
  Engine engine;
  auto body = [&]() -> Task<> {
    const Address any = Address::parse("127.0.0.1:0");
    Listener listener(engine, any);
    Socket socket = co_await Socket::connect(engine, listener.local_address());
    Socket busy = co_await listener.accept();
    socket.set_host_timeout(kTimeout);
    const std::vector<std::byte> block(1U << 20);
    int sent = 0;
    while (sent >= 0) sent = socket.try_send_some(block, std::span<const std::byte>());
    EXPECT_EQ(sent, -EAGAIN);
    co_await engine.sleep_for(4 * kTimeout);
    const int later = socket.try_send_some(block, std::span<const std::byte>());
    EXPECT_NE(later, -ETIMEDOUT);
    EXPECT_FALSE(socket.has_lost_host());
    EXPECT_LT(socket.silence(), kTimeout);
    EXPECT_TRUE(busy.is_open());
  };
  engine.run(body());
}

}  // namespace
}  // namespace cohort::silence_test
