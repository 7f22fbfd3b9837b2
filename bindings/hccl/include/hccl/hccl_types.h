// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

// Types and codes of HCCL, with the names and values that its public manual has.

#ifdef __cplusplus
extern "C" {
#endif

/// What functions return, and what has become of a communicator. aclGetRecentErrMsg() tells more.
typedef enum {
  HCCL_SUCCESS = 0,
  HCCL_E_PARA = 1,         ///< an argument is wrong, or ranks gave different ones
  HCCL_E_PTR = 2,          ///< a pointer is null
  HCCL_E_MEMORY = 3,       ///< memory, descriptors or another limit of this host
  HCCL_E_INTERNAL = 4,     ///< a bug of the library's
  HCCL_E_NOT_SUPPORT = 5,  ///< there is no such thing here
  HCCL_E_NOT_FOUND = 6,
  HCCL_E_UNAVAIL = 7,  ///< the communicator is closed or was given up
  HCCL_E_SYSCALL = 8,  ///< the kernel refused something
  HCCL_E_TIMEOUT = 9,  ///< the time limit of a call, or of joining
  HCCL_E_OPEN_FILE_FAILURE = 10,
  HCCL_E_TCP_CONNECT = 11,  ///< another secret, or none
  HCCL_E_ROCE_CONNECT = 12,
  HCCL_E_TCP_TRANSFER = 13,
  HCCL_E_ROCE_TRANSFER = 14,
  HCCL_E_RUNTIME = 15,  ///< this thread has no device
  HCCL_E_DRV = 16,
  HCCL_E_PROFILING = 17,
  HCCL_E_CCE = 18,
  HCCL_E_NETWORK = 19,  ///< a connection broke, or carried what makes no sense
  HCCL_E_AGAIN = 20,
  HCCL_E_REMOTE = 21,  ///< another rank died, is silent or gave up
  HCCL_E_SUSPENDING = 22,
  HCCL_E_RESERVED
} HcclResult;

typedef void* HcclComm;

typedef enum {
  HCCL_REDUCE_SUM = 0,
  HCCL_REDUCE_PROD = 1,
  HCCL_REDUCE_MAX = 2,
  HCCL_REDUCE_MIN = 3,
  HCCL_REDUCE_RESERVED
} HcclReduceOp;

/// What an element is. Those that are marked are moved only.
typedef enum {
  HCCL_DATA_TYPE_INT8 = 0,
  HCCL_DATA_TYPE_INT16 = 1,
  HCCL_DATA_TYPE_INT32 = 2,
  HCCL_DATA_TYPE_FP16 = 3,
  HCCL_DATA_TYPE_FP32 = 4,
  HCCL_DATA_TYPE_INT64 = 5,
  HCCL_DATA_TYPE_UINT64 = 6,
  HCCL_DATA_TYPE_UINT8 = 7,
  HCCL_DATA_TYPE_UINT16 = 8,
  HCCL_DATA_TYPE_UINT32 = 9,
  HCCL_DATA_TYPE_FP64 = 10,
  HCCL_DATA_TYPE_BFP16 = 11,
  HCCL_DATA_TYPE_INT128 = 12,  ///< moved only
  HCCL_DATA_TYPE_HIF8 = 14,    ///< moved only
  HCCL_DATA_TYPE_FP8E4M3 = 15,
  HCCL_DATA_TYPE_FP8E5M2 = 16,
  HCCL_DATA_TYPE_FP8E8M0 = 17,  ///< moved only
  HCCL_DATA_TYPE_RESERVED = 255
} HcclDataType;

enum {
  HCCL_ROOT_INFO_BYTES = 4108,
  HCCL_COMM_CONFIG_INFO_BYTES = 24,
  COMM_NAME_MAX_LENGTH = 128,
  UDI_MAX_LENGTH = 128
};

/// What the rank that made it gives all others, so that they meet. Whoever has it can join.
typedef struct HcclRootInfoDef {
  char internal[HCCL_ROOT_INFO_BYTES];
} HcclRootInfo;

/// HcclCommConfigInit() fills it. What is left as that made it is the environment's.
typedef struct HcclCommConfigDef {
  char reserved[HCCL_COMM_CONFIG_INFO_BYTES];
  uint32_t hcclBufferSize;     ///< MiB, of each of the two bounce buffers
  uint32_t hcclDeterministic;  ///< 0: D0; 1: D1; 2: D2 of docs/use/determinism.md
  char hcclCommName[COMM_NAME_MAX_LENGTH];
  char hcclUdi[UDI_MAX_LENGTH];  // This one and those below change nothing here.
  uint32_t hcclOpExpansionMode;
  uint32_t hcclRdmaTrafficClass;
  uint32_t hcclRdmaServiceLevel;
} HcclCommConfig;

typedef enum { HCCL_SEND = 0, HCCL_RECV = 1, HCCL_SEND_RECV_RESERVED } HcclSendRecvType;

/// A message of HcclBatchSendRecv().
typedef struct HcclSendRecvItemDef {
  HcclSendRecvType sendRecvType;
  void* buf;
  uint64_t count;
  HcclDataType dataType;
  uint32_t remoteRank;
} HcclSendRecvItem;

#ifdef __cplusplus
}
#endif
