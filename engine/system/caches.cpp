// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/caches.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace cohort::caches {
namespace {

constexpr std::size_t kUsualCoreBytes = std::size_t{1} << 20;
constexpr std::size_t kUsualLastLevelBytes = std::size_t{32} << 20;

std::string word_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

/// As the kernel writes it: "32768K".
std::size_t parse_size(const std::string& text) {
  std::size_t number = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && number < (std::size_t{1} << 40); ++at)
    number = number * 10 + static_cast<std::size_t>(text[at] - '0');
  if (at == text.size()) return number;
  if (text[at] == 'K') return number << 10;
  return text[at] == 'M' ? number << 20 : 0;
}

/// Of the core that runs this: all are alike but for the large and small cores of a few processors.
const std::vector<Cache>& own_caches() {
  static const std::vector<Cache> found = [] {
    const int core = std::max(0, ::sched_getcpu());
    return read_caches("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/cache");
  }();
  return found;
}

std::optional<std::size_t> bytes_at(unsigned level) {
  for (const Cache& cache : own_caches())
    if (cache.level == level) return cache.bytes;
  return std::nullopt;
}

/// Where sysfs says nothing, as in some containers.
std::size_t ask_system(int what, std::size_t otherwise) {
  const long found = ::sysconf(what);
  return found > 0 ? static_cast<std::size_t>(found) : otherwise;
}

}  // namespace

std::vector<Cache> read_caches(const std::filesystem::path& of_core) {
  std::vector<Cache> caches;
  for (unsigned index = 0;; ++index) {
    const std::filesystem::path place = of_core / ("index" + std::to_string(index));
    const std::string type = word_in(place / "type");
    if (type.empty()) return caches;
    const Cache cache{static_cast<unsigned>(parse_size(word_in(place / "level"))),
                      parse_size(word_in(place / "size"))};
    if (type != "Instruction" && cache.bytes != 0) caches.push_back(cache);
  }
}

std::size_t core_bytes() {
  const std::optional<std::size_t> found = bytes_at(2);
  return found ? *found : ask_system(_SC_LEVEL2_CACHE_SIZE, kUsualCoreBytes);
}

std::size_t last_level_bytes() {
  std::size_t most = 0;
  for (const Cache& cache : own_caches()) most = std::max(most, cache.bytes);
  return most != 0 ? most : ask_system(_SC_LEVEL3_CACHE_SIZE, kUsualLastLevelBytes);
}

}  // namespace cohort::caches
