// SPDX-License-Identifier: Apache-2.0
#include <acl/acl.h>
#include <hccl/hccl.h>

#include <cstdio>

int main() {
  HcclRootInfo info;
  HcclComm comm = nullptr;
  aclrtStream stream = nullptr;
  float one = 1;
  const bool is_fine =
      aclInit(nullptr) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS &&
      aclrtCreateStream(&stream) == ACL_SUCCESS && HcclGetRootInfo(&info) == HCCL_SUCCESS &&
      HcclCommInitRootInfo(1, &info, 0, &comm) == HCCL_SUCCESS &&
      HcclAllReduce(&one, &one, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream) == HCCL_SUCCESS &&
      aclrtSynchronizeStream(stream) == ACL_SUCCESS && HcclCommDestroy(comm) == HCCL_SUCCESS &&
      aclrtDestroyStream(stream) == ACL_SUCCESS && aclFinalize() == ACL_SUCCESS;
  const char* const text = aclGetRecentErrMsg();
  if (is_fine)
    std::printf("rank 0 of 1: %g\n", static_cast<double>(one));
  else
    std::fprintf(stderr, "%s\n", text == nullptr ? "" : text);
  return is_fine ? 0 : 1;
}
