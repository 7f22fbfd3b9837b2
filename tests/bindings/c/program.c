// SPDX-License-Identifier: Apache-2.0
// Every function of cohort_c.h from C11, on every rank of a world of four, or another even number.
#include <cohort_c.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(bool is_so, const char* what, int line) {
  if (is_so) return;
  fprintf(stderr, "program.c:%d: %s; the last error: %s\n", line, what, cohort_error_text());
  exit(1);
}
#define EXPECT(so) expect((so), #so, __LINE__)
#define OK(call) expect((call) == COHORT_OK, #call, __LINE__)

static cohort_comm* comm;
static uint32_t me;
static uint32_t ranks;

enum { kCount = 5, kMost = 16 };

static void fill(double* data, size_t count, double value) {
  for (size_t i = 0; i < count; ++i) data[i] = value;
}
static bool all_are(const double* data, size_t count, double value) {
  for (size_t i = 0; i < count; ++i)
    if (data[i] != value) return false;
  return true;
}

static void combining_calls(void) {
  const double sum = ranks * (ranks + 1) / 2.0;
  double in[kMost * kCount];
  double out[kMost * kCount];
  fill(in, ranks * kCount, me + 1.0);
  OK(cohort_all_reduce(comm, in, out, kCount, COHORT_FLOAT64, COHORT_SUM, NULL, NULL));
  EXPECT(all_are(out, kCount, sum));
  const cohort_how half = {.bytes = sizeof half, .factor = 0.5};
  OK(cohort_all_reduce(comm, in, out, kCount, COHORT_FLOAT64, COHORT_SCALED_SUM, &half, NULL));
  EXPECT(all_are(out, kCount, sum / 2));
  const cohort_how ring = {.bytes = sizeof ring, .algorithm = "ring", .timeout_ns = 30000000000};
  memcpy(out, in, sizeof out);
  OK(cohort_all_reduce(comm, out, out, kCount, COHORT_FLOAT64, COHORT_MAX, &ring, NULL));
  EXPECT(all_are(out, kCount, ranks));
  OK(cohort_reduce(comm, in, me == 1 ? out : NULL, kCount, COHORT_FLOAT64, COHORT_MIN, 1, NULL, NULL));
  EXPECT(me != 1 || all_are(out, kCount, 1));
  OK(cohort_reduce_scatter(comm, in, out, kCount, COHORT_FLOAT64, COHORT_SUM, NULL, NULL));
  EXPECT(all_are(out, kCount, sum));
  OK(cohort_scan(comm, in, out, kCount, COHORT_FLOAT64, COHORT_SUM, NULL, NULL));
  EXPECT(all_are(out, kCount, (me + 1) * (me + 2) / 2.0));
  fill(out, kCount, -1);
  OK(cohort_exclusive_scan(comm, in, out, kCount, COHORT_FLOAT64, COHORT_SUM, NULL, NULL));
  EXPECT(all_are(out, kCount, me == 0 ? -1 : me * (me + 1) / 2.0));
}

static void moving_calls(void) {
  double in[kMost * kCount];
  double out[kMost * kCount];
  OK(cohort_barrier(comm, NULL, NULL));
  fill(out, kCount, me);
  OK(cohort_broadcast(comm, out, kCount, COHORT_FLOAT64, 2, NULL, NULL));
  EXPECT(all_are(out, kCount, 2));
  fill(in, kCount, me);
  OK(cohort_all_gather(comm, in, out, kCount, COHORT_FLOAT64, NULL, NULL));
  for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT(all_are(out + rank * kCount, kCount, rank));
  OK(cohort_gather(comm, in, me == 0 ? out : NULL, kCount, COHORT_FLOAT64, 0, NULL, NULL));
  EXPECT(me != 0 || all_are(out + kCount, kCount, 1));
  for (uint32_t rank = 0; rank < ranks; ++rank) fill(in + rank * kCount, kCount, 10 * me + rank);
  OK(cohort_scatter(comm, me == 1 ? in : NULL, out, kCount, COHORT_FLOAT64, 1, NULL, NULL));
  EXPECT(all_are(out, kCount, 10 + me));
  OK(cohort_all_to_all(comm, in, out, kCount, COHORT_FLOAT64, NULL, NULL));
  for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT(all_are(out + rank * kCount, kCount, 10 * rank + me));
}

/// Rank r has r + 1 elements.
static void calls_with_counts(void) {
  size_t counts[kMost];
  size_t matrix[kMost * kMost];
  size_t sum = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) sum += counts[rank] = rank + 1;
  double in[kMost * kMost];
  double out[kMost * kMost];
  fill(in, sum, me);
  OK(cohort_all_gather_v(comm, in, out, counts, COHORT_FLOAT64, NULL, NULL));
  EXPECT(out[0] == 0 && out[1] == 1 && out[2] == 1 && out[sum - 1] == ranks - 1);
  OK(cohort_gather_v(comm, in, out, counts, COHORT_FLOAT64, 1, NULL, NULL));
  EXPECT(me != 1 || out[sum - 1] == ranks - 1);
  fill(in, sum, 1);
  OK(cohort_reduce_scatter_v(comm, in, out, counts, COHORT_FLOAT64, COHORT_SUM, NULL, NULL));
  EXPECT(all_are(out, me + 1, ranks));
  fill(in, sum, me);
  OK(cohort_scatter_v(comm, in, out, counts, COHORT_FLOAT64, 2, NULL, NULL));
  EXPECT(all_are(out, me + 1, 2));
  // Everybody gives r + 1 elements to rank r, and so gets me + 1 of each.
  size_t recv_counts[kMost];
  for (uint32_t rank = 0; rank < ranks; ++rank) recv_counts[rank] = me + 1;
  OK(cohort_all_to_all_v(comm, in, counts, out, recv_counts, COHORT_FLOAT64, NULL, NULL));
  for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT(all_are(out + rank * (me + 1), me + 1, rank));
  for (uint32_t i = 0; i < ranks * ranks; ++i) matrix[i] = counts[i % ranks];
  fill(out, ranks * (me + 1), -1);
  OK(cohort_all_to_all_vc(comm, in, out, matrix, COHORT_FLOAT64, NULL, NULL));
  for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT(all_are(out + rank * (me + 1), me + 1, rank));
}

static void several_tensors(void) {
  double small[2];
  double large[3000];
  const cohort_tensor tensors[] = {{small, 2}, {large, 3000}};
  fill(small, 2, 1);
  fill(large, 3000, me);
  OK(cohort_call_on_tensors(comm, "all_reduce", NULL, tensors, 2, COHORT_FLOAT64, COHORT_SUM, 0, NULL, NULL));
  EXPECT(all_are(small, 2, ranks) && all_are(large, 3000, ranks * (ranks - 1) / 2.0));
  fill(small, 2, me);
  OK(cohort_call_on_tensors(comm, "broadcast", NULL, tensors, 2, COHORT_FLOAT64, COHORT_SUM, 1, NULL, NULL));
  EXPECT(all_are(small, 2, 1));
}

static void messages(void) {
  const uint32_t right = (me + 1) % ranks;
  const uint32_t left = (me + ranks - 1) % ranks;
  int64_t mine = me;
  int64_t other = -1;
  cohort_request* sending = NULL;
  OK(cohort_send(comm, &mine, sizeof mine, right, 7, NULL, &sending));
  OK(cohort_recv(comm, &other, sizeof other, left, 7, NULL, NULL));
  OK(cohort_wait(sending, -1));
  OK(cohort_request_free(sending));
  EXPECT(other == left);
  if (me != 0) {
    OK(cohort_send(comm, &mine, sizeof mine, 0, 8, NULL, NULL));
    return;
  }
  for (uint32_t i = 1; i < ranks; ++i) {
    uint32_t from = 0;
    OK(cohort_recv_any(comm, &other, sizeof other, 8, &from, NULL, NULL));
    EXPECT(from != 0 && other == from);
  }
}

static void mark(void* context) { *(_Atomic int*)context = 1; }

static void requests(void) {
  enum { kRequests = 3 };
  double data[kRequests][kCount];
  cohort_request* all[kRequests];
  for (int i = 0; i < kRequests; ++i) {
    fill(data[i], kCount, i);
    OK(cohort_all_reduce(comm, data[i], data[i], kCount, COHORT_FLOAT64, COHORT_SUM, NULL, &all[i]));
  }
  for (int left = kRequests; left > 0; --left) {
    size_t index = kRequests;
    OK(cohort_wait_any(all, kRequests, 30000000000, &index));
    EXPECT(index < kRequests && all_are(data[index], kCount, (double)index * ranks));
    OK(cohort_request_free(all[index]));
    all[index] = NULL;
  }
  // One that cannot be over yet, and tells when it is.
  _Atomic int is_told = 0;
  char byte = 0;
  cohort_request* one = NULL;
  int32_t is_over = 1;
  OK(cohort_recv(comm, &byte, 1, me ^ 1, 9, NULL, &one));
  OK(cohort_when_over(one, mark, (void*)&is_told));
  EXPECT(cohort_wait(one, 1000000) == COHORT_NOT_OVER);
  EXPECT(cohort_wait_any(&one, 1, 0, NULL) == COHORT_NOT_OVER);
  OK(cohort_test(one, &is_over));
  EXPECT(!is_over && !is_told && cohort_request_free(one) == COHORT_INVALID_ARGUMENT);
  OK(cohort_barrier(comm, NULL, NULL));
  OK(cohort_send(comm, &byte, 1, me ^ 1, 9, NULL, NULL));
  while (!is_over) OK(cohort_test(one, &is_over));
  OK(cohort_wait(one, -1));
  while (!is_told) continue;
  EXPECT(cohort_request_from(one) == (me ^ 1));
  OK(cohort_request_free(one));
}

static void groups_and_memory(void) {
  cohort_comm* odd = NULL;
  cohort_comm* pair = NULL;
  OK(cohort_split(comm, me % 2 == 1 ? 0 : -1, 0, &odd));
  EXPECT((odd != NULL) == (me % 2 == 1));
  const uint32_t members[] = {1, 0};
  if (me < 2) {
    OK(cohort_group(comm, members, 2, "pair", &pair));
    EXPECT(cohort_size(pair) == 2 && cohort_rank(pair) == 1 - me && cohort_world_rank(pair, 0) == 1);
    EXPECT(cohort_world_rank(pair, 2) == UINT32_MAX && strstr(cohort_name(pair), "pair") != NULL);
    OK(cohort_barrier(pair, NULL, NULL));
    OK(cohort_close(pair));
  }
  cohort_free(pair);
  cohort_free(odd);
  cohort_memory* memory = NULL;
  OK(cohort_allocate(comm, 1 << 20, &memory));
  float* const data = cohort_memory_data(memory);
  for (size_t i = 0; i < (1 << 20) / sizeof *data; ++i) data[i] = 1;
  OK(cohort_all_reduce(comm, data, data, (1 << 20) / sizeof *data, COHORT_FLOAT32, COHORT_SUM, NULL, NULL));
  EXPECT(data[0] == (float)ranks);
  cohort_memory_free(memory);
}

static void refusals(void) {
  double data[2] = {1, 2};
  cohort_request* none = (cohort_request*)data;
  EXPECT(cohort_all_reduce(NULL, data, data, 2, COHORT_FLOAT64, COHORT_SUM, NULL, &none) ==
         COHORT_INVALID_ARGUMENT);
  EXPECT(none == NULL && strstr(cohort_error_text(), "cohort_all_reduce: `comm` is null") != NULL);
  EXPECT(cohort_all_reduce(comm, data, data, 2, 77, COHORT_SUM, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_all_reduce(comm, data, data, 2, COHORT_FLOAT64, -1, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_all_reduce(comm, data, data, SIZE_MAX, COHORT_FLOAT64, 0, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_all_reduce(comm, NULL, data, 2, COHORT_FLOAT64, 0, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_all_reduce(comm, data, data, 2, COHORT_FLOAT64, COHORT_BIT_AND, NULL, NULL) ==
         COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_broadcast(comm, data, 2, COHORT_FLOAT64, ranks, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_all_gather_v(comm, data, data, NULL, COHORT_FLOAT64, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_call_on_tensors(comm, "sing", NULL, NULL, 0, 0, 0, 0, NULL, NULL) == COHORT_INVALID_ARGUMENT);
  const cohort_how of_another_version = {.bytes = 4};
  EXPECT(cohort_barrier(comm, &of_another_version, NULL) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_error_rank() == -1 && strstr(cohort_error_text(), "sizeof(cohort_how)") != NULL);
  EXPECT(cohort_wait(NULL, 0) == COHORT_INVALID_ARGUMENT);
  EXPECT(cohort_wait_any(&none, 1, 0, NULL) == COHORT_INVALID_ARGUMENT);
  OK(cohort_request_free(NULL));
  cohort_free(NULL);
  cohort_memory_free(NULL);
  OK(cohort_failure(comm));
  EXPECT(strcmp(cohort_status_name(COHORT_PEER_DIED), "PeerDied") == 0);
  EXPECT(strcmp(cohort_status_name(99), "unknown") == 0);
  EXPECT(cohort_type_bytes(COHORT_BFLOAT16) == 2 && cohort_type_bytes(15) == 0 && cohort_type_bytes(-1) == 0);
  char text[8];
  size_t needed = 0;
  OK(cohort_explain(comm, "all_reduce", COHORT_FLOAT32, 8, text, sizeof text, &needed));
  EXPECT(strlen(text) == 7 && needed > sizeof text);
}

/// The last thing: rank 0 does not come, and whoever waits is told whom for.
static void failures(void) {
  char byte = 0;
  if (me == 0) {
    // Whoever is told first gives the communicator up for all: only when all are here.
    for (uint32_t rank = 1; rank < ranks; ++rank) OK(cohort_recv(comm, &byte, 1, rank, 10, NULL, NULL));
    OK(cohort_close(comm));
    return;
  }
  OK(cohort_send(comm, &byte, 1, 0, 10, NULL, NULL));
  const cohort_how soon = {.bytes = sizeof soon, .timeout_ns = 20000000000};
  cohort_request* request = NULL;
  OK(cohort_barrier(comm, &soon, &request));
  const cohort_status status = cohort_wait(request, -1);
  EXPECT(status == COHORT_PEER_ABORTED && cohort_error_rank() == 0);
  EXPECT(strncmp(cohort_error_text(), "PeerAborted: ", 13) == 0);
  char told[64];
  (void)snprintf(told, sizeof told, "during barrier #%lld ", (long long)cohort_error_sequence());
  EXPECT(strstr(cohort_error_text(), told) != NULL);
  OK(cohort_request_free(request));
  EXPECT(cohort_failure(comm) == status);
}

int main(void) {
  const cohort_options options = {.bytes = sizeof options, .timeout_ns = 60000000000};
  OK(cohort_join(&options, &comm));
  me = cohort_rank(comm);
  ranks = cohort_size(comm);
  EXPECT(ranks >= 4 && ranks % 2 == 0 && ranks <= kMost && strcmp(cohort_name(comm), "world") == 0);
  combining_calls();
  moving_calls();
  calls_with_counts();
  several_tensors();
  messages();
  requests();
  groups_and_memory();
  refusals();
  failures();
  cohort_free(comm);
  printf("rank %u of %u is through with cohort %s over C\n", (unsigned)me, (unsigned)ranks, cohort_version());
  return 0;
}
