/* SPDX-License-Identifier: Apache-2.0 */
/* A program of MPI, compiled by MPICH's mpicc, that knows nothing of cohort. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "not so: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Not commutative: the last that is not zero. */
static void last_of(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i)
    if (((int*)inout)[i] == 0) ((int*)inout)[i] = ((int*)in)[i];
}

static void test_collectives(int rank, int size) {
  double sum = rank + 1.0, total = 0;
  MPI_Allreduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  check(total == size * (size + 1) / 2.0, "the sum of all ranks");
  struct {
    double value;
    int rank;
  } own = {-rank, rank}, least;
  MPI_Allreduce(&own, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  check(least.rank == size - 1 && least.value == 1.0 - size, "the least, and whose it is");
  MPI_Op op;
  MPI_Op_create(last_of, 0, &op);
  int value = rank + 1, last = 0;
  MPI_Allreduce(&value, &last, 1, MPI_INT, op, MPI_COMM_WORLD);
  check(last == size, "an operation of the program's, in rank order");
  MPI_Op_free(&op);
  int* all = malloc(sizeof(int) * (size_t)size);
  MPI_Request request;
  MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < size; ++i) check(all[i] == i, "an all-gather that was started");
  free(all);
}

/* A column of a matrix to the next rank, whose length it asks for. */
static void test_messages(int rank, int size) {
  double matrix[4][4], column[4];
  for (int i = 0; i < 16; ++i) matrix[i / 4][i % 4] = rank * 100 + i;
  MPI_Datatype type;
  MPI_Type_vector(4, 1, 4, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  MPI_Request request;
  MPI_Isend(&matrix[0][1], 1, type, (rank + 1) % size, 7, MPI_COMM_WORLD, &request);
  MPI_Status status;
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  int count = 0;
  MPI_Get_count(&status, MPI_DOUBLE, &count);
  check(count == 4 && status.MPI_TAG == 7, "what a probe tells");
  MPI_Recv(column, 4, MPI_DOUBLE, status.MPI_SOURCE, 7, MPI_COMM_WORLD, &status);
  for (int i = 0; i < 4; ++i) check(column[i] == status.MPI_SOURCE * 100 + 4 * i + 1, "a column");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Type_free(&type);
}

static void test_communicators(int rank, int size) {
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  int own = 0, members = 0;
  MPI_Comm_rank(half, &own);
  MPI_Comm_size(half, &members);
  check(members == (size + 1 - rank % 2) / 2, "the size of a half");
  check(own == members - 1 - rank / 2, "ranks of a half in the order of their keys");
  MPI_Comm_free(&half);
  check(half == MPI_COMM_NULL, "a communicator that was freed");
}

/* Elements of an array lie as the compiler has them; of a datatype that is freed, a persistent request keeps what
   it is. */
static void test_datatypes(int rank) {
  struct {
    double value;
    int number;
  } own[2] = {{1.5, 2}, {3.5, 4}}, got[2] = {{0, 0}, {0, 0}};
  int lengths[2] = {1, 1};
  MPI_Aint places[2] = {0, sizeof(double)};
  MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT}, type, other;
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_get_extent(type, &lower, &extent);
  check(lower == 0 && extent == sizeof own[0], "the extent of a struct");
  MPI_Request requests[2];
  MPI_Send_init(own, 2, type, rank, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(got, 2, type, rank, 5, MPI_COMM_WORLD, &requests[1]);
  MPI_Type_free(&type);
  MPI_Type_contiguous(1, MPI_CHAR, &other);
  MPI_Startall(2, requests);
  MPI_Status statuses[2];
  MPI_Waitall(2, requests, statuses);
  for (int i = 0; i < 2; ++i)
    check(got[i].value == own[i].value && got[i].number == own[i].number, "an array of structs");
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  MPI_Type_free(&other);
}

/* A receive that is cancelled at some moment has its message, or leaves it to the next one. */
static void test_cancelling(int rank, int size) {
  enum { kInts = 1 << 20, kRounds = 20 };
  if (size < 2 || rank > 1) return;
  int* data = malloc(sizeof(int) * kInts);
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kInts; ++i) data[i] = rank == 1 ? round : -1;
    if (rank == 1) {
      MPI_Send(data, kInts, MPI_INT, 0, 9, MPI_COMM_WORLD);
      continue;
    }
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(data, kInts, MPI_INT, 1, 9, MPI_COMM_WORLD, &request);
    int is_over = 0, was_cancelled = 0;
    for (int i = 0; i < round && !is_over; ++i) MPI_Request_get_status(request, &is_over, &status);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &was_cancelled);
    if (was_cancelled) MPI_Recv(data, kInts, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(data[0] == round && data[kInts - 1] == round, "a message whose receive was to be cancelled");
  }
  free(data);
}

/* Attributes: a function that copies one sets another meanwhile. */
static int second_key;
static int copy_and_set(MPI_Comm comm, int key, void* extra, void* value, void* copy, int* flag) {
  (void)key;
  (void)extra;
  MPI_Comm_set_attr(comm, second_key, value);
  *(void**)copy = value;
  *flag = 1;
  return MPI_SUCCESS;
}
static void test_attributes(void) {
  int key = 0, flag = 0, own = 0;
  void* value = NULL;
  MPI_Comm made;
  MPI_Comm_create_keyval(copy_and_set, MPI_COMM_NULL_DELETE_FN, &key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &second_key, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, &own);
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  MPI_Comm_get_attr(made, key, &value, &flag);
  check(flag && value == &own, "an attribute of a duplicate");
  MPI_Comm_get_attr(MPI_COMM_WORLD, second_key, &value, &flag);
  check(flag && value == &own, "an attribute that was set while another was copied");
  /* Not freed: MPI_Finalize closes it, once what is sent there has arrived. */
  MPI_Request request;
  MPI_Isend(&own, 1, MPI_INT, 0, 1, made, &request);
  MPI_Request_free(&request);
  int rank = 0, size = 0;
  MPI_Comm_rank(made, &rank);
  MPI_Comm_size(made, &size);
  for (int i = 0; i < size && rank == 0; ++i)
    MPI_Recv(&own, 1, MPI_INT, MPI_ANY_SOURCE, 1, made, MPI_STATUS_IGNORE);
}

/* A message that is longer than its buffer has an error class of its own; what failed is closed all the same. */
static void test_truncation(void) {
  for (int is_started = 0; is_started < 2; ++is_started) {
    int sent[4] = {1, 2, 3, 4}, got[2], code = 0, class = 0;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Send(sent, 4, MPI_INT, 0, 1, comm);
    if (is_started) {
      MPI_Request request;
      code = MPI_Irecv(got, 2, MPI_INT, 0, 1, comm, &request);
      if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      code = MPI_Recv(got, 2, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    }
    MPI_Error_class(code, &class);
    check(class == MPI_ERR_TRUNCATE, "the class of a message that is too long");
  }
}

/* Called where cohort runs, which this ends. */
static void give_up(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)in, (void)inout, (void)count, (void)type;
  MPI_Abort(MPI_COMM_WORLD, 5);
}
static void abort_in_operation(void) {
  MPI_Op op;
  MPI_Op_create(give_up, 1, &op);
  int value = 1, all = 0;
  MPI_Allreduce(&value, &all, 1, MPI_INT, op, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "fatal") == 0) MPI_Bcast(&rank, 1, MPI_INT, size, MPI_COMM_WORLD);
  if (argc > 1 && strcmp(argv[1], "in_operation") == 0) abort_in_operation();
  if (argc > 1 && strcmp(argv[1], "code_256") == 0) MPI_Abort(MPI_COMM_WORLD, 256);
  test_collectives(rank, size);
  test_messages(rank, size);
  test_communicators(rank, size);
  test_datatypes(rank);
  test_cancelling(rank, size);
  test_attributes();
  test_truncation();
  printf("all is well among %d\n", size);
  return MPI_Finalize();
}
