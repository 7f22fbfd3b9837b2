// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// Types and codes of AscendCL, with the names and values that its public manual has. docs/use/hccl.md says
// what is behind them here: memory and threads of this host.

#ifdef __cplusplus
extern "C" {
#endif

typedef void* aclrtStream;
typedef void* aclrtEvent;
typedef void* aclrtContext;

/// What functions return: 0, or what was wrong. aclGetRecentErrMsg() tells more.
typedef int aclError;

// An interface of C: constants of it are not made by a macro, so that they have a type.
static const int ACL_SUCCESS = 0;
static const int ACL_ERROR_NONE = 0;

// This call is wrong.
static const int ACL_ERROR_INVALID_PARAM = 100000;
static const int ACL_ERROR_UNINITIALIZE = 100001;
static const int ACL_ERROR_REPEAT_INITIALIZE = 100002;
static const int ACL_ERROR_RT_PARAM_INVALID = 107000;     ///< a handle or pointer that is none
static const int ACL_ERROR_RT_INVALID_DEVICEID = 107001;  ///< not below aclrtGetDeviceCount()
static const int ACL_ERROR_RT_CONTEXT_NULL = 107002;      ///< this thread has set no device

// Something is not there.
static const int ACL_ERROR_BAD_ALLOC = 200000;
static const int ACL_ERROR_API_NOT_SUPPORT = 200001;
static const int ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
static const int ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;

// What a stream was given has failed, or is not over in time.
static const int ACL_ERROR_INTERNAL_ERROR = 500000;
static const int ACL_ERROR_FAILURE = 500001;
static const int ACL_ERROR_RT_INTERNAL_ERROR = 507000;
static const int ACL_ERROR_RT_STREAM_SYNC_TIMEOUT = 507046;
static const int ACL_ERROR_RT_EVENT_SYNC_TIMEOUT = 507047;

/// What an element is.
typedef enum {
  ACL_DT_UNDEFINED = -1,
  ACL_FLOAT = 0,
  ACL_FLOAT16 = 1,
  ACL_INT8 = 2,
  ACL_INT32 = 3,
  ACL_UINT8 = 4,
  ACL_INT16 = 6,
  ACL_UINT16 = 7,
  ACL_UINT32 = 8,
  ACL_INT64 = 9,
  ACL_UINT64 = 10,
  ACL_DOUBLE = 11,
  ACL_BOOL = 12,
  ACL_STRING = 13,
  ACL_COMPLEX64 = 16,
  ACL_COMPLEX128 = 17,
  ACL_BF16 = 27
} aclDataType;

/// Bytes of one element; 0 of a string, and of what is none.
size_t aclDataTypeSize(aclDataType dataType);

/// What this thread's last error was, in words; null: there was none since it was asked last. Valid until the
/// thread calls something of this library again.
const char* aclGetRecentErrMsg(void);

#ifdef __cplusplus
}
#endif
