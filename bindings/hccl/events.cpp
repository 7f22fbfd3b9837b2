// SPDX-License-Identifier: Apache-2.0
// Events, for C.
#include <cohort/bindings/hccl/device.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/bindings/hccl/event.h>
#include <cohort/bindings/hccl/handles.h>

#include <acl/acl_rt.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>

namespace cohort::bindings::hccl {
namespace {

std::atomic<std::uint32_t> wait_limit_s{0};

std::shared_ptr<Event> event_of(const char* function, const void* handle) {
  need(handle, function, "event");
  return Handles<Event>::all().find(handle, function, "event");
}

void synchronize(const char* function, const void* handle, std::int32_t timeout_ms) {
  const TimePoint until = deadline_of(function, timeout_ms);
  const std::shared_ptr<const Recording> recording = event_of(function, handle)->recording();
  if (recording == nullptr) return;
  if (!recording->wait(until))
    throw CodedError(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, HCCL_E_TIMEOUT,
                     fmt::format("{}: the event is not reached after {} ms", function, timeout_ms));
}

bool is_reached(const Event& event) {
  const std::shared_ptr<const Recording> recording = event.recording();
  return recording == nullptr || recording->reached_at();
}

TimePoint time_of(const char* function, const void* handle) {
  const std::shared_ptr<const Recording> recording = event_of(function, handle)->recording();
  const std::optional<TimePoint> at = recording == nullptr ? std::nullopt : recording->reached_at();
  if (!at) refuse(fmt::format("{}: an event was not reached; synchronize it before", function));
  return *at;
}

}  // namespace
}  // namespace cohort::bindings::hccl

using namespace cohort::bindings::hccl;
using namespace cohort;

aclError aclrtCreateEvent(aclrtEvent* event) {
  return acl_guarded([&] {
    (void)given(event, "aclrtCreateEvent", "event");
    *event = Handles<Event>::all().add(std::make_shared<Event>());
  });
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtDestroyEvent(aclrtEvent event) {
  return acl_guarded([&] {
    need(event, "aclrtDestroyEvent", "event");
    (void)Handles<Event>::all().take(event, "aclrtDestroyEvent", "event");
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return acl_guarded(
      [&] { event_of("aclrtRecordEvent", event)->record(*stream_of("aclrtRecordEvent", stream)); });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return acl_guarded(
      [&] { event_of("aclrtResetEvent", event)->reset(*stream_of("aclrtResetEvent", stream)); });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return acl_guarded([&] {
    const auto of = stream_of("aclrtStreamWaitEvent", stream);
    event_of("aclrtStreamWaitEvent", event)->make_wait(*of, std::chrono::seconds(wait_limit_s.load()));
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return acl_guarded([&] { synchronize("aclrtSynchronizeEvent", event, -1); });
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return acl_guarded([&] { synchronize("aclrtSynchronizeEventWithTimeout", event, timeout); });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  return acl_guarded([&] {
    const bool is_over = is_reached(*event_of("aclrtQueryEvent", event));
    given(status, "aclrtQueryEvent", "status") =
        is_over ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return acl_guarded([&] {
    const bool is_over = is_reached(*event_of("aclrtQueryEventStatus", event));
    given(status, "aclrtQueryEventStatus", "status") =
        is_over ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return acl_guarded([&] {
    const auto elapsed =
        time_of("aclrtEventElapsedTime", endEvent) - time_of("aclrtEventElapsedTime", startEvent);
    given(ms, "aclrtEventElapsedTime", "ms") = std::chrono::duration<float, std::milli>(elapsed).count();
  });
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  wait_limit_s.store(timeout);
  return ACL_SUCCESS;
}
