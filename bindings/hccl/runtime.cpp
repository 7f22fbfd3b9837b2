// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and streams.
#include <cohort/bindings/hccl/device.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/bindings/hccl/handles.h>

#include <acl/acl.h>
#include <fmt/format.h>

#include <atomic>

namespace cohort::bindings::hccl {
namespace {

std::atomic<bool> is_initialized{false};

void synchronize(const char* function, Stream& stream, std::int32_t timeout_ms) {
  if (!stream.synchronize(deadline_of(function, timeout_ms)))
    throw CodedError(
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, HCCL_E_TIMEOUT,
        fmt::format("{}: what the stream was given is not over after {} ms", function, timeout_ms));
}

/// Of one device, or of all: -1; in a child of fork() not the parent's streams. Throws the first failure,
/// when all are over.
void drain(std::int32_t device) {
  std::exception_ptr failure;
  const auto drain_one = [&failure](const auto& body) {
    try {
      body();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  for (const std::shared_ptr<Stream>& stream : Handles<Stream>::all().list())
    if (!stream->is_forked() && (device < 0 || stream->device() == device))
      drain_one([&] { (void)stream->synchronize(kNever); });
  for (const std::shared_ptr<Context>& context : Handles<Context>::all().list())
    if (device < 0 || context->device() == device) drain_one([&] { context->drain(); });
  if (failure) std::rethrow_exception(failure);
}

[[noreturn]] void refuse_own_thread(const char* function) {
  refuse(
      fmt::format("{}: a function that the stream calls (aclrtLaunchHostFunc) would end the stream that it "
                  "is called by; call this in another thread",
                  function));
}

/// With the handles of contexts: what drain() looks at.
std::shared_ptr<Context> shared_context(std::int32_t device) {
  std::shared_ptr<Context> context = primary_context(device);
  Handles<Context>::all().add(context);
  return context;
}

}  // namespace
}  // namespace cohort::bindings::hccl

using namespace cohort::bindings::hccl;
using namespace cohort;

aclError aclInit(const char*) {
  return acl_guarded([] {
    if (is_initialized.exchange(true))
      throw CodedError(ACL_ERROR_REPEAT_INITIALIZE, HCCL_E_RUNTIME,
                       "aclInit: it was called before in this process; once is enough");
  });
}

aclError aclFinalize() {
  return acl_guarded([] {
    if (!is_initialized.exchange(false))
      throw CodedError(ACL_ERROR_UNINITIALIZE, HCCL_E_RUNTIME, "aclFinalize: aclInit() was not called");
    drain(-1);
  });
}

aclError aclrtSetDevice(int32_t deviceId) {
  return acl_guarded([&] {
    check_device("aclrtSetDevice", deviceId);
    set_current_context(shared_context(deviceId));
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return acl_guarded([&] {
    check_device("aclrtResetDevice", deviceId);
    if (current_context() != nullptr && current_context()->device() == deviceId) set_current_context(nullptr);
    drain(deviceId);
  });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return acl_guarded(
      [&] { given(deviceId, "aclrtGetDevice", "deviceId") = needed_context("aclrtGetDevice").device(); });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return acl_guarded([&] { given(count, "aclrtGetDeviceCount", "count") = device_count(); });
}

aclError aclrtSynchronizeDevice() {
  return acl_guarded([] { drain(needed_context("aclrtSynchronizeDevice").device()); });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return acl_guarded([&] { given(runMode, "aclrtGetRunMode", "runMode") = ACL_HOST; });
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return acl_guarded([&] {
    (void)given(context, "aclrtCreateContext", "context");
    check_device("aclrtCreateContext", deviceId);
    auto made = std::make_shared<Context>(deviceId);
    *context = Handles<Context>::all().add(made);
    set_current_context(std::move(made));
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  return acl_guarded([&] {
    need(context, "aclrtDestroyContext", "context");
    if (Handles<Context>::all().find(context, "aclrtDestroyContext", "context")->is_own_thread())
      refuse_own_thread("aclrtDestroyContext");
    const std::shared_ptr<Context> old =
        Handles<Context>::all().take(context, "aclrtDestroyContext", "context");
    if (current_context() == old) set_current_context(nullptr);
    old->drain();
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return acl_guarded([&] {
    need(context, "aclrtSetCurrentContext", "context");
    set_current_context(Handles<Context>::all().find(context, "aclrtSetCurrentContext", "context"));
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return acl_guarded([&] {
    given(context, "aclrtGetCurrentContext", "context") = &needed_context("aclrtGetCurrentContext");
  });
}

aclError aclrtCreateStream(aclrtStream* stream) {
  return acl_guarded([&] {
    (void)given(stream, "aclrtCreateStream", "stream");
    const Context& context = needed_context("aclrtCreateStream");
    *stream = Handles<Stream>::all().add(Stream::make(context.device()));
  });
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  return aclrtCreateStream(stream);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return acl_guarded([&] {
    need(stream, "aclrtDestroyStream", "stream");
    if (Handles<Stream>::all().find(stream, "aclrtDestroyStream", "stream")->is_own_thread())
      refuse_own_thread("aclrtDestroyStream");
    const auto old = Handles<Stream>::all().take(stream, "aclrtDestroyStream", "stream");
    if (!old->is_forked()) (void)old->synchronize(kNever);
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return acl_guarded([&] {
    const auto of = stream_of("aclrtSynchronizeStream", stream);
    synchronize("aclrtSynchronizeStream", *of, -1);
  });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return acl_guarded([&] {
    const auto of = stream_of("aclrtSynchronizeStreamWithTimeout", stream);
    synchronize("aclrtSynchronizeStreamWithTimeout", *of, timeout);
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return acl_guarded([&] {
    const bool is_idle = stream_of("aclrtStreamQuery", stream)->is_idle();
    given(status, "aclrtStreamQuery", "status") =
        is_idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return acl_guarded([&] {
    if (fn == nullptr) refuse_null("aclrtLaunchHostFunc: `fn` is null; give one");
    stream_of("aclrtLaunchHostFunc", stream)->add({.run = [fn, args] { fn(args); }});
  });
}
