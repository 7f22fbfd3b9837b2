// SPDX-License-Identifier: Apache-2.0
// Communicators of HCCL.
#include <cohort/bindings/hccl/device.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/bindings/hccl/handles.h>
#include <cohort/bindings/hccl/joining.h>
#include <cohort/net/join/root_info.h>

#include <fmt/format.h>
#include <hccl/hccl.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace cohort::bindings::hccl {
namespace {

constexpr std::uint32_t kUsualMebibytes = 200;  // of the manual; here: as the environment says
constexpr char kMark[] = "cohort config 1";
static_assert(sizeof kMark <= HCCL_COMM_CONFIG_INFO_BYTES);

std::shared_ptr<Comm> comm_of(const char* function, HcclComm handle) {
  need(handle, function, "comm");
  return Handles<Comm>::all().find(handle, function, "communicator");
}

void check_place(const char* function, std::uint32_t rank, std::uint32_t ranks) {
  if (rank >= ranks)
    refuse(fmt::format("{}: rank {} of {}: ranks are numbered from 0 to the number of them less 1", function,
                       rank, ranks));
}

std::string name_in(const char* function, const HcclCommConfig* config) {
  if (config == nullptr) return {};
  const char* const end = std::ranges::find(config->hcclCommName, '\0');
  if (end == std::end(config->hcclCommName))
    refuse(fmt::format("{}: hcclCommName has no end within {} letters", function, int{COMM_NAME_MAX_LENGTH}));
  return {config->hcclCommName, end};
}

HcclResult init_by_root_info(const char* function, std::uint32_t ranks, const HcclRootInfo* info,
                             std::uint32_t rank, const HcclCommConfig* config, HcclComm* comm) {
  return hccl_guarded([&] {
    given(comm, function, "comm") = nullptr;
    const HcclRootInfo& root = given(info, function, "rootInfo");
    check_place(function, rank, ranks);
    CommunicatorOptions options = options_of(function, config);
    place_by_root_info(root, rank, ranks, options);
    if (std::string name = name_in(function, config); !name.empty()) options.join.name = std::move(name);
    *comm = Handles<Comm>::all().add(join(std::move(options)));
  });
}

HcclResult init_by_table(const char* function, const char* path, std::uint32_t rank,
                         const HcclCommConfig* config, HcclComm* comm) {
  return hccl_guarded([&] {
    given(comm, function, "comm") = nullptr;
    const std::string table = &given(path, function, "clusterInfo");
    CommunicatorOptions options = options_of(function, config);
    place_by_table(function, table, rank, options);
    if (std::string name = name_in(function, config); !name.empty()) options.join.name = std::move(name);
    *comm = Handles<Comm>::all().add(join(std::move(options)));
  });
}

/// What the code of a communicator's failure is; its text is kept.
HcclResult failure_of(Comm& comm) {
  const auto failure = comm.comm().failure();
  return failure ? keep_hccl_error(std::make_exception_ptr(*failure)) : HCCL_SUCCESS;
}

void make_group(const char* function, HcclComm* comm, std::uint32_t count, const std::uint32_t* ranks,
                std::uint64_t id, std::uint32_t rank, const HcclCommConfig* config, HcclComm* group) {
  const auto world = comm_of(function, given(comm, function, "comm"));
  given(group, function, "subComm") = nullptr;
  if (ranks == nullptr) return;  // this rank has no part in it
  check_place(function, rank, count);
  std::vector<Rank> members(ranks, ranks + count);
  if (members[rank] != world->comm().rank())
    refuse(fmt::format("{}: subCommRankId {} is rank {} by rankIds, and this is rank {}", function, rank,
                       members[rank], world->comm().rank()));
  std::string name = name_in(function, config);
  if (name.empty()) name = fmt::format("{}-{}", world->comm().name(), id);
  *group = Handles<Comm>::all().add(world->group(std::move(members), name));
}

}  // namespace
}  // namespace cohort::bindings::hccl

using namespace cohort::bindings::hccl;
using namespace cohort;

HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo) {
  return hccl_guarded([&] {
    HcclRootInfo& info = given(rootInfo, "HcclGetRootInfo", "rootInfo");
    const RootInfo made = root_info();
    std::memset(&info, 0, sizeof info);
    std::memcpy(info.internal, made.data(), made.size());
  });
}

HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                HcclComm* comm) {
  return init_by_root_info("HcclCommInitRootInfo", nRanks, rootInfo, rank, nullptr, comm);
}

HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm) {
  return init_by_root_info("HcclCommInitRootInfoConfig", nRanks, rootInfo, rank, config, comm);
}

HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm) {
  return init_by_table("HcclCommInitClusterInfo", clusterInfo, rank, nullptr, comm);
}

HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm) {
  return init_by_table("HcclCommInitClusterInfoConfig", clusterInfo, rank, config, comm);
}

HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms) {
  return hccl_guarded([&] {
    const std::int32_t* const first = &given(devices, "HcclCommInitAll", "devices");
    HcclComm* const made = &given(comms, "HcclCommInitAll", "comms");
    if (ndev == 0) refuse("HcclCommInitAll: ndev is 0; give the number of devices");
    std::vector<std::int32_t> all(first, first + ndev);
    for (const std::int32_t device : all) check_device("HcclCommInitAll", device);
    std::ranges::sort(all);
    if (const auto twice = std::ranges::adjacent_find(all); twice != all.end())
      refuse(fmt::format("HcclCommInitAll: device {} is given twice", *twice));
    const std::vector<std::shared_ptr<Comm>> joined = join_all(std::span(first, ndev));
    for (std::uint32_t rank = 0; rank < ndev; ++rank) made[rank] = Handles<Comm>::all().add(joined[rank]);
  });
}

HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm) {
  return hccl_guarded([&] {
    make_group("HcclCreateSubCommConfig", comm, rankNum, rankIds, subCommId, subCommRankId, config, subComm);
  });
}

void HcclCommConfigInit(HcclCommConfig* config) {
  if (config == nullptr) return;
  std::memset(config, 0, sizeof *config);
  std::memcpy(config->reserved, kMark, sizeof kMark);
  config->hcclBufferSize = kUsualMebibytes;
}

HcclResult HcclCommDestroy(HcclComm comm) {
  return hccl_guarded([&] {
    need(comm, "HcclCommDestroy", "comm");
    Stream::refuse_own_threads("HcclCommDestroy");
    Handles<Comm>::all().take(comm, "HcclCommDestroy", "communicator")->close();
  });
}

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize) {
  return hccl_guarded([&] {
    const auto of = comm_of("HcclGetRankSize", comm);
    given(rankSize, "HcclGetRankSize", "rankSize") = of->comm().size();
  });
}

HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank) {
  return hccl_guarded([&] {
    const auto of = comm_of("HcclGetRankId", comm);
    given(rank, "HcclGetRankId", "rank") = of->comm().rank();
  });
}

HcclResult HcclGetCommName(HcclComm comm, char* commName) {
  return hccl_guarded([&] {
    const auto of = comm_of("HcclGetCommName", comm);
    char* const to = &given(commName, "HcclGetCommName", "commName");
    const std::string name = of->comm().name().substr(0, COMM_NAME_MAX_LENGTH - 1);
    std::memcpy(to, name.c_str(), name.size() + 1);
  });
}

HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError) {
  return hccl_guarded([&] {
    const auto of = comm_of("HcclGetCommAsyncError", comm);
    given(asyncError, "HcclGetCommAsyncError", "asyncError") = failure_of(*of);
  });
}

const char* HcclGetErrorString(HcclResult code) {
  switch (code) {
    case HCCL_SUCCESS: return "no error";
    case HCCL_E_PARA: return "an argument is wrong, or ranks gave different ones";
    case HCCL_E_PTR: return "a pointer is null";
    case HCCL_E_MEMORY: return "memory or another limit of this host is used up";
    case HCCL_E_INTERNAL: return "a bug of the library's";
    case HCCL_E_NOT_SUPPORT: return "not supported";
    case HCCL_E_NOT_FOUND: return "not found";
    case HCCL_E_UNAVAIL: return "the communicator is closed or was given up";
    case HCCL_E_SYSCALL: return "the kernel refused a call";
    case HCCL_E_TIMEOUT: return "not over within its time limit";
    case HCCL_E_OPEN_FILE_FAILURE: return "a file cannot be opened";
    case HCCL_E_TCP_CONNECT: return "a connection was refused";
    case HCCL_E_ROCE_CONNECT: return "a connection by RDMA was refused";
    case HCCL_E_TCP_TRANSFER: return "a transfer by TCP failed";
    case HCCL_E_ROCE_TRANSFER: return "a transfer by RDMA failed";
    case HCCL_E_RUNTIME: return "the runtime was not used as it has to be";
    case HCCL_E_DRV: return "a driver's call failed";
    case HCCL_E_PROFILING: return "a profiler's call failed";
    case HCCL_E_CCE: return "an engine's call failed";
    case HCCL_E_NETWORK: return "a connection broke, or carried what makes no sense";
    case HCCL_E_AGAIN: return "try again";
    case HCCL_E_REMOTE: return "another rank died, is silent or gave up";
    case HCCL_E_SUSPENDING: return "the communicator is suspended";
    case HCCL_E_RESERVED: break;
  }
  return "unknown";
}
