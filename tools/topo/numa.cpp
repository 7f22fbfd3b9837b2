// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/topo/numa.h>

#include <cohort/engine/system/affinity.h>
#include <cohort/engine/system/file_text.h>

#include <fmt/format.h>
#include <unistd.h>

#if COHORT_HAS_HWLOC
#include <hwloc.h>
#endif

#include <memory>
#include <string>

namespace cohort::topo {

#if COHORT_HAS_HWLOC

namespace {

struct Destroy {
  void operator()(hwloc_topology* topology) const noexcept { hwloc_topology_destroy(topology); }
};

std::string list_of(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) return {};
  const std::unique_ptr<char, decltype(&::free)> owned(text, &::free);
  return text;
}

unsigned count_of(hwloc_topology* topology, hwloc_obj_type_t type) {
  const int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? static_cast<unsigned>(count) : 0;
}

}  // namespace

void describe_processors(HostDescription& host) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return;
  const std::unique_ptr<hwloc_topology, Destroy> topology(made);
  if (hwloc_topology_load(made) != 0) return;
  host.packages = count_of(made, HWLOC_OBJ_PACKAGE);
  host.cores = count_of(made, HWLOC_OBJ_CORE);
  for (unsigned i = 0; i < count_of(made, HWLOC_OBJ_NUMANODE); ++i) {
    const hwloc_obj* const node = hwloc_get_obj_by_type(made, HWLOC_OBJ_NUMANODE, i);
    const int cores = hwloc_get_nbobjs_inside_cpuset_by_type(made, node->cpuset, HWLOC_OBJ_CORE);
    host.memories.push_back({node->os_index, static_cast<unsigned>(cores < 0 ? 0 : cores),
                             node->attr->numanode.local_memory, list_of(node->cpuset)});
  }
}

#else

void describe_processors(HostDescription& host) {
  host.cores = static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN));
  for (unsigned i = 0;; ++i) {
    const auto list = file_text(fmt::format("/sys/devices/system/node/node{}/cpulist", i));
    if (!list) break;
    host.memories.push_back({i, 0, 0, list->substr(0, list->find('\n'))});
  }
}

#endif

}  // namespace cohort::topo
