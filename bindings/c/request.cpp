// SPDX-License-Identifier: Apache-2.0
// Calls that were started.
#include <cohort/bindings/c/handles.h>

#include <fmt/format.h>

#include <chrono>
#include <vector>

namespace cohort::bindings::c {
namespace {

cohort_status outcome_of(const Request& request) {
  return request.failure() ? keep_error(request.failure()) : COHORT_OK;
}

TimePoint until(std::int64_t timeout_ns) {
  return timeout_ns < 0 ? kNever : after(std::chrono::steady_clock::now(), Duration(timeout_ns));
}

}  // namespace
}  // namespace cohort::bindings::c

using namespace cohort::bindings::c;
using namespace cohort;

cohort_status cohort_test(cohort_request* request, int32_t* is_over) {
  if (is_over != nullptr) *is_over = 0;
  return guarded([&] {
    bindings::Request& asked = *given(request, "cohort_test", "request").request;
    const bool over = asked.test();
    if (is_over != nullptr) *is_over = over ? 1 : 0;
    return over ? outcome_of(asked) : COHORT_OK;
  });
}

cohort_status cohort_wait(cohort_request* request, int64_t timeout_ns) {
  return guarded([&]() -> cohort_status {
    const cohort_request& asked = given(request, "cohort_wait", "request");
    const bool is_over = asked.session->loop().wait(asked.request, until(timeout_ns), nullptr);
    return is_over ? outcome_of(*asked.request) : COHORT_NOT_OVER;
  });
}

cohort_status cohort_wait_any(cohort_request* const* requests, size_t count, int64_t timeout_ns,
                              size_t* index) {
  return guarded([&]() -> cohort_status {
    cohort_request* const* const first = &given(requests, "cohort_wait_any", "requests");
    std::vector<std::shared_ptr<bindings::Work>> works;
    bindings::Session* session = nullptr;
    for (std::size_t i = 0; i < count; ++i) {
      if (first[i] == nullptr) continue;
      if (session != nullptr && session != first[i]->session.get())
        refuse("cohort_wait_any: the requests are of several worlds; wait for those of each apart");
      session = first[i]->session.get();
      works.push_back(first[i]->request);
    }
    if (session == nullptr) refuse("cohort_wait_any: there is no request to wait for; give one");
    if (!session->loop().wait_any(works, until(timeout_ns))) return COHORT_NOT_OVER;
    for (std::size_t i = 0; i < count; ++i) {
      if (first[i] == nullptr || !first[i]->request->is_over()) continue;
      if (index != nullptr) *index = i;
      return outcome_of(*first[i]->request);
    }
    refuse("cohort_wait_any: none is over, though one was");  // is_over() never goes back
  });
}

cohort_status cohort_cancel(cohort_request* request) {
  return guarded([&] {
    given(request, "cohort_cancel", "request").request->cancel();
    return COHORT_OK;
  });
}

cohort_status cohort_when_over(cohort_request* request, void (*callback)(void* context), void* context) {
  return guarded([&] {
    (void)given(request, "cohort_when_over", "request");
    if (callback == nullptr) refuse("cohort_when_over: `callback` is null; give one");
    request->request->when_over([callback, context](bindings::Request&) { callback(context); });
    return COHORT_OK;
  });
}

uint32_t cohort_request_from(const cohort_request* request) {
  return request == nullptr ? UINT32_MAX : request->request->envelope.from;
}

cohort_status cohort_request_free(cohort_request* request) {
  return guarded([&] {
    if (request == nullptr) return COHORT_OK;
    if (!request->request->is_over() && !request->session->is_forked())
      refuse(
          "cohort_request_free: the call goes on, with its memory; wait for its end, or cancel it and wait");
    request->request.reset();  // before the session
    delete request;
    return COHORT_OK;
  });
}
