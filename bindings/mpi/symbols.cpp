// SPDX-License-Identifier: Apache-2.0
// What programs link to besides the functions that return a code.
#include <cohort/bindings/mpi/entry.h>

#include <chrono>
#include <ratio>

namespace cohort::mpi {

int refuse_missing(const char* function, const char* reason) noexcept {
  return call(function, abi::kCommWorld, [&] {
    fail(abi::kErrUnsupportedOperation,
         fmt::format("cohort does not have {}; its documentation on MPI says what it has", reason));
  });
}

}  // namespace cohort::mpi

/// For libmpiwrapper.so, whose functions are named as MPI's are.
COHORT_MPI_ENTRY int cohort_mpi_refuse_missing(const char* function, const char* reason) {
  return cohort::mpi::refuse_missing(function, reason);
}

using Clock = std::chrono::steady_clock;

COHORT_MPI_ENTRY double MPI_Wtime() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}
COHORT_MPI_ENTRY double MPI_Wtick() {
  return static_cast<double>(Clock::period::num) / static_cast<double>(Clock::period::den);
}
COHORT_MPI_ENTRY int MPI_Pcontrol(int /*level*/, ...) { return cohort::mpi::abi::kSuccess; }
COHORT_MPI_ENTRY MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint places) { return base + places; }
COHORT_MPI_ENTRY MPI_Aint MPI_Aint_diff(MPI_Aint first, MPI_Aint second) { return first - second; }

/// MPI_COMM_DUP_FN and MPI_TYPE_DUP_FN.
COHORT_MPI_ENTRY int MPIR_Dup_fn(int /*object*/, int /*key*/, void* /*extra*/, void* value, void* copy,
                                 int* flag) {
  *static_cast<void**>(copy) = value;
  *flag = 1;
  return cohort::mpi::abi::kSuccess;
}

// Addresses that stand for something; where programs find them.
COHORT_MPI_ENTRY int* const MPI_UNWEIGHTED = reinterpret_cast<int*>(1);
COHORT_MPI_ENTRY int* const MPI_WEIGHTS_EMPTY = reinterpret_cast<int*>(2);
COHORT_MPI_ENTRY MPI_Fint* const MPI_F_STATUS_IGNORE = nullptr;
COHORT_MPI_ENTRY MPI_Fint* const MPI_F_STATUSES_IGNORE = nullptr;
