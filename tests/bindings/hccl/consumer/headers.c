// SPDX-License-Identifier: Apache-2.0
// The headers are C's as well.
#include <acl/acl.h>
#include <acl/acl_tdt.h>
#include <hccl/hccl.h>

int is_success(HcclResult result);
int is_success(HcclResult result) { return result == HCCL_SUCCESS && ACL_SUCCESS == 0; }
