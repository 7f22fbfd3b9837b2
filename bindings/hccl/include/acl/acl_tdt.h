// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <acl/acl.h>

// Communicators that processes make by a name alone, as an article on gradients has them; no manual knows
// them.

#ifdef __cplusplus
extern "C" {
#endif

typedef void* acltdtComm;

typedef enum {
  ACL_TDT_COMM_REDUCE_SUM = 0,
  ACL_TDT_COMM_REDUCE_PROD = 1,
  ACL_TDT_COMM_REDUCE_MAX = 2,
  ACL_TDT_COMM_REDUCE_MIN = 3
} acltdtCommReduceOp;

/// Returns when so many ranks have named it: processes of this user on this host, or those of one `cohort
/// run`. The stream is not used.
aclError acltdtCreateComm(acltdtComm* comm, int32_t worldSize, int32_t rankId, const char* name,
                          aclrtStream stream);
aclError acltdtDestroyComm(acltdtComm comm);

// In place; `size` in bytes.

aclError acltdtCommAllReduce(acltdtComm comm, void* buffer, size_t size, aclDataType dataType,
                             acltdtCommReduceOp op, aclrtStream stream);
aclError acltdtCommBroadcast(acltdtComm comm, void* buffer, size_t size, aclDataType dataType, int32_t root,
                             aclrtStream stream);

#ifdef __cplusplus
}
#endif
