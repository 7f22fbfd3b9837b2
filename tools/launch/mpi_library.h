// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cohort {

/// The variables by which programs of MPI, and mpi4py, find cohort's libmpi.so.12: LD_LIBRARY_PATH, behind
/// which what is in it already stays, MPI4PY_LIBMPI and MPI4PY_MPIABI.
///
/// It lies where it was built or installed with this command. Throws Unsupported where it is not.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> mpi_variables();

}  // namespace cohort
