// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/abi.h>

#include <functional>
#include <map>
#include <optional>

namespace cohort::mpi {

/// What a program attaches to a communicator or a datatype, by keys of its own.
class Attributes {
 public:
  /// Of the object with that handle. Throws Failure for a key that is none, and for what a function of the
  /// program's returns.
  void set(int handle, int key, void* value);
  [[nodiscard]] std::optional<void*> get(int key) const;
  void remove(int handle, int key);
  /// Before the object ends. The last that was set goes first.
  void remove_all(int handle);
  /// What a duplicate gets.
  [[nodiscard]] Attributes duplicate(int handle) const;

 private:
  struct Value {
    void* value = nullptr;
    unsigned long order = 0;
  };
  std::map<int, Value> values_;
  unsigned long next_ = 0;
};

/// A new key. Null functions copy nothing, and do nothing where a value goes.
[[nodiscard]] int make_key(MPI_Copy_function* copy, MPI_Delete_function* remove, void* extra);
/// Its attributes stay where they are.
void free_key(int key);

}  // namespace cohort::mpi
