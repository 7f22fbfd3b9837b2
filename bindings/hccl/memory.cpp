// SPDX-License-Identifier: Apache-2.0
// Memory, and copies in it.
#include <cohort/bindings/hccl/comm.h>
#include <cohort/bindings/hccl/device.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/error.h>

#include <acl/acl_rt.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

namespace cohort::bindings::hccl {
namespace {

constexpr std::size_t kAlignment = 64;
/// Below it, what ranks map is no faster than what they copy.
constexpr std::size_t kLeastMapped = std::size_t{64} << 10;

struct OfDevice {};
struct OfHost {};

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  if (bytes > SIZE_MAX - kAlignment) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [](std::byte* last) { std::free(last); }};
}

/// Null: there is no communicator, or it has no room.
std::shared_ptr<std::byte> allocate_mapped(std::size_t bytes) {
  if (bytes < kLeastMapped) return nullptr;
  const std::shared_ptr<Comm> comm = comm_of_device(current_context()->device());
  if (comm == nullptr || comm->comm().is_closed() || comm->session()->is_forked()) return nullptr;
  try {
    return comm->allocate(bytes);
  } catch (const Error&) {  // closed meanwhile, or without room
    return nullptr;
  }
}

void need_size(const char* function, std::size_t size) {
  if (size == 0) refuse(fmt::format("{}: the size is 0; give bytes", function));
}

/// What was allocated and not freed, by address. Threads: any.
template <class Kind>
class Blocks {
 public:
  static Blocks& all() {
    static Blocks* const blocks = new Blocks;
    return *blocks;
  }
  void* add(std::shared_ptr<std::byte> memory) {
    void* const first = memory.get();
    const std::lock_guard lock(mutex_);
    blocks_.emplace(first, std::move(memory));
    return first;
  }
  void remove(const void* first, const char* function) {
    std::shared_ptr<std::byte> memory;  // freed without the lock
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(first);
    if (found == blocks_.end())
      refuse_handle(
          fmt::format("{}: {} is not what was allocated by its counterpart, or is freed", function, first));
    memory = std::move(found->second);
    blocks_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<std::byte>> blocks_;
};

void check_copy(const char* function, const void* dst, std::size_t most, const void* src, std::size_t count,
                aclrtMemcpyKind kind) {
  if (count != 0) {
    need(dst, function, "dst");
    need(src, function, "src");
  }
  if (count > most) refuse(fmt::format("{}: {} bytes are more than destMax, {}", function, count, most));
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEFAULT)
    refuse(fmt::format("{}: {} is no aclrtMemcpyKind", function, static_cast<int>(kind)));
}

void check_set(const char* function, const void* to, std::size_t most, std::size_t count) {
  if (count != 0) need(to, function, "devPtr");
  if (count > most) refuse(fmt::format("{}: {} bytes are more than maxCount, {}", function, count, most));
}

}  // namespace
}  // namespace cohort::bindings::hccl

using namespace cohort::bindings::hccl;

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return acl_guarded([&] {
    (void)given(devPtr, "aclrtMalloc", "devPtr");
    *devPtr = nullptr;
    need_size("aclrtMalloc", size);
    if (policy < ACL_MEM_MALLOC_HUGE_FIRST || policy > ACL_MEM_MALLOC_NORMAL_ONLY)
      refuse(fmt::format("aclrtMalloc: {} is no aclrtMemMallocPolicy", static_cast<int>(policy)));
    (void)needed_context("aclrtMalloc");
    std::shared_ptr<std::byte> memory = allocate_mapped(size);
    if (memory == nullptr) memory = allocate(size);
    *devPtr = Blocks<OfDevice>::all().add(std::move(memory));
  });
}

aclError aclrtFree(void* devPtr) {
  return acl_guarded([&] {
    need(devPtr, "aclrtFree", "devPtr");
    Blocks<OfDevice>::all().remove(devPtr, "aclrtFree");
  });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return acl_guarded([&] {
    (void)given(hostPtr, "aclrtMallocHost", "hostPtr");
    *hostPtr = nullptr;
    need_size("aclrtMallocHost", size);
    *hostPtr = Blocks<OfHost>::all().add(allocate(size));
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return acl_guarded([&] {
    need(hostPtr, "aclrtFreeHost", "hostPtr");
    Blocks<OfHost>::all().remove(hostPtr, "aclrtFreeHost");
  });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return acl_guarded([&] {
    check_copy("aclrtMemcpy", dst, destMax, src, count, kind);
    if (count != 0) std::memmove(dst, src, count);
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return acl_guarded([&] {
    check_set("aclrtMemset", devPtr, maxCount, count);
    if (count != 0) std::memset(devPtr, value, count);
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return acl_guarded([&] {
    check_copy("aclrtMemcpyAsync", dst, destMax, src, count, kind);
    const auto on = stream_of("aclrtMemcpyAsync", stream);
    if (count != 0) on->add({.run = [=] { std::memmove(dst, src, count); }});
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return acl_guarded([&] {
    check_set("aclrtMemsetAsync", devPtr, maxCount, count);
    const auto on = stream_of("aclrtMemsetAsync", stream);
    if (count != 0) on->add({.run = [=] { std::memset(devPtr, value, count); }});
  });
}
