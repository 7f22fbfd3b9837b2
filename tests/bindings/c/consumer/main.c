// SPDX-License-Identifier: Apache-2.0
#include <cohort_c.h>
#include <stdio.h>

int main(void) {
  cohort_comm* comm = NULL;
  float grad[4] = {1, 1, 1, 1};
  cohort_status status = cohort_join(NULL, &comm);  // by what the environment says
  if (status == COHORT_OK)
    status = cohort_all_reduce(comm, grad, grad, 4, COHORT_FLOAT32, COHORT_SUM, NULL, NULL);
  if (status == COHORT_OK)
    printf("rank %u of %u: %g\n", (unsigned)cohort_rank(comm), (unsigned)cohort_size(comm), grad[0]);
  else
    fprintf(stderr, "%s\n", cohort_error_text());
  cohort_free(comm);
  return status;
}
