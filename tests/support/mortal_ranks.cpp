// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/mortal_ranks.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace cohort::test {

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
    if (child == 0) ::_exit(life(rank, progress[1]));
    processes_[rank] = child;
  }
  ::close(progress[1]);
  char byte = 0;
  Rank working = 0;
  while (working < ranks && ::read(progress[0], &byte, 1) == 1) ++working;
  ::close(progress[0]);
  return working;
}

void MortalRanks::signal(Rank rank, int number) { ::kill(processes_[rank], number); }

int MortalRanks::status_of(Rank rank) {
  int status = 0;
  EXPECT_EQ(::waitpid(processes_[rank], &status, 0), processes_[rank]);
  processes_[rank] = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace cohort::test
