// SPDX-License-Identifier: Apache-2.0
//
// What this machine's memory, cores and loopback do without any library: from these the suite computes what
// no collective can be faster than (bench/suite/model.py). Two processes on two cores.
//   limits [NEAR_WAIT_MS]
// prints name,bytes,median_us,min_us,rtt_before_ns,rtt_after_ns

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <cohort/bench/limits/bench.h>
#include <cohort/bench/limits/memory.h>
#include <cohort/bench/limits/tcp.h>

namespace {

using namespace cohort::limits;

/// The `side`-th core that this process may use. Throws when there is none: limits need two.
void bind_to_core(int side) {
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || side-- > 0) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    sched_setaffinity(0, sizeof only, &only);
    return;
  }
  throw std::runtime_error("needs two cores");
}

void measure_all(Bench& bench, const Exchange& exchange, std::span<const Connection> connections) {
  measure_signals(bench);
  measure_switch(bench);
  measure_pulls(bench, exchange);
  measure_streams(bench);
  measure_tcp(bench, connections);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr unsigned kTimeoutS = 120;
  try {
    Board& board = *Board::create().first;
    const Exchange exchange;
    const std::array<Connection, 2> connections = {Connection(0), Connection(4 << 20)};
    const pid_t child = fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    const int side = child == 0 ? 1 : 0;
    if (side == 1) prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kTimeoutS);
    bind_to_core(side);
    Bench bench(board, side);
    bench.patience_ns = (argc > 1 ? std::atol(argv[1]) : 0) * std::int64_t{1'000'000};
    measure_all(bench, exchange, connections);
    if (side == 1) _exit(0);
    waitpid(child, nullptr, 0);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "limits: %s\n", error.what());
    return 3;
  }
}
