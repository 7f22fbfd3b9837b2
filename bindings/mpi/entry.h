// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/request.h>

#include <exception>
#include <memory>
#include <utility>

/// A function that programs link to.
#define COHORT_MPI_ENTRY extern "C" [[gnu::visibility("default")]]

namespace cohort::mpi {

// What each function of MPI does around its work: nothing is thrown out of it. `comm`: whose error handler
// hears of what is wrong.

template <class Work>
int call_for_code(const char* function, MPI_Comm comm, Work&& work) noexcept {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    return report(function, comm, std::current_exception());
  }
}

template <class Work>
int call(const char* function, MPI_Comm comm, Work&& work) noexcept {
  return call_for_code(function, comm, [&]() -> int {
    work();
    return abi::kSuccess;
  });
}

/// `make` gives what is Prepared.
template <class Make>
int complete(const char* function, MPI_Comm comm, MPI_Status* status, Make&& make) noexcept {
  return call(function, comm, [&] {
    Prepared prepared = make();
    prepared.complete(status);
  });
}

template <class Make>
int start(const char* function, MPI_Comm comm, MPI_Request* handle, Make&& make) noexcept {
  return call(function, comm, [&] {
    auto request = std::make_shared<Request>(function, Request::Make());
    request->report_to(comm);
    request->begin(make());
    *handle = made_requests().add(std::move(request));
  });
}

/// A persistent one; what is wrong with its arguments is told now.
template <class Make>
int prepare(const char* function, MPI_Comm comm, MPI_Request* handle, Make&& make) noexcept {
  return call(function, comm, [&] {
    (void)make();
    auto request = std::make_shared<Request>(function, Request::Make(make));
    request->report_to(comm);
    *handle = made_requests().add(std::move(request));
  });
}

/// Of what is not here.
int refuse_missing(const char* function, const char* reason) noexcept;

}  // namespace cohort::mpi
