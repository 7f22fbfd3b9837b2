// SPDX-License-Identifier: Apache-2.0
// A rank of `cohort run`: meets by a name, sends the bytes of rank 0's HcclRootInfo, and makes every call.
//
//   program all            every call is right
//   program table FILE     the same ranks, by a rank table
//   program killed         rank 1 dies amid calls, and the others hear who did
//   program disagree       rank 0 asks for less than the others
//   program skipped        rank 0's stream fails before a call that all others make
//
// No rank:
//   program crowded        makes a communicator of devices with ever fewer descriptors, too few
//   program starved N      a stream finds no memory at its allocation number N of a batch of calls
#include <cohort/tests/bindings/hccl/checks.h>

#include <acl/acl_tdt.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Of this thread, until one fails; 0: none does.
constinit thread_local int allocations_left = 0;

uint32_t rank_of_job() { return static_cast<uint32_t>(std::atoi(std::getenv("COHORT_RANK"))); }
uint32_t ranks_of_job() { return static_cast<uint32_t>(std::atoi(std::getenv("COHORT_SIZE"))); }

int fail(const char* what, int code) {
  const char* const text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d: %s\n", what, code, text == nullptr ? "" : text);
  return 1;
}

/// Sends what rank 0 has to all.
int share(HcclRootInfo& info, aclrtStream stream) {
  acltdtComm all = nullptr;
  int code = acltdtCreateComm(&all, static_cast<int32_t>(ranks_of_job()), static_cast<int32_t>(rank_of_job()),
                              "share", stream);
  if (code != 0) return fail("acltdtCreateComm", code);
  code = acltdtCommBroadcast(all, &info, sizeof info, ACL_UINT8, 0, stream);
  if (code != 0) return fail("acltdtCommBroadcast", code);
  code = aclrtSynchronizeStream(stream);
  if (code != 0) return fail("aclrtSynchronizeStream", code);
  code = acltdtDestroyComm(all);
  return code == 0 ? 0 : fail("acltdtDestroyComm", code);
}

int join(HcclComm& comm, aclrtStream stream, const char* table) {
  if (table != nullptr) {
    const int code = HcclCommInitClusterInfo(table, rank_of_job(), &comm);
    return code == 0 ? 0 : fail("HcclCommInitClusterInfo", code);
  }
  HcclRootInfo info;
  if (rank_of_job() == 0)
    if (const int code = HcclGetRootInfo(&info); code != 0) return fail("HcclGetRootInfo", code);
  if (share(info, stream) != 0) return 1;
  const int code = HcclCommInitRootInfo(ranks_of_job(), &info, rank_of_job(), &comm);
  return code == 0 ? 0 : fail("HcclCommInitRootInfo", code);
}

/// What the stream and the communicator say of a failure: "told CODE ASYNC TEXT", and its status.
int tell(HcclComm comm, int code) {
  const char* const recent = code == 0 ? nullptr : aclGetRecentErrMsg();
  const std::string text = recent == nullptr ? "" : recent;
  HcclResult async = HCCL_SUCCESS;
  HcclGetCommAsyncError(comm, &async);
  std::printf("told %d %d %s\n", code, async, text.c_str());
  std::fflush(stdout);
  return 0;
}

int be_killed(HcclComm comm, aclrtStream stream) {
  std::vector<float> data(1 << 20, 1.0F);
  for (int i = 0;; ++i) {
    if (rank_of_job() == 1 && i == 3) kill(getpid(), SIGKILL);
    HcclAllReduce(data.data(), data.data(), data.size(), HCCL_DATA_TYPE_FP32, HCCL_REDUCE_MAX, comm, stream);
    if (const int code = aclrtSynchronizeStream(stream); code != 0) return tell(comm, code);
  }
}

int disagree(HcclComm comm, aclrtStream stream) {
  std::vector<float> data(100, 1.0F);
  HcclAllReduce(data.data(), data.data(), rank_of_job() == 0 ? 50 : 100, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                comm, stream);
  return tell(comm, aclrtSynchronizeStream(stream));
}

int skip(HcclComm comm, aclrtStream stream) {
  static std::atomic<bool> is_told = false;
  std::vector<float> data(100, 1.0F);
  if (rank_of_job() == 0) {  // waits in vain for what another stream does only afterwards
    aclrtStream other = nullptr;
    aclrtEvent never = nullptr;
    aclrtCreateStream(&other);
    aclrtCreateEvent(&never);
    aclrtSetOpWaitTimeout(1);
    const auto hold = [](void*) { is_told.wait(false); };
    aclrtLaunchHostFunc(other, hold, nullptr);
    aclrtRecordEvent(never, other);
    aclrtStreamWaitEvent(stream, never);
  }
  HcclAllReduce(data.data(), data.data(), 100, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
  const int status = tell(comm, aclrtSynchronizeStream(stream));
  is_told = true;
  is_told.notify_all();
  return status;
}

/// The limit never rises again, whatever the library asks for.
int be_crowded() {
  std::vector<int32_t> devices{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<HcclComm> comms(devices.size());
  for (rlim_t most = 20; most >= 6; --most) {
    const rlimit few{most, most};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return fail("setrlimit", errno);
    const int code = HcclCommInitAll(8, devices.data(), comms.data());
    if (code != HCCL_E_MEMORY) return fail("HcclCommInitAll", code);
  }
  std::puts("refused each time");
  return 0;
}

int starve(int allocation) {
  int32_t devices[] = {0, 1};
  HcclComm comms[2] = {};
  if (const int code = HcclCommInitAll(2, devices, comms); code != 0) return fail("HcclCommInitAll", code);
  int codes[2] = {};
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&comms, &codes, &devices, rank, allocation] {
      aclrtStream stream = nullptr;
      aclrtSetDevice(devices[rank]);
      aclrtCreateStream(&stream);
      std::vector<float> sent(1000, 1.0F), got(1000);
      HcclSendRecvItem items[] = {{HCCL_SEND, sent.data(), 1000, HCCL_DATA_TYPE_FP32, 1 - rank},
                                  {HCCL_RECV, got.data(), 1000, HCCL_DATA_TYPE_FP32, 1 - rank}};
      int left = allocation;
      if (rank == 0)
        aclrtLaunchHostFunc(
            stream, [](void* number) { allocations_left = *static_cast<int*>(number); }, &left);
      HcclBatchSendRecv(items, 2, comms[rank], stream);
      codes[rank] = aclrtSynchronizeStream(stream);
      aclrtDestroyStream(stream);
    });
  for (std::thread& rank : ranks) rank.join();
  std::printf("ended %d %d\n", codes[0], codes[1]);
  return 0;
}

int check(HcclComm comm, aclrtStream stream) {
  hccl_checks::Checker checker(comm, stream);
  checker.all_calls();
  checker.messages();
  checker.groups();
  checker.two_streams();
  checker.wrong_arguments();
  checker.all_calls();
  std::fputs(checker.problems().c_str(), stderr);
  if (const int code = HcclCommDestroy(comm); code != 0) return fail("HcclCommDestroy", code);
  if (!checker.problems().empty()) return 1;
  std::printf("rank %u of %u: fine\n", checker.rank(), checker.ranks());
  return 0;
}

}  // namespace

// The library's too.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (allocations_left > 0 && --allocations_left == 0) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  if (what == "crowded") return be_crowded();
  if (what == "starved") return starve(std::atoi(argv[2]));
  aclrtStream stream = nullptr;
  HcclComm comm = nullptr;
  int code = aclInit(nullptr);
  if (code == 0) code = aclrtSetDevice(static_cast<int32_t>(rank_of_job()));
  if (code == 0) code = aclrtCreateStream(&stream);
  if (code != 0) return fail("the device", code);
  if (join(comm, stream, what == "table" ? argv[2] : nullptr) != 0) return 1;
  if (what == "killed") return be_killed(comm, stream);
  if (what == "disagree") return disagree(comm, stream);
  if (what == "skipped") return skip(comm, stream);
  if (check(comm, stream) != 0) return 1;
  code = aclrtDestroyStream(stream);
  return code == 0 ? aclFinalize() : fail("aclrtDestroyStream", code);
}
