// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/mpi_library.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/launch/own_program.h>

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libmpi.so.12";
/// From the folder of the command: of a build, of an installation, and in the Python package of a wheel.
constexpr const char* kPlaces[] = {"../lib/cohort/mpi", "../" COHORT_LIBDIR "/cohort/mpi", "../mpi"};

fs::path find_folder() {
  const fs::path own = fs::path(own_program("")).parent_path();
  for (const char* const place : kPlaces) {
    std::error_code failure;
    const fs::path folder = fs::weakly_canonical(own / place, failure);
    if (!failure && fs::exists(folder / kLibrary, failure)) return folder;
  }
  throw Error(
      ErrorKind::Unsupported,
      fmt::format("--mpi: there is no {} beside {}: build it with -DCOHORT_BUILD_MPI=ON, or install the "
                  "component mpi",
                  kLibrary, own.string()));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> mpi_variables() {
  const fs::path folder = find_folder();
  std::string path = folder.string();
  if (const auto before = environment::text("LD_LIBRARY_PATH")) path += ":" + *before;
  return {
      {"LD_LIBRARY_PATH", path}, {"MPI4PY_LIBMPI", (folder / kLibrary).string()}, {"MPI4PY_MPIABI", "mpich"}};
}

}  // namespace cohort
