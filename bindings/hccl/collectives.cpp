// SPDX-License-Identifier: Apache-2.0
// Collectives of HCCL.
#include <cohort/bindings/hccl/asking.h>
#include <cohort/bindings/hccl/blocks.h>
#include <cohort/bindings/hccl/elements.h>
#include <cohort/bindings/hccl/error.h>

#include <fmt/format.h>
#include <hccl/hccl.h>

#include <utility>

using namespace cohort::bindings::hccl;
using namespace cohort;
using bindings::CollectiveCall;

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  return ask("HcclAllReduce", comm, stream, [&](Asking& asking) {
    asking.combine(dataType, op);
    asking.add_collective(operator_of<AllReduce>, sendBuf, recvBuf, count);
  });
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  return ask("HcclBroadcast", comm, stream, [&](Asking& asking) {
    asking.move(dataType);
    asking.set_root(root);
    asking.add_collective(operator_of<Broadcast>, nullptr, buf, count);
  });
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  return ask("HcclReduceScatter", comm, stream, [&](Asking& asking) {
    asking.combine(dataType, op);
    asking.add_collective(operator_of<ReduceScatter>, sendBuf, recvBuf, recvCount);
  });
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream) {
  return ask("HcclAllGather", comm, stream, [&](Asking& asking) {
    asking.move(dataType);
    asking.add_collective(operator_of<AllGather>, sendBuf, recvBuf, sendCount);
  });
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
  return ask("HcclReduce", comm, stream, [&](Asking& asking) {
    asking.combine(dataType, op);
    asking.set_root(root);
    asking.add_collective(operator_of<Reduce>, sendBuf, recvBuf, count);
  });
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
  return ask("HcclScatter", comm, stream, [&](Asking& asking) {
    asking.move(dataType);
    asking.set_root(root);
    asking.add_collective(operator_of<Scatter>, sendBuf, recvBuf, recvCount);
  });
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return ask("HcclAlltoAll", comm, stream, [&](Asking& asking) {
    const ElementForm in = element_of("HcclAlltoAll", sendType);
    const ElementForm out = element_of("HcclAlltoAll", recvType);
    const std::size_t bytes = times(sendCount, in.size_bytes());
    if (const std::size_t got = times(recvCount, out.size_bytes()); got != bytes)
      refuse(fmt::format("HcclAlltoAll: each rank is given {} bytes, and {} are got of each", bytes, got));
    const bool are_alike = sendType == recvType;
    asking.move(are_alike ? in : ElementForm{});
    asking.add_collective(operator_of<AllToAll>, sendBuf, const_cast<void*>(recvBuf),
                          are_alike ? sendCount : bytes);
  });
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return ask("HcclBarrier", comm, stream, [&](Asking& asking) { asking.add_barrier(); });
}

// With counts.

HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
  return ask("HcclReduceScatterV", comm, stream, [&](Asking& asking) {
    asking.combine(dataType, op);
    const Blocks in = asking.blocks(sendBuf, "sendBuf", sendCounts, sendDispls);
    asking.check_own(in, recvCount, "recvCount");
    asking.add_with_counts(operator_of<ReduceScatterV>, asking.packed(in),
                           asking.whole(recvBuf, "recvBuf", recvCount), in.counts);
  });
}

HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  return ask("HcclAllGatherV", comm, stream, [&](Asking& asking) {
    asking.move(dataType);
    const Blocks out = asking.blocks(recvBuf, "recvBuf", recvCounts, recvDispls);
    asking.check_own(out, sendCount, "sendCount");
    asking.add_with_counts(operator_of<AllGatherV>, asking.whole(sendBuf, "sendBuf", sendCount),
                           asking.unpacked(out), out.counts);
  });
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                         HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                         const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return ask("HcclAlltoAllV", comm, stream, [&](Asking& asking) {
    asking.move(sendType);
    const Blocks in = asking.blocks(const_cast<void*>(sendBuf), "sendBuf", sendCounts, sdispls);
    asking.move(recvType);
    const Blocks out = asking.blocks(const_cast<void*>(recvBuf), "recvBuf", recvCounts, rdispls);
    asking.add_all_to_all_v(in, out, sendType == recvType);
  });
}

HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                          const void* recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return ask("HcclAlltoAllVC", comm, stream, [&](Asking& asking) {
    asking.move(sendType);
    if (recvType != sendType)
      refuse("HcclAlltoAllVC: recvType is not sendType, and counts are in elements of both");
    asking.add_by_matrix(const_cast<void*>(sendBuf), const_cast<void*>(recvBuf), sendCountMatrix);
  });
}
