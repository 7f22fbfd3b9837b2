// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/attributes.h>

#include <cohort/bindings/mpi/handles.h>

#include <algorithm>
#include <memory>

namespace cohort::mpi {
namespace {

struct Key {
  MPI_Copy_function* copy = nullptr;
  MPI_Delete_function* remove = nullptr;
  void* extra = nullptr;
};

/// Those of freed keys, too, as long as an attribute has one: they are kept for good.
struct Keys {
  Handles<Key> handles{abi::kMadeKeyval, "key of attributes", abi::kErrKeyval};
  std::mutex mutex;
  std::map<int, bool> is_freed;
};
Keys& keys() {
  static auto& all = *new Keys();
  return all;
}

void check(const char* what, int code) {
  if (code != abi::kSuccess)
    fail(abi::kErrOther, fmt::format("the program's function that {} returned {}", what, code));
}

}  // namespace

int make_key(MPI_Copy_function* copy, MPI_Delete_function* remove, void* extra) {
  return keys().handles.add(std::make_shared<Key>(Key{copy, remove, extra}));
}

void free_key(int key) {
  (void)keys().handles.at(key);
  const std::lock_guard lock(keys().mutex);
  if (std::exchange(keys().is_freed[key], true)) fail(abi::kErrKeyval, "the key was freed before");
}

void Attributes::set(int handle, int key, void* value) {
  remove(handle, key);
  const std::lock_guard lock(mutex_);
  values_[key] = {value, next_++};
}

std::optional<void*> Attributes::get(int key) const {
  (void)keys().handles.at(key);
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second.value);
}

/// It stays where it is if the program's function refuses.
void Attributes::remove(int handle, int key) {
  const std::shared_ptr<Key> of = keys().handles.at(key);
  const std::optional<void*> value = get(key);
  if (!value) return;
  if (of->remove != nullptr) check("deletes an attribute", of->remove(handle, key, *value, of->extra));
  const std::lock_guard lock(mutex_);
  values_.erase(key);
}

void Attributes::remove_all(int handle) {
  for (;;) {
    int last = 0;
    {
      const std::lock_guard lock(mutex_);
      if (values_.empty()) return;
      last = std::ranges::max_element(values_, {}, [](const auto& attribute) {
               return attribute.second.order;
             })->first;
    }
    remove(handle, last);
  }
}

void Attributes::duplicate_to(Attributes& made, int handle) const {
  std::map<int, Value> values;
  {
    const std::lock_guard lock(mutex_);
    values = values_;
  }
  for (const auto& [key, value] : values) {
    const std::shared_ptr<Key> of = keys().handles.at(key);
    if (of->copy == nullptr) continue;
    void* copied = nullptr;
    int is_copied = 0;
    check("copies an attribute", of->copy(handle, key, of->extra, value.value, &copied, &is_copied));
    if (is_copied != 0) made.set(handle, key, copied);
  }
}

}  // namespace cohort::mpi
