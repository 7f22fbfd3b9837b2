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

int main(int argc, char** argv) {
  int rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc > 1 && strcmp(argv[1], "fatal") == 0) MPI_Bcast(&rank, 1, MPI_INT, size, MPI_COMM_WORLD);
  test_collectives(rank, size);
  test_messages(rank, size);
  test_communicators(rank, size);
  printf("all is well among %d\n", size);
  return MPI_Finalize();
}
