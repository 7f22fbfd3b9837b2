// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <acl/acl_base.h>

// Devices, memory, streams and events. A device is a number: all have this host's memory.

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ACL_MEM_MALLOC_HUGE_FIRST,
  ACL_MEM_MALLOC_HUGE_ONLY,
  ACL_MEM_MALLOC_NORMAL_ONLY
} aclrtMemMallocPolicy;

typedef enum {
  ACL_MEMCPY_HOST_TO_HOST,
  ACL_MEMCPY_HOST_TO_DEVICE,
  ACL_MEMCPY_DEVICE_TO_HOST,
  ACL_MEMCPY_DEVICE_TO_DEVICE,
  ACL_MEMCPY_DEFAULT
} aclrtMemcpyKind;

typedef enum { ACL_DEVICE, ACL_HOST } aclrtRunMode;

typedef enum { ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1 } aclrtEventStatus;
typedef enum {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
  ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;
typedef enum { ACL_STREAM_STATUS_COMPLETE = 0, ACL_STREAM_STATUS_NOT_READY = 1 } aclrtStreamStatus;

typedef void (*aclrtHostFunc)(void* args);

// Devices and contexts. A thread works on the device that it has set last, or on that of the context.

aclError aclrtSetDevice(int32_t deviceId);
/// Waits for what the device's streams were given.
aclError aclrtResetDevice(int32_t deviceId);
aclError aclrtGetDevice(int32_t* deviceId);
/// COHORT_HCCL_DEVICES, else 8 or the ranks of this host, whichever is more.
aclError aclrtGetDeviceCount(uint32_t* count);
aclError aclrtSynchronizeDevice(void);
/// ACL_HOST.
aclError aclrtGetRunMode(aclrtRunMode* runMode);

/// A new one becomes this thread's.
aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId);
aclError aclrtDestroyContext(aclrtContext context);
aclError aclrtSetCurrentContext(aclrtContext context);
aclError aclrtGetCurrentContext(aclrtContext* context);

// Memory.

/// At an address that is a multiple of 64. Where the device has a communicator already, ranks of this host
/// map what it gives from 64 KiB up, so that collectives copy nothing twice.
aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy);
/// Nothing that a stream was given may still use it.
aclError aclrtFree(void* devPtr);
aclError aclrtMallocHost(void** hostPtr, size_t size);
aclError aclrtFreeHost(void* hostPtr);
/// At once: not in a stream's order.
aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind);
aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count);
aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream);
aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);

// Streams: what one is given is done in its order, besides the caller; what several are given at the same
// time. Null is the default one of the thread's context.

aclError aclrtCreateStream(aclrtStream* stream);
/// Priority and flags change nothing here.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
/// Waits for what it was given.
aclError aclrtDestroyStream(aclrtStream stream);
/// Waits for what it was given until now, and tells what of it has failed first: each of it ends within a
/// time limit of its own. From a failure on a stream does nothing more until this has told it.
aclError aclrtSynchronizeStream(aclrtStream stream);
/// The same, for so many milliseconds at most; -1: as above.
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status);
/// Calls it in the stream's order, in the stream's thread. It may call nothing that waits for this stream.
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args);

// Events: a point in a stream. What waits for one waits for where it was recorded last by then, which may be
// nowhere. A failure of the stream goes along.

aclError aclrtCreateEvent(aclrtEvent* event);
aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtDestroyEvent(aclrtEvent event);
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
/// As if it were recorded nowhere, once the stream has come so far.
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
aclError aclrtSynchronizeEvent(aclrtEvent event);
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status);
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status);
/// Between two that were reached.
aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent);
/// How many seconds a stream waits for an event before that is an error of the stream; 0: as long as it
/// takes.
aclError aclrtSetOpWaitTimeout(uint32_t timeout);

#ifdef __cplusplus
}
#endif
