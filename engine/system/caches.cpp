// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/caches.h>

#include <cohort/engine/clock.h>
#include <cohort/engine/system/sanitizers.h>
#include <cohort/engine/tuning.h>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace cohort::caches {
namespace {

/// Of a core's own: what it surely has, and what none has more of.
constexpr std::size_t kSureBytes = std::size_t{128} << 10;
constexpr std::size_t kMostCoreBytes = std::size_t{4} << 20;
/// From its own cache a line takes somewhat longer where more pages are read; from the next one longer than
/// this.
constexpr double kStillItsOwn = 2.3;

constexpr std::size_t kLine = 64;
constexpr int kLinesRead = 2048;

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

/// Writes memory and reads some of it again, each line only when the one before has come.
class Rereading {
 public:
  explicit Rereading(std::size_t bytes) : memory_(bytes) {}

  /// Of some tries the shortest: whatever disturbs one makes it longer.
  double line_ns(std::size_t bytes) {
    MonotonicClock clock;
    Duration shortest = Duration::max();
    for (int attempt = 0; attempt < 3; ++attempt) {
      for (std::size_t at = 0; at < bytes; at += kLine) byte(at) = 0;
      const TimePoint start = clock.now();
      read_lines(bytes / kLine);
      shortest = std::min(shortest, clock.now() - start);
    }
    return 1e3 * in_microseconds(shortest) / kLinesRead;
  }

 private:
  /// The place of each depends on what the one before holds, which is zero; Knuth's generator.
  void read_lines(std::size_t lines) {
    std::uint64_t state = lines;
    for (int i = 0; i < kLinesRead; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      state += static_cast<std::uint64_t>(byte((state >> 32) % lines * kLine));
    }
    last_ = state;
  }
  volatile std::uint8_t& byte(std::size_t at) { return memory_[at]; }

  std::vector<std::uint8_t> memory_;
  volatile std::uint64_t last_ = 0;
};

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

std::size_t told_core_bytes() {
  const std::optional<std::size_t> found = bytes_at(2);
  return found ? *found : ask_system(_SC_LEVEL2_CACHE_SIZE, tuning::kCoreCache);
}

std::size_t told_last_level_bytes() {
  std::size_t most = 0;
  for (const Cache& cache : own_caches()) most = std::max(most, cache.bytes);
  return most != 0 ? most : ask_system(_SC_LEVEL3_CACHE_SIZE, tuning::kLastLevelCache);
}

std::size_t found_again(std::size_t told_bytes, const std::function<double(std::size_t bytes)>& line_ns) {
  if (told_bytes <= kSureBytes) return told_bytes;
  const double of_own = line_ns(kSureBytes);
  std::size_t bytes = std::min(told_bytes, kMostCoreBytes);
  while (bytes > kSureBytes && line_ns(bytes) > kStillItsOwn * of_own) bytes /= 2;
  return std::max(bytes, kSureBytes);
}

std::size_t core_bytes() {
  static const std::size_t bytes = [] {
    const std::size_t told = told_core_bytes();
    if (sanitizers::kAddress || sanitizers::kThread) return std::min(told, tuning::kCoreCache);
    Rereading memory(std::clamp(told, kSureBytes, kMostCoreBytes));
    return found_again(told, [&](std::size_t of) { return memory.line_ns(of); });
  }();
  return bytes;
}

std::size_t last_level_bytes() {
  return std::max(core_bytes(), std::min(told_last_level_bytes(), tuning::kLastLevelCache));
}

}  // namespace cohort::caches
