// SPDX-License-Identifier: Apache-2.0
//
// Prints the median round trip of a cache line between two cores in ns: what compare records around programs
// that do not measure it themselves.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include <cohort/bench/peers/board.h>

int main() {
  using namespace cohort::peers;
  try {
    Board& board = *Board::create().first;
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    alarm(10);
    StartLine line(board, child == 0 ? 1 : 0, 2, Waiting::awake, {});
    const double round_trip_ns = line.core_round_trip_ns();
    if (child == 0) _exit(0);
    waitpid(child, nullptr, 0);
    std::printf("%.0f\n", round_trip_ns);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "peer_calibrate: %s\n", error.what());
    return 3;
  }
}
