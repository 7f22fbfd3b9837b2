// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tools/doctor/finding.h>

#include <cstdint>
#include <optional>
#include <string>

/// What `cohort doctor` looks at on a host. Each adds what it has found; none throws for what it cannot see.
namespace cohort::doctor {

void check_kernel(Findings& findings);   ///< io_uring, its version, kernel copies, clock, huge pages
void check_limits(Findings& findings);   ///< of this process: descriptors, locked memory, sizes, processes
void check_cgroups(Findings& findings);  ///< of the container: processors, memory, processes
void check_memory(Findings& findings);   ///< what is free, /dev/shm
void check_cores(Findings& findings);    ///< that it may run on, and how busy they are
void check_network(Findings& findings);  ///< interfaces, their MTU, ports, buffers
void check_way_to_rank_0(Findings& findings);
void check_settings(Findings& findings);  ///< COHORT_...: secret, names, values

/// All of them.
[[nodiscard]] Findings check_host();

/// The first line of a file.
[[nodiscard]] std::optional<std::string> first_line(const std::string& path);
/// A number at its beginning.
[[nodiscard]] std::optional<std::uint64_t> number_in(const std::string& path);
/// "64 MiB".
[[nodiscard]] std::string in_units(std::uint64_t bytes);

}  // namespace cohort::doctor
