// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/hccl/stream.h>

#include <cstdint>
#include <memory>
#include <mutex>

namespace cohort::bindings::hccl {

class Comm;

/// What a thread works in: a device, which is a number, with a default stream.
class Context {
 public:
  explicit Context(std::int32_t device) noexcept : device_(device) {}

  [[nodiscard]] std::int32_t device() const noexcept { return device_; }
  /// Made when it is asked for.
  [[nodiscard]] std::shared_ptr<Stream> default_stream();
  /// Waits for what that was given. Throws what of it has failed.
  void drain();
  /// Whether this thread is that stream's.
  [[nodiscard]] bool is_own_thread();

 private:
  const std::int32_t device_;
  std::mutex mutex_;
  std::shared_ptr<Stream> default_stream_;
};

/// How many devices there are: COHORT_HCCL_DEVICES, else 8 as servers of them have, or as many as ranks were
/// started here. Throws InvalidArgument for a variable that is none.
[[nodiscard]] std::uint32_t device_count();
/// Throws CodedError for the number of none.
void check_device(const char* function, std::int32_t device);
/// The one that all threads share which set the device.
[[nodiscard]] std::shared_ptr<Context> primary_context(std::int32_t device);

/// This thread's; null: none.
[[nodiscard]] const std::shared_ptr<Context>& current_context() noexcept;
void set_current_context(std::shared_ptr<Context> context) noexcept;
/// Throws CodedError where there is none.
[[nodiscard]] Context& needed_context(const char* function);
/// The one of that handle; of null the context's default one.
[[nodiscard]] std::shared_ptr<Stream> stream_of(const char* function, const void* handle);

/// The communicator whose heap the device's memory comes from: its first one that lives; null: none.
[[nodiscard]] std::shared_ptr<Comm> comm_of_device(std::int32_t device);
void set_comm_of_device(std::int32_t device, const std::shared_ptr<Comm>& comm);

}  // namespace cohort::bindings::hccl
