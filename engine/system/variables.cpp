// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/variables.h>

#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <utility>

namespace cohort::environment {
namespace {

constexpr std::string_view kPrefix = "COHORT_";
constexpr auto kVariables = std::to_array<std::string_view>({
    "COHORT_ADDR",
    "COHORT_ALGO",
    "COHORT_AUTH",
    "COHORT_BENCH_BOARD_FD",
    "COHORT_BUFFSIZE",
    "COHORT_CACHE",
    "COHORT_CACHE_REFRESH",
    "COHORT_CMA",
    "COHORT_COMPUTE_THREADS",
    "COHORT_COPY_THREADS",
    "COHORT_DEBUG",
    "COHORT_DETERMINISM",
    "COHORT_GROUP_BUFFSIZE",
    "COHORT_HCCL_DEVICES",
    "COHORT_HEAPSIZE",
    "COHORT_HOSTS_PER_SWITCH",
    "COHORT_HOST_BANDWIDTH",
    "COHORT_HOST_ID",
    "COHORT_HOST_TIMEOUT",
    "COHORT_HUGEPAGES",
    "COHORT_IB_GID_INDEX",
    "COHORT_IB_HCA",
    "COHORT_IB_QPS_PER_CONNECTION",
    "COHORT_IB_RETRY_CNT",
    "COHORT_IB_SL",
    "COHORT_IB_TC",
    "COHORT_IB_TIMEOUT",
    "COHORT_IO",
    "COHORT_JOB",
    "COHORT_JOIN_TIMEOUT",
    "COHORT_LOCAL_RANK",
    "COHORT_LOCAL_SIZE",
    "COHORT_MACHINE_ID",
    "COHORT_MPI_ERRORS",
    "COHORT_NAME",
    "COHORT_PORT_RANGE",
    "COHORT_RANK",
    "COHORT_RANK_TABLE",
    "COHORT_SECRET",
    "COHORT_SECRET_FD",
    "COHORT_SECRET_FILE",
    "COHORT_SIZE",
    "COHORT_SOCKET_IFNAME",
    "COHORT_SPIN_US",
    "COHORT_TCP_CONNECTIONS",
    "COHORT_TIMEOUT",
    "COHORT_TLS",
    "COHORT_TORCH",
    "COHORT_TRANSPORT",
    "COHORT_WARN_AFTER",
});
/// Letters that are wrong, missing or too many in what is still taken for a slip.
constexpr std::size_t kMostSlips = 2;

/// How many letters have to be put in, taken out or replaced to make one of the other (Levenshtein).
std::size_t slips_between(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::span<const std::string_view> variables() noexcept { return kVariables; }

std::optional<std::string_view> nearest_name(std::string_view name, std::span<const std::string_view> names) {
  const auto slips = [name](std::string_view known) { return slips_between(name, known); };
  const auto nearest = std::ranges::min_element(names, {}, slips);
  if (nearest == names.end() || *nearest == name || slips(*nearest) > kMostSlips) return std::nullopt;
  return *nearest;
}

std::vector<std::string> misspelt_variables() {
  std::vector<std::string> complaints;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix)) continue;
    if (const std::optional<std::string_view> nearest = nearest_name(name, kVariables))
      complaints.push_back(fmt::format("{} is set and means nothing; {} may be meant", name, *nearest));
  }
  return complaints;
}

void warn_of_misspelt_variables(unsigned rank) {
  static std::once_flag once;
  if (rank != 0) return;
  std::call_once(once, [] {
    for (const std::string& complaint : misspelt_variables()) log(LogLevel::warn, "{}", complaint);
  });
}

}  // namespace cohort::environment
