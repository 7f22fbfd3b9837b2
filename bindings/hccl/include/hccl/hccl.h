// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <acl/acl.h>
#include <hccl/hccl_types.h>

// Collective communication by the names of HCCL, with libcohort_hccl.so behind them. docs/use/hccl.md
//
// A call gives its stream something to do, and returns: HCCL_SUCCESS, or what is wrong with its arguments.
// aclrtSynchronizeStream() tells what became of it. Calls on one communicator begin in the order in which
// they were made, whatever their streams; all ranks make the same ones in the same order. Memory and the
// lists of messages may be any of this process; what a stream was given may use memory until that is over.
// Lists of counts are read before a call returns.

#ifdef __cplusplus
extern "C" {
#endif

// Communicators.

/// For one rank, whose process the others then reach.
HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo);
/// Returns when all ranks have called it: processes, or threads of one. So do all that follow.
HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank, HcclComm* comm);
HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                      const HcclCommConfig* config, HcclComm* comm);
/// By a rank table, a file of JSON; waits until its status is "completed".
HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm);
HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank, HcclCommConfig* config,
                                         HcclComm* comm);
/// One for each of these devices, all in this process: rank i is that of devices[i].
HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms);
/// Of these ranks of a communicator, in this order, called by them only; others call it with rankIds null,
/// and are given none. subCommId tells groups of the same ranks apart.
HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds, uint64_t subCommId,
                                   uint32_t subCommRankId, HcclCommConfig* config, HcclComm* subComm);
void HcclCommConfigInit(HcclCommConfig* config);
/// Waits for what streams were given of it.
HcclResult HcclCommDestroy(HcclComm comm);

HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize);
HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank);
/// To an array of COMM_NAME_MAX_LENGTH.
HcclResult HcclGetCommName(HcclComm comm, char* commName);
/// Why its calls fail, if they do. The text is aclGetRecentErrMsg()'s then.
HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult* asyncError);
/// What such a code means, in words.
const char* HcclGetErrorString(HcclResult code);

// Collectives. sendBuf may be recvBuf, or its own block there, except for AlltoAll.

/// Shape: count -> count.
HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream);
/// Shape: count.
HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream);
/// Shape: ranks * recvCount -> recvCount.
HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                             HcclReduceOp op, HcclComm comm, aclrtStream stream);
/// Shape: sendCounts[r] elements at sendDispls[r] for each rank r -> recvCount.
HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls, void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream);
/// Shape: sendCount -> ranks * sendCount.
HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                         HcclComm comm, aclrtStream stream);
/// Shape: sendCount -> recvCounts[r] elements at recvDispls[r] of each rank r.
HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                          const void* recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream);
/// Shape: count -> count at the root.
HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream);
/// Shape: ranks * recvCount at the root -> recvCount.
HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream);
/// As many bytes are given as are got. Shape: ranks * sendCount -> ranks * recvCount.
HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream);
/// Counts and displacements in elements, one uint64_t of each for each rank.
HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                         HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                         const void* rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream);
/// sendCountMatrix[s * ranks + r], a uint64_t, elements go from rank s to rank r; the same on all ranks.
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                          const void* recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream);
/// Over in the stream when every rank's stream has come so far.
HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

// Messages, between two ranks in their order.

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream);
HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream);
/// All at once, at most one each way between two ranks; to and from this rank itself, too.
HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                             aclrtStream stream);

#ifdef __cplusplus
}
#endif
