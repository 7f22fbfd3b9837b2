// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/c/error.h>
#include <cohort/bindings/session/session.h>

#include <memory>

// What handles hold. Each owns the session too, which so outlives all that was made of it.

struct cohort_comm {
  std::shared_ptr<cohort::bindings::Session> session;
  std::shared_ptr<cohort::bindings::SharedCommunicator> comm;
};

struct cohort_request {
  std::shared_ptr<cohort::bindings::Session> session;
  std::shared_ptr<cohort::bindings::Request> request;
};

struct cohort_memory {
  std::shared_ptr<cohort::bindings::Session> session;
  std::shared_ptr<std::byte> memory;
};
