// SPDX-License-Identifier: Apache-2.0
// Beside kernel_network.cpp, since <linux/tcp.h>, which has all of tcp_info, and <netinet/tcp.h> exclude each
// other.
#include <cohort/engine/io/tcp_state.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

namespace cohort {
namespace {

/// TCP_CLOSE of the kernel's net/tcp_states.h.
constexpr int kClosed = 7;
/// TCP_RTO_MAX_MS, which older headers lack.
constexpr int kRtoMaxMs = 44;
constexpr Duration kLeastRtoMax = std::chrono::seconds(1);
constexpr Duration kMostRtoMax = std::chrono::minutes(2);

}  // namespace

std::optional<TcpState> read_tcp_state(int socket) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state == kClosed)
    return std::nullopt;
  // Not before Linux 5.4.
  const bool tells_window = size >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd;
  TcpState state;
  state.unacknowledged_segments = info.tcpi_unacked;
  state.unsent_bytes = info.tcpi_notsent_bytes;
  state.window_bytes = tells_window ? info.tcpi_snd_wnd : info.tcpi_unacked;  // what is on its way had room
  state.probes = info.tcpi_probes;
  state.acknowledged_bytes = info.tcpi_bytes_acked;
  state.since_answer = std::chrono::milliseconds(info.tcpi_last_ack_recv);
  state.retransmission = std::chrono::microseconds(info.tcpi_rto);
  return state;
}

void limit_retransmission(int socket, Duration longest) noexcept {
  const Duration allowed = std::clamp(longest, kLeastRtoMax, kMostRtoMax);
  const int value = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(allowed).count());
  (void)::setsockopt(socket, IPPROTO_TCP, kRtoMaxMs, &value, sizeof value);
}

}  // namespace cohort
