// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/uring_driver.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/fork_guard.h>

#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define COHORT_CHECK_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define COHORT_CHECK_MEMORY 1
#endif
#endif

namespace cohort {
namespace {

constexpr unsigned kSubmissionEntries = 256;
constexpr unsigned kCompletionEntries = 4096;  // beyond that the kernel keeps a backlog (IORING_FEAT_NODROP)
constexpr std::uint8_t kFutexWaitOpcode =
    51;  // IORING_OP_FUTEX_WAIT, Linux 6.7; liburing 2.3 does not know it
constexpr std::uint32_t kFutex2SizeU32 =
    2;  // FUTEX2_SIZE_U32; shared between processes without FUTEX2_PRIVATE
constexpr std::uint64_t kFutexBitsetAny = 0xffffffffU;
constexpr auto kCurrentPosition = ~std::uint64_t{0};

// user_data of requests that belong to no operation.
constexpr std::uint64_t kCancelTag = 1;
constexpr std::uint64_t kWakeTag = 2;

struct SetupChoice {
  unsigned flags;
  const char* name;
};
constexpr std::array kSetupChoices = {
    SetupChoice{IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
                "single issuer, deferred task run"},
    SetupChoice{IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, "cooperative task run"},
    SetupChoice{0, "plain"},
};

/// Counted up before a ring is unmapped and after one is mapped, maybe at the same place by another thread:
/// an order that the kernel keeps and ThreadSanitizer does not see, since liburing maps without the C
/// library.
std::atomic<std::uint64_t> rings_mapped_or_not{0};

class UringDriver final : public Driver {
 public:
  UringDriver();
  ~UringDriver() override;

  void submit(IoOperation& operation) noexcept override;
  void cancel(IoOperation& operation) noexcept override;
  bool poll() noexcept override;
  bool has_news() const noexcept override;
  void sleep(TimePoint now, TimePoint until) noexcept override;
  void wake() noexcept override;
  int descriptor() override;
  void reset_descriptor() noexcept override;
  bool has_futex() const noexcept override { return has_futex_; }
  std::string description() const override;

 private:
  io_uring_sqe* next_sqe() noexcept;
  void prepare(io_uring_sqe* sqe, IoOperation& operation) noexcept;
  void watch_wake_event() noexcept;
  void take_wake_event() noexcept;
  /// Whether the kernel has work for us that only entering it brings, or we have some for it.
  bool must_enter() const noexcept;
  bool reap() noexcept;
  void enter() noexcept;

  io_uring ring_{};
  const SetupChoice* choice_ = nullptr;
  int wake_event_ = -1;
  int completion_event_ = -1;  ///< once a foreign loop has asked for it
  bool has_futex_ = false;
  std::size_t in_flight_ = 0;
  unsigned idle_polls_ = 0;
};

Error refusal(int error_number) {
  if (error_number == EPERM)
    return Error(
        ErrorKind::Unsupported,
        "io_uring is forbidden here (EPERM): a seccomp profile (containers) or sysctl "
        "kernel.io_uring_disabled blocks it; allow io_uring_setup, or set kernel.io_uring_disabled=0");
  if (error_number == ENOSYS)
    return Error(ErrorKind::Unsupported,
                 "this kernel has no io_uring (ENOSYS); Linux 5.11 or newer is needed");
  if (error_number == EINVAL)
    return Error(
        ErrorKind::Unsupported,
        "this kernel's io_uring does not know what is asked of it (EINVAL); Linux 5.11 or newer is needed");
  if (error_number == ENOMEM)
    return Error(
        ErrorKind::ResourceLimit,
        "no memory for io_uring (ENOMEM): all rings of a user count against its limit on locked memory: "
        "raise it (ulimit -l; LimitMEMLOCK of a service), or run fewer ranks");
  return system_error(error_number, "setting up io_uring");
}

UringDriver::UringDriver() {
  int failure = 0;
  std::optional<fork_guard::NoChild> no_child(std::in_place);
  for (const SetupChoice& choice : kSetupChoices) {
    io_uring_params params{};
    params.flags = choice.flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = kCompletionEntries;
    failure = -io_uring_queue_init_params(kSubmissionEntries, &ring_, &params);
    if (failure != EINVAL) {
      choice_ = &choice;
      break;
    }
  }
  if (failure != 0) throw refusal(failure);
  io_uring_ring_dontfork(&ring_);
  rings_mapped_or_not.fetch_add(1, std::memory_order_acq_rel);
  fork_guard::add(ring_.ring_fd);
  no_child.reset();
  if (io_uring_probe* probe = io_uring_get_probe_ring(&ring_)) {
    has_futex_ = io_uring_opcode_supported(probe, kFutexWaitOpcode) != 0;
    io_uring_free_probe(probe);
  }
  wake_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_event_ < 0) {
    const int error_number = errno;
    fork_guard::remove(ring_.ring_fd);
    io_uring_queue_exit(&ring_);
    throw system_error(error_number, "creating the eventfd that wakes the engine");
  }
  watch_wake_event();
}

UringDriver::~UringDriver() {
  COHORT_ASSERT(in_flight_ == 0, "{} requests still in the kernel", in_flight_);
  fork_guard::remove(ring_.ring_fd);
  rings_mapped_or_not.fetch_add(1, std::memory_order_acq_rel);
  io_uring_queue_exit(&ring_);
  ::close(wake_event_);
  if (completion_event_ >= 0) ::close(completion_event_);
}

/// The ring's own descriptor would not do: with deferred task run nobody tells who polls it that work waits.
int UringDriver::descriptor() {
  if (completion_event_ >= 0) return completion_event_;
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw system_error(errno, "creating the eventfd for a foreign event loop");
  const int result = io_uring_register_eventfd(&ring_, event);
  if (result < 0) {
    ::close(event);
    throw system_error(-result, "having io_uring tell of completions by an eventfd");
  }
  return completion_event_ = event;
}

void UringDriver::reset_descriptor() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(completion_event_, &count, sizeof count);
}

std::string UringDriver::description() const {
  return fmt::format("io_uring ({}{})", choice_->name, has_futex_ ? ", futex" : "");
}

io_uring_sqe* UringDriver::next_sqe() noexcept {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {  // full: hand over what is there
    if (io_uring_submit(&ring_) < 0)
      reap();  // older kernels take no more until completions were taken (EBUSY)
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

/// The kernel's writes escape AddressSanitizer, so the memory is checked where it is handed over.
void check_memory([[maybe_unused]] void* address, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef COHORT_CHECK_MEMORY
  COHORT_ASSERT(bytes == 0 || __asan_region_is_poisoned(address, bytes) == nullptr,
                "{} bytes at {} handed to the kernel are not all valid", bytes, address);
#endif
}

msghdr* message_of(const IoOperation::Request& request) noexcept {
  auto* message = static_cast<msghdr*>(request.address);
  check_memory(message, sizeof *message);
  for (std::size_t i = 0; i < message->msg_iovlen; ++i)
    check_memory(message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
  return message;
}

void UringDriver::prepare(io_uring_sqe* sqe, IoOperation& operation) noexcept {
  const IoOperation::Request& request = operation.request();
  const int flags = static_cast<int>(request.flags);
  const auto bytes = static_cast<unsigned>(std::min(request.bytes, kMostBytesAtOnce));
  if (request.kind == IoKind::read || request.kind == IoKind::recv || request.kind == IoKind::send)
    check_memory(request.address, bytes);
  switch (request.kind) {
    case IoKind::read:
      io_uring_prep_read(sqe, request.descriptor, request.address, bytes, kCurrentPosition);
      break;
    case IoKind::recv: io_uring_prep_recv(sqe, request.descriptor, request.address, bytes, flags); break;
    case IoKind::send: io_uring_prep_send(sqe, request.descriptor, request.address, bytes, flags); break;
    case IoKind::recv_message:
      io_uring_prep_recvmsg(sqe, request.descriptor, message_of(request), request.flags);
      break;
    case IoKind::send_message:
      io_uring_prep_sendmsg(sqe, request.descriptor, message_of(request), request.flags);
      break;
    case IoKind::connect:
      io_uring_prep_connect(sqe, request.descriptor, static_cast<const sockaddr*>(request.address),
                            static_cast<socklen_t>(request.bytes));
      break;
    case IoKind::poll: io_uring_prep_poll_add(sqe, request.descriptor, request.flags); break;
    case IoKind::futex_wait:
      io_uring_prep_rw(kFutexWaitOpcode, sqe, static_cast<int>(kFutex2SizeU32), request.address, 0,
                       request.expected);
      sqe->addr3 = kFutexBitsetAny;
      break;
  }
  io_uring_sqe_set_data(sqe, &operation);
}

void UringDriver::submit(IoOperation& operation) noexcept {
  prepare(next_sqe(), operation);
  ++in_flight_;
}

void UringDriver::cancel(IoOperation& operation) noexcept {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_cancel(sqe, &operation, 0);
  io_uring_sqe_set_data64(sqe, kCancelTag);
}

/// Polled rather than read through the ring: a read would still be writing when the driver is gone.
void UringDriver::watch_wake_event() noexcept {
  io_uring_sqe* sqe = next_sqe();
  io_uring_prep_poll_add(sqe, wake_event_, POLLIN);
  io_uring_sqe_set_data64(sqe, kWakeTag);
}

void UringDriver::take_wake_event() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_event_, &count, sizeof count);
  watch_wake_event();
}

/// Moves completions to the ready queue. Runs no coroutine.
bool UringDriver::reap() noexcept {
  std::array<io_uring_cqe*, 64> batch;
  bool any = false;
  bool woken = false;
  for (;;) {
    const unsigned count = io_uring_peek_batch_cqe(&ring_, batch.data(), batch.size());
    for (unsigned i = 0; i < count; ++i) {
      const std::uint64_t tag = batch[i]->user_data;
      const int result = batch[i]->res;
      if (tag == kCancelTag || tag == LIBURING_UDATA_TIMEOUT) continue;
      any = true;
      if (tag == kWakeTag) {
        woken = true;
        continue;
      }
      --in_flight_;
      static_cast<IoOperation*>(io_uring_cqe_get_data(batch[i]))->finish(result);
    }
    io_uring_cq_advance(&ring_, count);
    if (count < batch.size()) break;
  }
  if (woken) take_wake_event();
  return any;
}

/// Enters the kernel once, to submit and to run deferred work.
void UringDriver::enter() noexcept {
  idle_polls_ = 0;
  io_uring_submit_and_get_events(&ring_);
}

bool UringDriver::must_enter() const noexcept {
  const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0 || io_uring_sq_ready(&ring_) != 0;
}

/// A plain ring does not say that it has work: whoever waits for it may be waiting for us.
bool UringDriver::has_news() const noexcept {
  return io_uring_cq_ready(&ring_) != 0 || must_enter() || (choice_->flags == 0 && in_flight_ != 0);
}

bool UringDriver::poll() noexcept {
  // The kernel raises IORING_SQ_TASKRUN when deferred work waits for us; without that flag it must be asked
  // now and then.
  constexpr unsigned kPollsBetweenEntries = 32;
  const bool is_plain = choice_->flags == 0 && ++idle_polls_ >= kPollsBetweenEntries;
  if (must_enter() || is_plain) enter();
  return io_uring_cq_ready(&ring_) != 0 && reap();
}

void UringDriver::sleep(TimePoint now, TimePoint until) noexcept {
  io_uring_cqe* first = nullptr;
  if (until == kNever) {
    io_uring_submit_and_wait(&ring_, 1);
  } else {
    const auto left = until > now ? (until - now).count() : 0;
    __kernel_timespec timeout{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    io_uring_submit_and_wait_timeout(&ring_, &first, 1, &timeout, nullptr);
  }
  reap();
}

void UringDriver::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_event_, &one, sizeof one);
}

}  // namespace

std::unique_ptr<Driver> make_uring_driver() { return std::make_unique<UringDriver>(); }

}  // namespace cohort
