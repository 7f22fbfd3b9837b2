// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/platform.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/system/caches.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/system/core_sharing.h>
#include <cohort/engine/system/descriptor_limit.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/processor.h>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace cohort {
namespace {

/// For what is open for a moment only.
constexpr std::size_t kSpareDescriptors = 32;

/// The kernel adds its timer slack, 50 us.
constexpr std::chrono::microseconds kNap{20};

class RealPlatform final : public Platform {
 public:
  std::string host_name() override { return host::name(); }
  std::string host_fingerprint() override { return host::fingerprint(); }
  std::string kernel_id() override { return host::kernel_id(); }
  unsigned available_cores() override { return processor::available_cores(); }
  std::size_t core_cache_bytes() override { return caches::core_bytes(); }
  std::size_t last_level_cache_bytes() override { return caches::last_level_bytes(); }
  std::size_t told_core_cache_bytes() override { return caches::told_core_bytes(); }
  std::size_t told_last_level_cache_bytes() override { return caches::told_last_level_bytes(); }
  CoreSet usable_cores() override { return stays_ != 0 ? before_ : processor::usable_cores(); }
  std::vector<unsigned> one_of_each_core_first(const CoreSet& cores) override {
    return affinity::one_of_each_core_first(cores);
  }
  bool stay_on_core(std::size_t core) noexcept override;
  void keep_core() noexcept override;
  void leave_core() noexcept override;
  std::size_t make_room_for_descriptors(std::size_t least, std::size_t wanted,
                                        std::string_view what_for) override;
  void yield_core() noexcept override;
  void hand_core_over() noexcept override { processor::yield(); }
  int core() noexcept override { return processor::current_core(); }

 private:
  [[nodiscard]] bool bind_caller(const CoreSet& own) noexcept;
  void release() noexcept;

  MonotonicClock clock_;
  CoreSharing sharing_;

  // Between stay_on_core() and leave_core():
  unsigned stays_ = 0;
  processor::Thread bound_ = 0;  ///< 0: none
  CoreSet before_;
  CoreSet own_;
};

bool RealPlatform::bind_caller(const CoreSet& own) noexcept {
  const std::optional<CoreSet> before = processor::cores_of_thread();
  if (!before || (*before & own).none()) return false;
  before_ = *before;
  own_ = own;
  bound_ = ::gettid();
  processor::run_on(own_);
  return true;
}

/// A thread that has ended meanwhile may have left its number to another process's.
void RealPlatform::release() noexcept {
  const processor::Thread bound = std::exchange(bound_, 0);
  const bool is_there = bound != 0 && ::tgkill(::getpid(), bound, 0) == 0;
  if (is_there && processor::cores_of_thread(bound) == own_) processor::run_on(before_, bound);
}

bool RealPlatform::stay_on_core(std::size_t core) noexcept {
  if (stays_ != 0)
    keep_core();
  else if (core >= kMostCores || !bind_caller(CoreSet().set(core)))
    return false;
  ++stays_;
  return true;
}

void RealPlatform::keep_core() noexcept {
  if (stays_ == 0 || bound_ == ::gettid()) return;
  release();
  static_cast<void>(bind_caller(own_));
}

void RealPlatform::leave_core() noexcept {
  if (--stays_ == 0) release();
}

void RealPlatform::yield_core() noexcept {
  if (!sharing_.should_time()) return processor::yield();
  const TimePoint began = clock_.now();
  if (sharing_.should_sleep(began)) return std::this_thread::sleep_for(kNap);
  processor::yield();
  sharing_.note_yield(began, clock_.now());
}

std::size_t RealPlatform::make_room_for_descriptors(std::size_t least, std::size_t wanted,
                                                    std::string_view what_for) {
  const std::size_t open = descriptor_limit::count_open();
  const std::size_t enough = open + std::max(least, wanted) + kSpareDescriptors;
  const std::size_t limit = descriptor_limit::raise_to(enough);
  if (limit >= open + least) return limit - open;
  throw Error(
      ErrorKind::ResourceLimit,
      fmt::format("{} takes {} more descriptors, but this process has {} open and may have {}: raise the "
                  "hard limit on open files to {} or more (ulimit -Hn {}; LimitNOFILE of a service)",
                  what_for, std::max(least, wanted), open, limit, enough, enough));
}

}  // namespace

std::unique_ptr<Platform> make_real_platform() {
  (void)detail::is_string_fast();  // tried now, not amid the first large copy
  return std::make_unique<RealPlatform>();
}

}  // namespace cohort
