// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/device.h>

#include <cohort/bindings/hccl/comm.h>
#include <cohort/bindings/hccl/handles.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/join/launcher_table.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace cohort::bindings::hccl {
namespace {

constexpr std::uint32_t kUsualDevices = 8;
constexpr std::uint64_t kMostDevices = 65536;

/// Never ends: at the end of a process threads may still be here.
struct Devices {
  std::mutex mutex;
  std::map<std::int32_t, std::shared_ptr<Context>> primary;
  std::map<std::int32_t, std::weak_ptr<Comm>> comms;
};
Devices& devices() {
  static Devices* const all = new Devices;
  return *all;
}

std::shared_ptr<Context>& current() noexcept {
  thread_local std::shared_ptr<Context> context;
  return context;
}

}  // namespace

std::shared_ptr<Stream> Context::default_stream() {
  const std::lock_guard lock(mutex_);
  if (default_stream_ == nullptr || default_stream_->is_forked()) default_stream_ = Stream::make(device_);
  return default_stream_;
}

void Context::drain() {
  std::shared_ptr<Stream> stream;
  {
    const std::lock_guard lock(mutex_);
    stream = default_stream_;
  }
  if (stream != nullptr && !stream->is_forked()) (void)stream->synchronize(kNever);
}

bool Context::is_own_thread() {
  const std::lock_guard lock(mutex_);
  return default_stream_ != nullptr && default_stream_->is_own_thread();
}

std::uint32_t device_count() {
  if (const auto said = environment::number("COHORT_HCCL_DEVICES", 1, kMostDevices))
    return static_cast<std::uint32_t>(*said);
  return std::max(kUsualDevices, launched_number("COHORT_LOCAL_SIZE").value_or(0));
}

void check_device(const char* function, std::int32_t device) {
  const std::uint32_t count = device_count();
  if (device >= 0 && std::cmp_less(device, count)) return;
  throw CodedError(
      ACL_ERROR_RT_INVALID_DEVICEID, HCCL_E_PARA,
      fmt::format("{}: there is no device {}: they are 0 to {}; set COHORT_HCCL_DEVICES for more", function,
                  device, count - 1));
}

std::shared_ptr<Context> primary_context(std::int32_t device) {
  const std::lock_guard lock(devices().mutex);
  std::shared_ptr<Context>& context = devices().primary[device];
  if (context == nullptr) context = std::make_shared<Context>(device);
  return context;
}

const std::shared_ptr<Context>& current_context() noexcept { return current(); }

void set_current_context(std::shared_ptr<Context> context) noexcept { current() = std::move(context); }

Context& needed_context(const char* function) {
  if (current() == nullptr)
    throw CodedError(
        ACL_ERROR_RT_CONTEXT_NULL, HCCL_E_RUNTIME,
        fmt::format("{}: this thread has no device; call aclrtSetDevice() in it first", function));
  return *current();
}

std::shared_ptr<Stream> stream_of(const char* function, const void* handle) {
  if (handle == nullptr) return needed_context(function).default_stream();
  return Handles<Stream>::all().find(handle, function, "stream");
}

std::shared_ptr<Comm> comm_of_device(std::int32_t device) {
  const std::lock_guard lock(devices().mutex);
  const auto found = devices().comms.find(device);
  return found == devices().comms.end() ? nullptr : found->second.lock();
}

void set_comm_of_device(std::int32_t device, const std::shared_ptr<Comm>& comm) {
  std::shared_ptr<Comm> before;  // ends without the lock
  const std::lock_guard lock(devices().mutex);
  std::weak_ptr<Comm>& first = devices().comms[device];
  before = first.lock();  // memory keeps one that is closed
  if (before == nullptr || before->comm().is_closed() || before->session()->is_forked()) first = comm;
}

}  // namespace cohort::bindings::hccl
