// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

/// A function that MPItrampoline looks up.
#define COHORT_MPI_ENTRY extern "C" [[gnu::visibility("default")]]

/// The types of MPItrampoline's binary interface, 2: handles are as wide as pointers, and statuses hold those
/// of the library behind. What is here turns them to those of abi.h for the time of a call.
namespace cohort::mpi::trampoline {

using Handle = std::uintptr_t;

struct Status {
  union {
    MPI_Status own;
    struct {
      int values[4];
      std::size_t count;
    } other;  ///< of Open MPI, whose are the larger ones
  };
  int source;
  int tag;
  int error;
};
static_assert(offsetof(Status, source) == 24 && sizeof(Status) == 40);

/// A handle that a call writes, or reads and writes.
class HandleOut {
 public:
  explicit HandleOut(Handle* to) noexcept : to_(to), value_(static_cast<int>(*to)) {}
  HandleOut(const HandleOut&) = delete;
  HandleOut& operator=(const HandleOut&) = delete;
  ~HandleOut() { *to_ = static_cast<unsigned>(value_); }
  operator int*() noexcept { return &value_; }  // NOLINT(google-explicit-constructor)

 private:
  Handle* const to_;
  int value_;
};

class HandlesIn {
 public:
  HandlesIn(int count, const Handle* from) {
    for (int i = 0; i < count; ++i) values_.push_back(static_cast<int>(from[i]));
  }
  operator int*() noexcept { return values_.data(); }  // NOLINT(google-explicit-constructor)

 protected:
  std::vector<int> values_;
};

class HandlesOut : public HandlesIn {
 public:
  HandlesOut(int count, Handle* to) : HandlesIn(count, to), to_(to) {}
  HandlesOut(const HandlesOut&) = delete;
  HandlesOut& operator=(const HandlesOut&) = delete;
  ~HandlesOut() {
    for (std::size_t i = 0; i < values_.size(); ++i) to_[i] = static_cast<unsigned>(values_[i]);
  }

 private:
  Handle* const to_;
};

[[nodiscard]] inline bool is_ignored(const Status* status) noexcept {
  return status == nullptr || reinterpret_cast<const MPI_Status*>(status) == abi::kStatusIgnore;
}

class StatusesOut {
 public:
  StatusesOut(int count, Status* to) : to_(to), own_(is_ignored(to) ? 0 : static_cast<std::size_t>(count)) {
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = to_[i].own;
  }
  StatusesOut(const StatusesOut&) = delete;
  StatusesOut& operator=(const StatusesOut&) = delete;
  ~StatusesOut() {
    for (std::size_t i = 0; i < own_.size(); ++i) {
      to_[i].own = own_[i];
      to_[i].source = own_[i].MPI_SOURCE;
      to_[i].tag = own_[i].MPI_TAG;
      to_[i].error = own_[i].MPI_ERROR;
    }
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator MPI_Status*() noexcept { return own_.empty() ? abi::kStatusIgnore : own_.data(); }

 private:
  Status* const to_;
  std::vector<MPI_Status> own_;
};

class StatusOut : public StatusesOut {
 public:
  explicit StatusOut(Status* to) : StatusesOut(1, to) {}
};

/// Of what is not here.
int refuse_missing(const char* function, const char* reason) noexcept;

}  // namespace cohort::mpi::trampoline
