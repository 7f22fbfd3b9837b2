// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/descriptor_limit.h>

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace cohort::descriptor_limit {

std::size_t current() noexcept {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::size_t count_open() {
  std::error_code failure;
  const std::filesystem::directory_iterator begin("/proc/self/fd", failure);
  if (failure) return 0;  // without /proc the kernel tells when there are too many
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator())) - 1;
}

std::size_t raise_to(std::size_t wanted) noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlimit higher{.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max), .rlim_max = limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &higher) == 0 ? higher.rlim_cur : limit.rlim_cur;
}

}  // namespace cohort::descriptor_limit
