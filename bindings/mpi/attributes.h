// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>

namespace cohort::mpi {

/// What a program attaches to a communicator or a datatype, by keys of its own.
///
/// Threads: any; functions of the program's are called without a lock.
class Attributes {
 public:
  Attributes() = default;
  ~Attributes() = default;
  /// Copies of an object have none, but for what duplicate_to() gives them.
  Attributes(const Attributes& /*other*/) noexcept {}
  Attributes& operator=(const Attributes&) = delete;

  /// Of the object with that handle. Throws Failure for a key that is none, and for what a function of the
  /// program's returns.
  void set(int handle, int key, void* value);
  [[nodiscard]] std::optional<void*> get(int key) const;
  void remove(int handle, int key);
  /// Before the object ends. The last that was set goes first.
  void remove_all(int handle);
  /// Gives a duplicate, which nobody else knows yet, what functions of the program's say.
  void duplicate_to(Attributes& made, int handle) const;

 private:
  struct Value {
    void* value = nullptr;
    unsigned long order = 0;
  };
  mutable std::mutex mutex_;
  std::map<int, Value> values_;
  unsigned long next_ = 0;
};

/// A new key. Null functions copy nothing, and do nothing where a value goes.
[[nodiscard]] int make_key(MPI_Copy_function* copy, MPI_Delete_function* remove, void* extra);
/// Its attributes stay where they are.
void free_key(int key);

}  // namespace cohort::mpi
