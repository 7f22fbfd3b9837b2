// SPDX-License-Identifier: Apache-2.0
// What MPItrampoline asks for besides functions that return a code.
#include <cohort/bindings/mpi/trampoline/trampoline.h>

extern "C" double MPI_Wtime();
extern "C" double MPI_Wtick();
extern "C" int cohort_mpi_refuse_missing(const char* function, const char* reason);

namespace cohort::mpi::trampoline {

int refuse_missing(const char* function, const char* reason) noexcept {
  return cohort_mpi_refuse_missing(function, reason);
}

}  // namespace cohort::mpi::trampoline

COHORT_MPI_ENTRY double MPIABI_Wtime() { return MPI_Wtime(); }
COHORT_MPI_ENTRY double MPIABI_Wtick() { return MPI_Wtick(); }
COHORT_MPI_ENTRY MPI_Aint MPIABI_Aint_add(MPI_Aint base, MPI_Aint places) { return base + places; }
COHORT_MPI_ENTRY MPI_Aint MPIABI_Aint_diff(MPI_Aint first, MPI_Aint second) { return first - second; }
COHORT_MPI_ENTRY int MPIABI_Pcontrol(int /*level*/, ...) { return cohort::mpi::abi::kSuccess; }
// No devices: what is in CPU memory is all that is moved.
COHORT_MPI_ENTRY int MPIXABI_Query_cuda_support() { return 0; }
COHORT_MPI_ENTRY int MPIXABI_Query_hip_support() { return 0; }
COHORT_MPI_ENTRY int MPIXABI_Query_ze_support() { return 0; }
/// Nothing of Fortran is here.
COHORT_MPI_ENTRY void mpiwrapper_export_fortran_constants_() {}

// The version of MPIwrapper whose interface this is, and of that interface.
COHORT_MPI_ENTRY const int mpiwrapper_version_major = 2;
COHORT_MPI_ENTRY const int mpiwrapper_version_minor = 11;
COHORT_MPI_ENTRY const int mpiwrapper_version_patch = 1;
COHORT_MPI_ENTRY const int mpiabi_version_major = 2;
COHORT_MPI_ENTRY const int mpiabi_version_minor = 10;
COHORT_MPI_ENTRY const int mpiabi_version_patch = 0;
