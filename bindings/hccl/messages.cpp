// SPDX-License-Identifier: Apache-2.0
// Messages of HCCL.
#include <cohort/bindings/hccl/asking.h>

#include <fmt/format.h>
#include <hccl/hccl.h>

#include <set>
#include <span>
#include <utility>

using namespace cohort::bindings::hccl;
using cohort::bindings::MessageCall;

namespace {

HcclResult message(const char* function, MessageCall::Direction direction, void* data, uint64_t count,
                   HcclDataType type, uint32_t peer, HcclComm comm, aclrtStream stream) {
  return ask(function, comm, stream, [&](Asking& asking) {
    asking.move(type);
    if (peer == asking.rank())
      refuse(fmt::format("{}: {} is this rank itself; HcclBatchSendRecv can send to it", function, peer));
    asking.add_message(direction, data, count, peer);
  });
}

}  // namespace

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  return message("HcclSend", MessageCall::Direction::send, sendBuf, count, dataType, destRank, comm, stream);
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
  return message("HcclRecv", MessageCall::Direction::recv, recvBuf, count, dataType, srcRank, comm, stream);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream) {
  return ask("HcclBatchSendRecv", comm, stream, [&](Asking& asking) {
    if (itemNum != 0) (void)given(sendRecvInfo, "HcclBatchSendRecv", "sendRecvInfo");
    std::set<std::pair<bool, uint32_t>> seen;
    for (const HcclSendRecvItem& item : std::span<const HcclSendRecvItem>(sendRecvInfo, itemNum)) {
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
        refuse(fmt::format("HcclBatchSendRecv: {} is neither HCCL_SEND nor HCCL_RECV",
                           static_cast<int>(item.sendRecvType)));
      const bool is_send = item.sendRecvType == HCCL_SEND;
      if (!seen.emplace(is_send, item.remoteRank).second)
        refuse(fmt::format("HcclBatchSendRecv: two items {} rank {}; give one each way",
                           is_send ? "to" : "from", item.remoteRank));
      asking.move(item.dataType);
      asking.add_message(is_send ? MessageCall::Direction::send : MessageCall::Direction::recv, item.buf,
                         item.count, item.remoteRank);
    }
  });
}
