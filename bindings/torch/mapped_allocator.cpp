// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/mapped_allocator.h>

#include <cohort/bindings/python/interpreter.h>

#include <c10/core/Allocator.h>

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace cohort::torch_face {
namespace {

/// Smaller messages are copied in any case.
constexpr std::size_t kLeastMappedBytes = std::size_t{64} << 10;

thread_local std::shared_ptr<Ranks> ranks_of_thread;

/// Whoever drives the engine, which gives the memory, may be about to take the interpreter's lock.
class WithoutInterpreter {
 public:
  WithoutInterpreter() noexcept {
    if (PyGILState_Check() != 0) unlocked_.emplace();
  }

 private:
  std::optional<python::Unlocked> unlocked_;
};

/// What is mapped and in use, by address: torch frees by the address alone, too. Never ended: tensors outlive
/// it otherwise.
class Mapped {
 public:
  static Mapped& one() {
    static auto& mapped = *new Mapped;
    return mapped;
  }
  /// Once: another thread may be freeing tensors when one forks, and the child frees its own.
  void expect_forks() {
    ::pthread_atfork([] { one().mutex_.lock(); }, [] { one().mutex_.unlock(); },
                     [] { one().mutex_.unlock(); });
  }
  void* keep(std::shared_ptr<void> memory) {
    void* const data = memory.get();
    const std::lock_guard<std::mutex> lock(mutex_);
    memory_.emplace(data, std::move(memory));
    count_.store(memory_.size(), std::memory_order_relaxed);
    return data;
  }
  /// Null: it is ordinary memory.
  std::shared_ptr<void> release(void* data) {
    if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = memory_.find(data);
    if (found == memory_.end()) return nullptr;
    std::shared_ptr<void> memory = std::move(found->second);
    memory_.erase(found);
    count_.store(memory_.size(), std::memory_order_relaxed);
    return memory;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<void>> memory_;
  std::atomic<std::size_t> count_{0};
};

c10::Allocator* ordinary = nullptr;  // torch's own

void release(void* data) {
  if (Mapped::one().release(data) == nullptr) ordinary->raw_deallocate(data);
}

/// Its memory can also be freed by address, which is what torch's library for convolutions does.
class MappedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = bytes < kLeastMappedBytes || !ranks_of_thread ? nullptr : map(*ranks_of_thread, bytes);
    return data == nullptr ? of(bytes == 0 ? nullptr : ordinary->raw_allocate(bytes)) : of(data);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static c10::DataPtr of(void* data) { return {data, data, &release, c10::Device(c10::DeviceType::CPU)}; }
  static void* map(Ranks& ranks, std::size_t bytes) {
    const WithoutInterpreter waiting;
    std::shared_ptr<void> memory = ranks.allocate(bytes);
    return memory == nullptr ? nullptr : Mapped::one().keep(std::move(memory));
  }
};

}  // namespace

void map_new_tensors(std::shared_ptr<Ranks> ranks) {
  constexpr std::uint8_t kPriority = 1;  // torch's own has 0
  // Other threads may be making tensors: one pointer takes another's place, and what either gave stays right.
  [[maybe_unused]] static const bool is_there = [] {
    ordinary = c10::GetAllocator(c10::DeviceType::CPU);
    Mapped::one().expect_forks();
    c10::SetAllocator(c10::DeviceType::CPU, new MappedAllocator, kPriority);
    return true;
  }();
  ranks_of_thread = std::move(ranks);
}

OrdinaryTensors::OrdinaryTensors() noexcept : before_(std::exchange(ranks_of_thread, nullptr)) {}

OrdinaryTensors::~OrdinaryTensors() { ranks_of_thread = std::move(before_); }

}  // namespace cohort::torch_face
