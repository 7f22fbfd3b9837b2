// SPDX-License-Identifier: Apache-2.0
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kMostPiece = std::size_t{512} << 10;

/// Of what this thread sends, up to the last byte of its message; 0: nothing is watched.
thread_local std::size_t left = 0;
std::atomic<bool> has_receiver_left = false;

}  // namespace

/// In place of the system's: of the last piece a part goes by itself, and its sender is held up behind the
/// rest until the receiver has gone.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  iovec parts[2] = {};
  msghdr sent = *message;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < sent.msg_iovlen; ++i) bytes += sent.msg_iov[i].iov_len;
  const bool is_last_piece = left != 0 && bytes >= left && bytes > kMostPiece && sent.msg_iovlen == 2;
  if (is_last_piece) {
    parts[0] = sent.msg_iov[0];
    parts[1] = {.iov_base = sent.msg_iov[1].iov_base, .iov_len = 1000};
    sent.msg_iov = parts;
  }
  const ssize_t result = ::syscall(SYS_sendmsg, socket, &sent, flags);
  const bool is_watched = left != 0 && result > 0;
  if (is_watched) left -= std::min(left, static_cast<std::size_t>(result));
  for (int tries = 0; is_watched && left == 0 && !has_receiver_left && tries < 10'000; ++tries)
    ::usleep(1000);
  return result;
}

namespace cohort::test::last_piece_test {
namespace {

/// It finds the end of the receiver's packets when it goes on, and has sent everything all the same.
TEST(LastPiece, of_a_receiver_that_has_left_is_sent) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<std::byte> data(kBytes);
    co_await comm.barrier();
    if (comm.rank() == 0) {
      left = kBytes + kHeaderBytes * (kBytes / kMostPiece);
      co_await comm.send(data, 1, 7);
      EXPECT_EQ(left, 0U);
    } else {
      co_await comm.recv(data, 0, 7);
      co_await comm.close();
      has_receiver_left = true;
    }
  };
  CommunicatorOptions options;
  options.transport = "tcp";
  run_ranks(2, body, options);
  EXPECT_TRUE(has_receiver_left);
}

}  // namespace
}  // namespace cohort::test::last_piece_test
