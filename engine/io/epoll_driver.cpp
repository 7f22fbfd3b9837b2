// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/epoll_driver.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/fork_guard.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cohort {
namespace {

constexpr std::uint32_t kFailures = EPOLLERR | EPOLLHUP;
constexpr std::uint32_t kEverything = 0xffff & ~kFailures;  // of a file that epoll does not take
/// Asking the kernel costs as much as ten idle turns of a loop.
constexpr unsigned kPollsBetweenLooks = 16;

using Request = IoOperation::Request;

/// A request that waits until its descriptor is ready.
struct Waiting {
  IoOperation* operation;
  std::size_t sent_bytes = 0;  ///< of one that goes on until all is sent
};

std::uint32_t interest_of(const Request& request) noexcept {
  switch (request.kind) {
    case IoKind::read:
    case IoKind::recv:
    case IoKind::recv_message: return EPOLLIN;
    case IoKind::send:
    case IoKind::send_message:
    case IoKind::connect: return EPOLLOUT;
    case IoKind::poll: return request.flags;  // poll(2)'s events are epoll's
    case IoKind::futex_wait: break;
  }
  return 0;
}

int result_of(ssize_t result) noexcept { return result < 0 ? -errno : static_cast<int>(result); }

/// -EAGAIN: not yet. Nothing here may wait, whatever the descriptor's mode.
int read_now(const Request& request) noexcept {
  ::pollfd readable{.fd = request.descriptor, .events = POLLIN, .revents = 0};
  if (::poll(&readable, 1, 0) == 0) return -EAGAIN;
  return result_of(::read(request.descriptor, request.address, std::min(request.bytes, kMostBytesAtOnce)));
}

int receive_now(const Request& request) noexcept {
  const int flags = static_cast<int>(request.flags) | MSG_DONTWAIT;
  if (request.kind == IoKind::recv_message)
    return result_of(::recvmsg(request.descriptor, static_cast<msghdr*>(request.address), flags));
  return result_of(
      ::recv(request.descriptor, request.address, std::min(request.bytes, kMostBytesAtOnce), flags));
}

/// MSG_WAITALL goes on where the last attempt ended.
int send_now(const Request& request, std::size_t& sent_bytes) noexcept {
  const int flags = static_cast<int>(request.flags) | MSG_DONTWAIT;
  if (request.kind == IoKind::send_message)
    return result_of(::sendmsg(request.descriptor, static_cast<const msghdr*>(request.address), flags));
  const std::size_t bytes = std::min(request.bytes, kMostBytesAtOnce);
  const auto* const from = static_cast<const std::byte*>(request.address);
  const int result =
      result_of(::send(request.descriptor, from + sent_bytes, bytes - sent_bytes, flags & ~MSG_WAITALL));
  const bool waits_for_all = (request.flags & MSG_WAITALL) != 0;
  if (!waits_for_all) return result;
  if (result < 0) return result == -EAGAIN || sent_bytes == 0 ? result : static_cast<int>(sent_bytes);
  sent_bytes += static_cast<std::size_t>(result);
  return sent_bytes < bytes ? -EAGAIN : static_cast<int>(sent_bytes);
}

int begin_to_connect(const Request& request) noexcept {
  const int flags = ::fcntl(request.descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(request.descriptor, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
  return result_of(::connect(request.descriptor, static_cast<const sockaddr*>(request.address),
                             static_cast<socklen_t>(request.bytes)));
}

int result_of_connecting(int descriptor) noexcept {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error_number, &size) != 0) return -errno;
  return -error_number;
}

class EpollDriver final : public Driver {
 public:
  explicit EpollDriver(std::string why);
  ~EpollDriver() override;

  void submit(IoOperation& operation) noexcept override;
  void cancel(IoOperation& operation) noexcept override;
  bool poll() noexcept override;
  bool has_news() const noexcept override;
  void sleep(TimePoint now, TimePoint until) noexcept override;
  void wake() noexcept override;
  /// The kernel's answers make it readable; what is over at once is handed out by the poll() that comes
  /// before waiting for it.
  int descriptor() override { return epoll_; }
  void reset_descriptor() noexcept override { must_look_ = true; }
  bool has_futex() const noexcept override { return false; }
  std::string description() const override { return fmt::format("epoll ({})", why_); }

 private:
  using Waitings = std::vector<Waiting>;

  void end(IoOperation& operation, int result) noexcept { over_.push(operation, result); }
  /// Has the kernel tell once when one of these may go on.
  void watch(int descriptor, Waitings& waiting) noexcept;
  void watch_wake_event() noexcept;
  /// Those of one descriptor that the events let go on.
  void proceed(int descriptor, std::uint32_t events) noexcept;
  /// Takes what the kernel has to tell, waiting for it as long as that.
  void look(const timespec* longest_wait) noexcept;
  int wait_for_events(std::span<epoll_event> events, const timespec* longest_wait) noexcept;

  const std::string why_;
  int epoll_ = -1;
  int wake_event_ = -1;
  std::unordered_map<int, Waitings> waiting_;  ///< by descriptor; those of closed ones are empty
  std::size_t in_flight_ = 0;                  ///< of waiting_
  EndedOperations over_;
  unsigned idle_polls_ = 0;
  mutable bool must_look_ = false;  ///< the next poll() asks the kernel: it is known to have an answer
  bool has_pwait2_ = true;
};

EpollDriver::EpollDriver(std::string why) : why_(std::move(why)) {
  {
    const fork_guard::NoChild no_child;
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ >= 0) fork_guard::add(epoll_);
  }
  if (epoll_ < 0) throw system_error(errno, "creating an epoll descriptor");
  wake_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN, .data = {.fd = wake_event_}};
  if (wake_event_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_event_, &event) != 0) {
    const int error_number = errno;
    if (wake_event_ >= 0) ::close(wake_event_);
    const fork_guard::NoChild no_child;
    fork_guard::remove(epoll_);
    ::close(epoll_);
    throw system_error(error_number, "creating the eventfd that wakes the engine");
  }
}

EpollDriver::~EpollDriver() {
  COHORT_ASSERT(in_flight_ == 0 && over_.empty(), "{} requests still wait in the driver", in_flight_);
  ::close(wake_event_);
  const fork_guard::NoChild no_child;
  fork_guard::remove(epoll_);
  ::close(epoll_);
}

/// What may be over at once is tried, so that the kernel is asked to watch only what has to wait.
void EpollDriver::submit(IoOperation& operation) noexcept {
  const Request& request = operation.request();
  Waiting entry{&operation};
  int result = -EAGAIN;
  switch (request.kind) {
    case IoKind::recv:
    case IoKind::recv_message: result = receive_now(request); break;
    case IoKind::send:
    case IoKind::send_message: result = send_now(request, entry.sent_bytes); break;
    case IoKind::connect: {
      const int connecting = begin_to_connect(request);
      if (connecting != -EINPROGRESS) return end(operation, connecting);
      break;
    }
    case IoKind::futex_wait: return end(operation, -ENOSYS);
    case IoKind::read:
    case IoKind::poll: break;
  }
  // As in the kernel, a request that asks not to wait does not.
  const bool may_wait = (request.flags & MSG_DONTWAIT) == 0 || request.kind == IoKind::poll;
  if (result != -EAGAIN || !may_wait) return end(operation, result);
  try {
    Waitings& waiting = waiting_[request.descriptor];
    waiting.push_back(entry);
    ++in_flight_;
    watch(request.descriptor, waiting);
  } catch (const std::bad_alloc&) {
    end(operation, -ENOMEM);
  }
}

void EpollDriver::watch(int descriptor, Waitings& waiting) noexcept {
  std::uint32_t interest = EPOLLONESHOT;
  for (const Waiting& entry : waiting) interest |= interest_of(entry.operation->request());
  epoll_event event{.events = interest, .data = {.fd = descriptor}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event) == 0) return;
  if (errno == ENOENT && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) == 0) return;
  const int error_number = errno;
  if (error_number == EPERM) return proceed(descriptor, kEverything);  // a file, which is always ready
  in_flight_ -= waiting.size();
  for (const Waiting& entry : std::exchange(waiting, {})) end(*entry.operation, -error_number);
}

void EpollDriver::proceed(int descriptor, std::uint32_t events) noexcept {
  const auto found = waiting_.find(descriptor);
  if (found == waiting_.end()) return;
  Waitings& waiting = found->second;
  const auto goes_on = [&](Waiting& entry) {
    const Request& request = entry.operation->request();
    const std::uint32_t ready = events & (interest_of(request) | kFailures);
    if (ready == 0 && events != kEverything) return false;
    int result = 0;
    switch (request.kind) {
      case IoKind::read: result = read_now(request); break;
      case IoKind::recv:
      case IoKind::recv_message: result = receive_now(request); break;
      case IoKind::send:
      case IoKind::send_message: result = send_now(request, entry.sent_bytes); break;
      case IoKind::connect: result = result_of_connecting(descriptor); break;
      case IoKind::poll: result = static_cast<int>(ready); break;
      case IoKind::futex_wait: break;
    }
    if (result == -EAGAIN) return false;
    end(*entry.operation, result);
    return true;
  };
  in_flight_ -= std::erase_if(waiting, goes_on);
  if (!waiting.empty()) watch(descriptor, waiting);
}

void EpollDriver::cancel(IoOperation& operation) noexcept {
  const int descriptor = operation.request().descriptor;
  const auto found = waiting_.find(descriptor);
  if (found == waiting_.end()) return;
  Waitings& waiting = found->second;
  const auto is_it = [&](const Waiting& entry) { return entry.operation == &operation; };
  if (std::erase_if(waiting, is_it) == 0) return;  // it was faster
  --in_flight_;
  end(operation, -ECANCELED);
  // Were the number given to another file, this one's events would be taken for that one's.
  if (waiting.empty()) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
}

int EpollDriver::wait_for_events(std::span<epoll_event> events, const timespec* longest_wait) noexcept {
  const int most = static_cast<int>(events.size());
  if (has_pwait2_) {
    const int count = ::epoll_pwait2(epoll_, events.data(), most, longest_wait, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    has_pwait2_ = false;  // before Linux 5.11, or a seccomp profile that does not know it
  }
  constexpr std::int64_t kLongest = 1'000'000;  // of a wait in ms; then the loop looks again
  const std::int64_t ms =
      longest_wait == nullptr
          ? -1
          : std::min<std::int64_t>(
                kLongest, longest_wait->tv_sec * 1000 + (longest_wait->tv_nsec + 999'999) / 1'000'000);
  return ::epoll_wait(epoll_, events.data(), most, static_cast<int>(ms));
}

void EpollDriver::look(const timespec* longest_wait) noexcept {
  idle_polls_ = 0;
  must_look_ = false;
  std::array<epoll_event, 64> events;
  const int count = wait_for_events(events, longest_wait);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.fd != wake_event_) {
      proceed(event.data.fd, event.events);
      continue;
    }
    std::uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_event_, &wakes, sizeof wakes);
  }
}

bool EpollDriver::poll() noexcept {
  constexpr timespec kNow{};
  const bool is_time = must_look_ || (in_flight_ != 0 && ++idle_polls_ >= kPollsBetweenLooks);
  if (is_time) look(&kNow);
  return over_.finish_all();
}

bool EpollDriver::has_news() const noexcept {
  if (!over_.empty()) return true;
  if (in_flight_ == 0) return false;
  ::pollfd readable{.fd = epoll_, .events = POLLIN, .revents = 0};
  must_look_ = ::poll(&readable, 1, 0) > 0;
  return must_look_;
}

void EpollDriver::sleep(TimePoint now, TimePoint until) noexcept {
  if (over_.empty()) {
    const auto left = until == kNever || until <= now ? std::int64_t{0} : (until - now).count();
    const timespec longest{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    look(until == kNever ? nullptr : &longest);
  }
  over_.finish_all();
}

void EpollDriver::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_event_, &one, sizeof one);
}

}  // namespace

std::unique_ptr<Driver> make_epoll_driver(std::string why) {
  return std::make_unique<EpollDriver>(std::move(why));
}

}  // namespace cohort
