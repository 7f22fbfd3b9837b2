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

/// A persistent one; what is wrong with its arguments is told now. `keep` gives what makes it.
template <class Keep>
int prepare(const char* function, MPI_Comm comm, MPI_Request* handle, Keep&& keep) noexcept {
  return call(function, comm, [&] {
    Request::Make make = [make = keep(), named = std::make_shared<NamedObjects>()] {
      const NamedObjects::Use use(*named);
      return make();
    };
    (void)make();
    auto request = std::make_shared<Request>(function, std::move(make));
    request->report_to(comm);
    *handle = made_requests().add(std::move(request));
  });
}

/// Arrays with one for each rank that a persistent request has of its own, as the program may let its go.
/// Null where the call does not look at it.
class KeptNumbers {
 public:
  KeptNumbers(Numbers from, MPI_Comm comm, bool is_looked_at) {
    const Rank ranks = is_looked_at ? comm_of(comm)->shared->size() : 0;
    for (Rank rank = 0; rank < ranks; ++rank) numbers_.push_back(from[rank]);
  }
  operator Numbers() const noexcept { return numbers_.data(); }  // NOLINT(google-explicit-constructor)

 private:
  std::vector<MPI_Count> numbers_;
};

class KeptTypes {
 public:
  KeptTypes(const MPI_Datatype* from, MPI_Comm comm, bool is_looked_at) {
    if (is_looked_at) types_.assign(from, from + comm_of(comm)->shared->size());
  }
  operator const MPI_Datatype*() const noexcept {
    return types_.data();
  }  // NOLINT(google-explicit-constructor)

 private:
  std::vector<MPI_Datatype> types_;
};

/// Of what is not here.
int refuse_missing(const char* function, const char* reason) noexcept;

}  // namespace cohort::mpi
