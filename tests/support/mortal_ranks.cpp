// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/mortal_ranks.h>

#include <cohort/engine/assert.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>

namespace cohort::test {
namespace {

constexpr int kThrew = 70;

/// What it throws must not reach the test program whose copy this is.
[[noreturn]] void end_with(const MortalRanks::Life& life, Rank rank, int progress) {
  try {
    ::_exit(life(rank, progress));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u threw: %s\n", unsigned{rank}, error.what());
  } catch (...) {
    std::fprintf(stderr, "rank %u threw what is no exception\n", unsigned{rank});
  }
  ::_exit(kThrew);
}

}  // namespace

MortalRanks::~MortalRanks() {
  for (const pid_t process : processes_) {
    if (process <= 0) continue;
    ::kill(process, SIGKILL);
    (void)::waitpid(process, nullptr, 0);
  }
}

Rank MortalRanks::start(Rank ranks, const Life& life) {
  std::array<int, 2> progress{};
  EXPECT_EQ(::pipe(progress.data()), 0);
  processes_.assign(ranks, -1);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    COHORT_ASSERT(child >= 0, "no process for rank {}: errno {}", rank, errno);
    if (child == 0) end_with(life, rank, progress[1]);
    processes_[rank] = child;
  }
  ::close(progress[1]);
  char byte = 0;
  Rank working = 0;
  while (working < ranks && ::read(progress[0], &byte, 1) == 1) ++working;
  ::close(progress[0]);
  return working;
}

/// To kill(2) and waitpid(2), -1 is every process.
pid_t MortalRanks::process_of(Rank rank) const {
  const pid_t process = processes_.at(rank);
  COHORT_ASSERT(process > 0, "rank {} has ended", rank);
  return process;
}

void MortalRanks::signal(Rank rank, int number) { ::kill(process_of(rank), number); }

int MortalRanks::status_of(Rank rank) {
  int status = 0;
  const pid_t process = process_of(rank);
  EXPECT_EQ(::waitpid(process, &status, 0), process);
  processes_[rank] = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace cohort::test
