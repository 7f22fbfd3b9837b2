// SPDX-License-Identifier: Apache-2.0
// A thread for each device, each of which is a rank: every rank gets what all have, by HcclAllGather.
//
//   hccl_all_gather [DEVICES]
#include <acl/acl.h>
#include <hccl/hccl.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kCount = 1 << 16;  // of float32, that each rank gives

/// Says what was wrong, if anything was.
bool is_fine(const char* what, int code) {
  if (code == 0) return true;
  const char* const text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d: %s\n", what, code, text == nullptr ? "" : text);
  return false;
}

/// Of rank r, which gave r + 1 everywhere.
bool is_right(const std::vector<float>& all, uint32_t ranks) {
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint64_t i = 0; i < kCount; ++i)
      if (all[rank * kCount + i] != static_cast<float>(rank + 1)) return false;
  return true;
}

bool gather(HcclComm comm, aclrtStream stream, uint32_t rank, uint32_t ranks) {
  const size_t bytes = kCount * sizeof(float);
  const std::vector<float> mine(kCount, static_cast<float>(rank + 1));
  std::vector<float> all(ranks * kCount);
  void* in = nullptr;
  void* out = nullptr;
  bool is_well = is_fine("aclrtMalloc", aclrtMalloc(&in, bytes, ACL_MEM_MALLOC_HUGE_FIRST)) &&
                 is_fine("aclrtMalloc", aclrtMalloc(&out, ranks * bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  // One after the other, in the order of the stream; nothing is done when these functions return.
  is_well = is_well &&
            is_fine("aclrtMemcpyAsync",
                    aclrtMemcpyAsync(in, bytes, mine.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream)) &&
            is_fine("HcclAllGather", HcclAllGather(in, out, kCount, HCCL_DATA_TYPE_FP32, comm, stream)) &&
            is_fine("aclrtMemcpyAsync", aclrtMemcpyAsync(all.data(), ranks * bytes, out, ranks * bytes,
                                                         ACL_MEMCPY_DEVICE_TO_HOST, stream));
  is_well = is_fine("aclrtSynchronizeStream", aclrtSynchronizeStream(stream)) && is_well;
  if (in != nullptr) aclrtFree(in);
  if (out != nullptr) aclrtFree(out);
  return is_well && is_right(all, ranks);
}

bool be_rank(const HcclRootInfo& info, uint32_t rank, uint32_t ranks) {
  HcclComm comm = nullptr;
  aclrtStream stream = nullptr;
  if (!is_fine("aclrtSetDevice", aclrtSetDevice(static_cast<int32_t>(rank))) ||
      !is_fine("aclrtCreateStream", aclrtCreateStream(&stream)) ||
      !is_fine("HcclCommInitRootInfo", HcclCommInitRootInfo(ranks, &info, rank, &comm)))
    return false;
  const bool is_well = gather(comm, stream, rank, ranks);
  return is_fine("HcclCommDestroy", HcclCommDestroy(comm)) &&
         is_fine("aclrtDestroyStream", aclrtDestroyStream(stream)) && is_well;
}

}  // namespace

int main(int argc, char** argv) {
  const auto ranks = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 4);
  HcclRootInfo info;
  if (ranks == 0 || !is_fine("aclInit", aclInit(nullptr)) ||
      !is_fine("HcclGetRootInfo", HcclGetRootInfo(&info)))
    return 1;
  std::vector<int> is_well(ranks, 0);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { is_well[rank] = be_rank(info, rank, ranks) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  if (!is_fine("aclFinalize", aclFinalize())) return 1;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    if (is_well[rank] == 0) return 1;
  std::printf("%u ranks have got what all had\n", ranks);
  return 0;
}
