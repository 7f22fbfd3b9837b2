// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/line_channel.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace cohort {
namespace {

using Steady = std::chrono::steady_clock;

TimePoint wall_now() {
  return TimePoint(std::chrono::duration_cast<Duration>(Steady::now().time_since_epoch()));
}

}  // namespace

LineChannel::LineChannel(const Address& to, Duration patience) {
  const sockaddr& address = *reinterpret_cast<const sockaddr*>(to.data());
  own_ = Descriptor(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  number_ = own_.number();
  if (!own_.is_open()) throw system_error(errno, "creating a socket");
  if (::connect(number_, &address, static_cast<socklen_t>(to.size_bytes())) != 0) {
    if (errno != EINPROGRESS) throw system_error(errno, fmt::format("connecting to {}", to.to_string()));
    wait(POLLOUT, after(wall_now(), patience));
  }
  int failure = 0;
  socklen_t size = sizeof failure;
  ::getsockopt(number_, SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure != 0) throw system_error(failure, fmt::format("connecting to {}", to.to_string()));
}

bool LineChannel::is_connection() const noexcept {
  int type = 0;
  socklen_t size = sizeof type;
  return ::getsockopt(number_, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

void LineChannel::wait(short events, TimePoint until) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - wall_now()).count();
    if (left <= 0) throw Error(ErrorKind::DeadlineExceeded, "no answer from the launcher in time");
    pollfd entry{.fd = number_, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long long>(left, 1'000'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw system_error(errno, "waiting for the launcher");
  }
}

void LineChannel::send(std::string_view line, Duration patience) {
  const TimePoint until = after(wall_now(), patience);
  const std::string text = fmt::format("{}\n", line);
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t count =
        ::send(number_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count < 0 && errno == EAGAIN) {
      wait(POLLOUT, until);
    } else if (count == 0 || errno != EINTR) {
      throw system_error(errno, "telling the launcher something");
    }
  }
}

std::string LineChannel::receive(Duration patience) {
  const TimePoint until = after(wall_now(), patience);
  for (;;) {
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kLongestLine)
      throw Error(ErrorKind::ProtocolError, "the launcher sent a line that does not end");
    wait(POLLIN, until);
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(number_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) throw Error(ErrorKind::LinkFault, "the launcher has closed its connection");
    if (count > 0)
      received_.append(bytes.data(), static_cast<std::size_t>(count));
    else if (errno != EAGAIN && errno != EINTR)
      throw system_error(errno, "hearing the launcher");
  }
}

}  // namespace cohort
