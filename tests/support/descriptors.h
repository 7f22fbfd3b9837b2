// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/io/socket.h>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <iterator>
#include <utility>

namespace cohort::test {

/// How many descriptors this process has open: the same before and after, or something leaked.
inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Two connected ends of a Unix stream.
inline std::pair<Descriptor, Descriptor> socket_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The reading end and the writing end.
inline std::pair<Descriptor, Descriptor> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace cohort::test
