// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stddef.h>
#include <stdint.h>

// cohort for C, and for every language that can call C: collectives between processes. docs/use/c.md has
// examples.
//
// Handles are opaque; each is freed by its own function, in any order. Functions return a status: COHORT_OK,
// or what went wrong, of which the calling thread can ask for the text and the culprit until its next call
// fails.
//
// Threads: any. All ranks make the same calls on a communicator in the same order; threads that call at once
// have a group each. In a child of fork() everything returns COHORT_INVALID_ARGUMENT.
//
// Every call that moves data waits for its end where `request` is null. Else it is started, and *request is
// what tells its end: it belongs to the caller, who frees it. Memory that is named stays the call's until
// then; arrays of counts, of ranks and of tensors, and texts, are copied. `how` may be null.

#ifdef __cplusplus
extern "C" {
#endif

/// A group of ranks.
typedef struct cohort_comm cohort_comm;
/// A call that was started.
typedef struct cohort_request cohort_request;
/// Memory that the ranks of a host map.
typedef struct cohort_memory cohort_memory;

/// What a function returns. After a call has failed with another status than COHORT_INVALID_ARGUMENT its
/// communicator cannot be used any more, on any rank, and all ranks are given the same cause.
typedef int32_t cohort_status;
enum {
  COHORT_OK = 0,
  COHORT_INVALID_ARGUMENT = 1,   ///< this call is wrong, whatever the other ranks do
  COHORT_MISMATCH = 2,           ///< the ranks disagree about the call
  COHORT_PEER_DIED = 3,          ///< a rank's process ended without saying goodbye
  COHORT_PEER_SILENT = 4,        ///< a rank lives but does not answer
  COHORT_PEER_ABORTED = 5,       ///< a rank left, or gave up for a reason of its own
  COHORT_LINK_FAULT = 6,         ///< the connection between two living ranks broke
  COHORT_PROTOCOL_ERROR = 7,     ///< a peer sent what makes no sense here
  COHORT_DEADLINE_EXCEEDED = 8,  ///< the time given to the call is over
  COHORT_CANCELLED = 9,          ///< the caller asked to stop
  COHORT_REVOKED = 10,           ///< the communicator was given up by somebody
  COHORT_AUTH_FAILED = 11,       ///< the other end does not know the job's secret
  COHORT_DUPLICATE_RANK = 12,    ///< two processes claim one rank
  COHORT_WORLD_SIZE = 13,        ///< the ranks disagree about their number
  COHORT_MISSING_RANKS = 14,     ///< not every rank came in time
  COHORT_RESOURCE_LIMIT = 15,    ///< memory, descriptors or another limit of this host
  COHORT_UNSUPPORTED = 16,       ///< not available here, and why
  COHORT_SYSTEM_ERROR = 17,      ///< the kernel refused something it should not have
  COHORT_INTERNAL = 18,          ///< a bug in cohort
  COHORT_NOT_OVER = 100          ///< no error: what was waited for goes on
};

/// What an element is.
typedef int32_t cohort_type;
enum {
  COHORT_FLOAT32 = 0,
  COHORT_FLOAT64 = 1,
  COHORT_FLOAT16 = 2,      ///< IEEE 754 binary16
  COHORT_BFLOAT16 = 3,     ///< the upper half of a float32
  COHORT_FLOAT8_E4M3 = 4,  ///< of OCP
  COHORT_FLOAT8_E5M2 = 5,
  COHORT_INT8 = 6,
  COHORT_INT16 = 7,
  COHORT_INT32 = 8,
  COHORT_INT64 = 9,
  COHORT_UINT8 = 10,
  COHORT_UINT16 = 11,
  COHORT_UINT32 = 12,
  COHORT_UINT64 = 13,
  COHORT_BYTE = 14  ///< moved, never combined
};

/// How the ranks' elements become one.
typedef int32_t cohort_op;
enum {
  COHORT_SUM = 0,
  COHORT_AVG = 1,
  COHORT_MAX = 2,
  COHORT_MIN = 3,
  COHORT_PROD = 4,
  COHORT_SCALED_SUM = 5,  ///< each element is multiplied by cohort_how.factor first
  COHORT_BIT_AND = 6,     // of integers only, from here on
  COHORT_BIT_OR = 7,
  COHORT_BIT_XOR = 8,
  COHORT_LOGICAL_AND = 9,
  COHORT_LOGICAL_OR = 10,
  COHORT_LOGICAL_XOR = 11
};

/// How a world is joined. All zero, besides `bytes`: by the environment (docs/operate/environment.md).
typedef struct cohort_options {
  size_t bytes;  ///< sizeof(cohort_options): later versions have more at the end
  uint32_t rank;
  uint32_t size;            ///< 0: rank and size are the environment's
  const char* name;         ///< of the communicator
  const char* address;      ///< where rank 0 listens: HOST:PORT, or unix:NAME
  const char* job;          ///< tells jobs apart that meet at one address
  const char* transport;    ///< the only kind that may be used
  const char* algorithm;    ///< for all calls that it can run, or by operator
  int64_t timeout_ns;       ///< of a call
  int64_t join_timeout_ns;  ///< of joining
  uint64_t buffer_bytes;    ///< of each of the library's own buffers
  uint64_t heap_bytes;      ///< address space for cohort_allocate
  const void* root_info;    ///< COHORT_ROOT_INFO_BYTES of rank 0's cohort_root_info: with rank and size
} cohort_options;

/// What holds for a call beside its arguments. All zero, besides `bytes`: what holds for its communicator.
typedef struct cohort_how {
  size_t bytes;           ///< sizeof(cohort_how)
  int64_t timeout_ns;     ///< its time limit
  const char* algorithm;  ///< its algorithm's name
  double factor;          ///< of COHORT_SCALED_SUM
} cohort_how;

/// One of several tensors of a call.
typedef struct cohort_tensor {
  void* data;  ///< only read where it is input
  size_t count;
} cohort_tensor;

// About the last function of this thread that did not return COHORT_OK.

/// What happened, to whom, in which operation, and what to do next. Valid until the next one fails.
const char* cohort_error_text(void);
/// The rank that caused it; -1: none is known.
int64_t cohort_error_rank(void);
/// The number of the collective that failed, among those of its communicator; -1: none ran.
int64_t cohort_error_sequence(void);

/// "PeerDied" for COHORT_PEER_DIED, and so on; "unknown" for a number that is none.
const char* cohort_status_name(cohort_status status);
/// Bytes of one element; 0 for a number that is none.
size_t cohort_type_bytes(cohort_type type);
/// The library's, as "0.1.0".
const char* cohort_version(void);

// Communicators.

/// What rank 0 gives the other ranks so that they meet it: its address and a new secret.
#define COHORT_ROOT_INFO_BYTES 128
/// For rank 0, of a program that sends bytes to its other ranks in a way of its own. Whoever has them can
/// join.
cohort_status cohort_root_info(void* info);
/// Joins a world: returns when all its ranks have. `options` may be null.
cohort_status cohort_join(const cohort_options* options, cohort_comm** comm);
/// The group of the ranks that give the same colour, by key, then by rank; null for a negative one. All ranks
/// call it.
cohort_status cohort_split(cohort_comm* comm, int32_t color, int32_t key, cohort_comm** group);
/// The group of these ranks, in this order, called by them only.
cohort_status cohort_group(cohort_comm* comm, const uint32_t* ranks, size_t count, const char* name,
                           cohort_comm** group);

uint32_t cohort_rank(const cohort_comm* comm);
uint32_t cohort_size(const cohort_comm* comm);
/// Valid as long as the handle, as is cohort_transport's.
const char* cohort_name(const cohort_comm* comm);
const char* cohort_transport(const cohort_comm* comm);
/// What that rank is called in the world that was joined; UINT32_MAX for one that is none.
uint32_t cohort_world_rank(const cohort_comm* comm, uint32_t rank);
/// Why calls fail: COHORT_OK if they do not.
cohort_status cohort_failure(cohort_comm* comm);
/// Which algorithm runs such a call here, and why: a text of at most `capacity` bytes with its end. *needed,
/// if not null: how many the whole takes.
cohort_status cohort_explain(cohort_comm* comm, const char* operator_name, cohort_type type, size_t bytes,
                             char* text, size_t capacity, size_t* needed);

/// Says goodbye, and waits until that is told. Calls that are under way end with COHORT_CANCELLED. Fails with
/// what was wrong with the last collective, if this rank could not hear of it before.
cohort_status cohort_close(cohort_comm* comm);
/// Gives up: calls of all ranks fail with COHORT_PEER_ABORTED and this reason.
cohort_status cohort_abort(cohort_comm* comm, const char* reason);
/// Lets go of it, which closes it once its calls are over. Null is nothing to free, here and below.
void cohort_free(cohort_comm* comm);

/// Memory on which large calls copy nothing twice. Lives until it is freed; children of fork write to it for
/// themselves alone.
cohort_status cohort_allocate(cohort_comm* comm, size_t bytes, cohort_memory** memory);
void* cohort_memory_data(const cohort_memory* memory);
void cohort_memory_free(cohort_memory* memory);

// Collectives. `in` may be `out`, or its own block of it, except for all_to_all. What a rank neither gives
// nor gets may be null there.

/// Completes when every rank has called it.
cohort_status cohort_barrier(cohort_comm* comm, const cohort_how* how, cohort_request** request);
/// The root's elements to everybody. Shape: count.
cohort_status cohort_broadcast(cohort_comm* comm, void* data, size_t count, cohort_type type, uint32_t root,
                               const cohort_how* how, cohort_request** request);
/// Shape: count -> count.
cohort_status cohort_all_reduce(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                cohort_op op, const cohort_how* how, cohort_request** request);
/// Shape: count -> count at the root.
cohort_status cohort_reduce(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                            cohort_op op, uint32_t root, const cohort_how* how, cohort_request** request);
/// Of ranks 0 to the own one. Shape: count -> count.
cohort_status cohort_scan(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                          cohort_op op, const cohort_how* how, cohort_request** request);
/// Of the ranks before the own one; rank 0's `out` stays as it is. Shape: count -> count.
cohort_status cohort_exclusive_scan(cohort_comm* comm, const void* in, void* out, size_t count,
                                    cohort_type type, cohort_op op, const cohort_how* how,
                                    cohort_request** request);
/// Shape: count -> size * count.
cohort_status cohort_all_gather(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                const cohort_how* how, cohort_request** request);
/// Shape: size * count -> count.
cohort_status cohort_reduce_scatter(cohort_comm* comm, const void* in, void* out, size_t count,
                                    cohort_type type, cohort_op op, const cohort_how* how,
                                    cohort_request** request);
/// Shape: count -> size * count at the root.
cohort_status cohort_gather(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                            uint32_t root, const cohort_how* how, cohort_request** request);
/// Shape: size * count at the root -> count.
cohort_status cohort_scatter(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                             uint32_t root, const cohort_how* how, cohort_request** request);
/// Shape: size * count -> size * count.
cohort_status cohort_all_to_all(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                const cohort_how* how, cohort_request** request);

// The same with blocks that differ: `counts` has the elements of each rank's, the same on all ranks.

/// Shape: counts[rank] -> sum of counts.
cohort_status cohort_all_gather_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                                  cohort_type type, const cohort_how* how, cohort_request** request);
/// Shape: sum of counts -> counts[rank].
cohort_status cohort_reduce_scatter_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                                      cohort_type type, cohort_op op, const cohort_how* how,
                                      cohort_request** request);
/// Shape: counts[rank] -> sum of counts at the root.
cohort_status cohort_gather_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                              cohort_type type, uint32_t root, const cohort_how* how,
                              cohort_request** request);
/// Shape: sum of counts at the root -> counts[rank].
cohort_status cohort_scatter_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                               cohort_type type, uint32_t root, const cohort_how* how,
                               cohort_request** request);
/// Each rank knows what it gives to each and gets of each, `size` counts each. Shape: sum of send_counts ->
/// sum of recv_counts.
cohort_status cohort_all_to_all_v(cohort_comm* comm, const void* in, const size_t* send_counts, void* out,
                                  const size_t* recv_counts, cohort_type type, const cohort_how* how,
                                  cohort_request** request);
/// matrix[s * size + r] elements go from rank s to rank r; the same on all ranks. Shape: sum of the own row
/// -> sum of the own column.
cohort_status cohort_all_to_all_vc(cohort_comm* comm, const void* in, void* out, const size_t* matrix,
                                   cohort_type type, const cohort_how* how, cohort_request** request);

/// Several tensors in one call, by the operator's name: all_reduce, reduce, reduce_scatter, all_gather,
/// broadcast. `in` null: in place, of all_gather the own block of each; of broadcast always. `op` and `root`
/// where the operator has them; `out` is not looked at on ranks that get nothing.
cohort_status cohort_call_on_tensors(cohort_comm* comm, const char* operator_name, const cohort_tensor* in,
                                     const cohort_tensor* out, size_t tensors, cohort_type type, cohort_op op,
                                     uint32_t root, const cohort_how* how, cohort_request** request);

// Messages between two ranks, matched by tag, of sizes that are equal.

cohort_status cohort_send(cohort_comm* comm, const void* data, size_t bytes, uint32_t to, int32_t tag,
                          const cohort_how* how, cohort_request** request);
cohort_status cohort_recv(cohort_comm* comm, void* data, size_t bytes, uint32_t from, int32_t tag,
                          const cohort_how* how, cohort_request** request);
/// From whoever sends first: *from, if it waits and `from` is not null; else cohort_request_from.
cohort_status cohort_recv_any(cohort_comm* comm, void* data, size_t bytes, int32_t tag, uint32_t* from,
                              const cohort_how* how, cohort_request** request);

// Requests. They go on by themselves, whether somebody asks or not.

/// Whether it is over. The status of what is over; else COHORT_OK.
cohort_status cohort_test(cohort_request* request, int32_t* is_over);
/// Waits so long, for ever if that is negative: its status, or COHORT_NOT_OVER.
cohort_status cohort_wait(cohort_request* request, int64_t timeout_ns);
/// The same for the first of several of one world to be over: which one, and its status. Null is passed over.
cohort_status cohort_wait_any(cohort_request* const* requests, size_t count, int64_t timeout_ns,
                              size_t* index);
/// Asks it to end with COHORT_CANCELLED, which gives its communicator up, unless it had not begun.
cohort_status cohort_cancel(cohort_request* request);
/// Calls it once the request is over, in some thread of the library's, or now. It is short, does not wait,
/// and calls nothing of cohort's: it wakes whoever does.
cohort_status cohort_when_over(cohort_request* request, void (*callback)(void* context), void* context);
/// The rank that a message is from, once it is over.
uint32_t cohort_request_from(const cohort_request* request);
/// Frees one that is over. One that is not is left as it is: COHORT_INVALID_ARGUMENT.
cohort_status cohort_request_free(cohort_request* request);

#ifdef __cplusplus
}
#endif
