// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/affinity.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/processor.h>

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <fstream>
#include <set>
#include <string>

namespace cohort::affinity {
namespace {

/// The hardware threads of its core, as the kernel writes them; itself where the kernel does not say.
std::string siblings_of(unsigned processor) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", processor));
  std::string siblings;
  return std::getline(file, siblings) ? siblings : std::to_string(processor);
}

}  // namespace

std::vector<unsigned> usable_processors() {
  const std::optional<CoreSet> usable = processor::cores_of_thread();
  if (!usable) throw system_error(errno, "asking for the usable processors");
  return one_of_each_core_first(*usable);
}

std::vector<unsigned> one_of_each_core_first(const CoreSet& processors) {
  std::vector<unsigned> first_of_core;
  std::vector<unsigned> others;
  std::set<std::string> cores;
  for (unsigned processor = 0; processor < kMostCores; ++processor) {
    if (!processors.test(processor)) continue;
    const bool is_first = cores.insert(siblings_of(processor)).second;
    (is_first ? first_of_core : others).push_back(processor);
  }
  first_of_core.insert(first_of_core.end(), others.begin(), others.end());
  return first_of_core;
}

void bind_thread(unsigned processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  if (::sched_setaffinity(0, sizeof only, &only) != 0)
    throw system_error(errno, fmt::format("binding a thread to processor {}", processor));
}

}  // namespace cohort::affinity
