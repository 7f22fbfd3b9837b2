// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/driver.h>

#include <cohort/engine/assert.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace cohort::world {
namespace {

std::uint32_t futex_word(const IoOperation::Request& request) {
  return std::atomic_ref(*static_cast<std::uint32_t*>(request.address)).load(std::memory_order_seq_cst);
}

std::vector<int> descriptors_of(const msghdr& message) {
  std::vector<int> descriptors;
  const cmsghdr* header = message.msg_control != nullptr ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr) return descriptors;
  descriptors.resize((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(descriptors.data(), CMSG_DATA(header), descriptors.size() * sizeof(int));
  return descriptors;
}

void put_descriptors(msghdr& message, const std::vector<int>& descriptors) {
  const std::size_t bytes = descriptors.size() * sizeof(int);
  if (descriptors.empty() || message.msg_controllen < CMSG_SPACE(bytes)) {
    for (const int unwanted : descriptors) ::close(unwanted);
    message.msg_controllen = 0;
    return;
  }
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  message.msg_controllen = CMSG_SPACE(bytes);
}

/// All pieces of a message in one.
std::vector<std::byte> bytes_of(const msghdr& message) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* begin = static_cast<const std::byte*>(message.msg_iov[i].iov_base);
    bytes.insert(bytes.end(), begin, begin + message.msg_iov[i].iov_len);
  }
  return bytes;
}

}  // namespace

WorldDriver::WorldDriver(World& world, Process process)
    : scheduler_(world.scheduler()), sockets_(world.sockets()), world_(world), process_(process) {
  scheduler_.attach(process, this);
}

WorldDriver::~WorldDriver() {
  COHORT_ASSERT(requests_.empty(), "{} requests still in the simulated kernel", requests_.size());
  scheduler_.attach(process_, nullptr);
}

void WorldDriver::submit(IoOperation& operation) noexcept {
  Request request{.operation = &operation};
  const IoOperation::Request& asked = operation.request();
  if (asked.kind == IoKind::connect)
    request.due =
        sockets_.begin_connect(asked.descriptor, Address::from_sockaddr(asked.address, asked.bytes));
  requests_.push_back(request);
}

void WorldDriver::cancel(IoOperation& operation) noexcept {
  for (Request& request : requests_)
    if (request.operation == &operation) request.is_cancelled = true;
}

TimePoint WorldDriver::ready_at(const Request& request) const {
  if (request.is_cancelled || request.answer) return scheduler_.now();
  const IoOperation::Request& asked = request.operation->request();
  switch (asked.kind) {
    case IoKind::recv:
    case IoKind::recv_message: return sockets_.readable_at(asked.descriptor);
    case IoKind::send:
    case IoKind::send_message: return sockets_.writable_at(asked.descriptor);
    case IoKind::connect: return request.due;
    case IoKind::poll:
      return (asked.flags & POLLIN) != 0 ? sockets_.readable_at(asked.descriptor)
                                         : sockets_.writable_at(asked.descriptor);
    case IoKind::futex_wait: return futex_word(asked) != asked.expected ? scheduler_.now() : kNever;
    case IoKind::read: return kNever;
  }
  return kNever;
}

TimePoint WorldDriver::ready_at() const {
  TimePoint earliest = kNever;
  for (const Request& request : requests_) earliest = std::min(earliest, ready_at(request));
  return earliest;
}

std::string WorldDriver::describe(const Request& request) const {
  const IoOperation::Request& asked = request.operation->request();
  switch (asked.kind) {
    case IoKind::recv:
    case IoKind::recv_message: return fmt::format("bytes from {}", sockets_.peer_of(asked.descriptor));
    case IoKind::send:
    case IoKind::send_message: return fmt::format("room for bytes to {}", sockets_.peer_of(asked.descriptor));
    case IoKind::connect: return "a connection to be taken";
    case IoKind::poll:
      return fmt::format("{} {}", (asked.flags & POLLIN) != 0 ? "bytes from" : "room for bytes to",
                         sockets_.peer_of(asked.descriptor));
    case IoKind::futex_wait: return "its doorbell";
    case IoKind::read: return "a descriptor";
  }
  return "something";
}

std::string WorldDriver::waits_for() const {
  std::string text;
  for (const Request& request : requests_) text += (text.empty() ? "" : ", ") + describe(request);
  return text.empty() ? "nothing" : text;
}

int WorldDriver::attempt_send(Request& request) {
  const IoOperation::Request& asked = request.operation->request();
  std::vector<std::byte> bytes;
  std::vector<int> descriptors;
  if (asked.kind == IoKind::send) {
    const auto* begin = static_cast<const std::byte*>(asked.address);
    bytes.assign(begin, begin + asked.bytes);
  } else {
    const auto& message = *static_cast<const msghdr*>(asked.address);
    bytes = bytes_of(message);
    if (request.sent == 0) descriptors = descriptors_of(message);
  }
  const auto left = std::span(bytes).subspan(request.sent);
  const int result = sockets_.send(asked.descriptor, left, {}, descriptors);
  if (result < 0) return request.sent != 0 && result != kNotYet ? static_cast<int>(request.sent) : result;
  request.sent += static_cast<std::size_t>(result);
  const bool is_done = request.sent == bytes.size() || (asked.flags & MSG_WAITALL) == 0;
  return is_done ? static_cast<int>(request.sent) : kNotYet;
}

int WorldDriver::attempt_poll(const Request& request) const {
  return ready_at(request) <= scheduler_.now() ? static_cast<int>(request.operation->request().flags)
                                               : kNotYet;
}

int WorldDriver::attempt(Request& request) {
  const IoOperation::Request& asked = request.operation->request();
  if (request.is_cancelled) return request.sent != 0 ? static_cast<int>(request.sent) : -ECANCELED;
  std::vector<int> descriptors;
  switch (asked.kind) {
    case IoKind::send:
    case IoKind::send_message: return attempt_send(request);
    case IoKind::connect:
      if (request.due > scheduler_.now()) return kNotYet;
      return sockets_.finish_connect(asked.descriptor, Address::from_sockaddr(asked.address, asked.bytes));
    case IoKind::poll: return attempt_poll(request);
    case IoKind::futex_wait: return futex_word(asked) != asked.expected ? 0 : kNotYet;
    case IoKind::read: return kNotYet;
    case IoKind::recv: {
      const std::span into(static_cast<std::byte*>(asked.address), asked.bytes);
      const int result = sockets_.receive(asked.descriptor, into, descriptors);
      for (const int unwanted : descriptors) ::close(unwanted);
      return result;
    }
    case IoKind::recv_message: {
      auto& message = *static_cast<msghdr*>(asked.address);
      const std::span into(static_cast<std::byte*>(message.msg_iov[0].iov_base), message.msg_iov[0].iov_len);
      const int result = sockets_.receive(asked.descriptor, into, descriptors);
      if (result != kNotYet) put_descriptors(message, descriptors);
      return result;
    }
  }
  return kNotYet;
}

bool WorldDriver::complete_ready(bool may_be_late) noexcept {
  std::vector<IoOperation*> ready;
  for (const Request& request : requests_) {
    const bool is_late = may_be_late && scheduler_.random().chance(world_.settings().late_percent);
    if (ready_at(request) <= scheduler_.now() && !is_late) ready.push_back(request.operation);
  }
  scheduler_.random().shuffle(std::span(ready));
  bool any = false;
  for (IoOperation* const operation : ready) {
    const auto request = std::ranges::find(requests_, operation, &Request::operation);
    const bool is_answered = request->answer.has_value();
    const int result = is_answered ? *request->answer : attempt(*request);
    if (result == kNotYet) continue;
    const unsigned late_percent = is_answered ? 0 : world_.settings().late_answer_percent;
    if (late_percent != 0 && scheduler_.random().chance(late_percent)) {
      request->answer = result;
      any = true;
      continue;
    }
    requests_.erase(request);
    scheduler_.note(process_, "completes", static_cast<std::uint64_t>(operation->request().kind),
                    static_cast<std::uint64_t>(result));
    operation->finish(result);
    any = true;
  }
  return any;
}

bool WorldDriver::poll() noexcept {
  if (scheduler_.random().chance(world_.settings().pause_percent)) {
    world_.step(process_);
    scheduler_.pause(process_);
  }
  return complete_ready(true);
}

void WorldDriver::sleep(TimePoint now, TimePoint until) noexcept {
  if (complete_ready(false)) return;
  world_.step(process_);
  if (until <= now)
    scheduler_.pause(process_);
  else
    scheduler_.sleep(process_, until);
  (void)complete_ready(false);
}

}  // namespace cohort::world
