// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <system_error>

#include <cohort/bench/peers/board.h>
#include <cohort/bench/peers/options.h>

namespace cohort::peers {

using RankFunction = std::function<void(int rank, Board& board)>;

/// The status of one rank's process. Ends with _exit: a library's threads need not be told.
[[noreturn]] inline void run_rank(const char* name, int rank, const Options& options, Board& board,
                                  const RankFunction& function) {
  int status = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(options.timeout_s);
  try {
    function(rank, board);
  } catch (const std::exception& error) {
    board.failed = true;
    std::fprintf(stderr, "%s, rank %d: %s\n", name, rank, error.what());
    status = 3;
  }
  std::fflush(stdout);
  _exit(status);
}

/// Runs the function in a process for every rank. The first status that is not 0.
inline int run_ranks(const char* name, const Options& options, const RankFunction& function) {
  Board& board = *Board::create().first;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) run_rank(name, rank, options, board, function);
  }
  int worst = 0;
  int status = 0;
  while (wait(&status) > 0) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code != 0) board.failed = true;
    if (worst == 0) worst = code;
  }
  return worst;
}

}  // namespace cohort::peers
