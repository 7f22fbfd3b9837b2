// SPDX-License-Identifier: Apache-2.0
//
// oneCCL's collectives (CPU backend) under the method of measure.h; starts its own ranks. The environment
// chooses its transport (see bench/suite/programs.py); --transport only names it in the output. It has no
// send and recv for host memory.

#include <stdlib.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <oneapi/ccl.hpp>

#include <cohort/bench/peers/measure.h>
#include <cohort/bench/peers/ranks.h>

namespace {

using namespace cohort::peers;

/// How rank 0 tells the others where it is.
struct Meeting {
  std::atomic<bool> is_set{false};
  ccl::kvs::address_type address{};

  static Meeting& create() {
    void* memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return *new (memory) Meeting;
  }
};

ccl::communicator connect(int rank, int ranks, Meeting& meeting) {
  setenv("CCL_PROCESS_LAUNCHER", "none", 1);
  setenv("CCL_LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("CCL_LOCAL_SIZE", std::to_string(ranks).c_str(), 1);
  ccl::init();
  if (rank == 0) {
    const auto store = ccl::create_main_kvs();
    meeting.address = store->get_address();
    meeting.is_set.store(true, std::memory_order_release);
    return ccl::create_communicator(ranks, rank, store);
  }
  while (!meeting.is_set.load(std::memory_order_acquire)) sched_yield();
  return ccl::create_communicator(ranks, rank, ccl::create_kvs(meeting.address));
}

Point make_point(const ccl::communicator& comm, Collective collective, std::size_t bytes, float* in,
                 float* out) {
  constexpr auto kType = ccl::datatype::float32;
  constexpr auto kSum = ccl::reduction::sum;
  const Shape shape = shape_of(collective, bytes, comm.size());
  const std::size_t share = shape.in / static_cast<std::size_t>(comm.size());
  Point point{collective, bytes, {in, shape.in}, {out, shape.out}, {}};
  switch (collective) {
    case Collective::barrier: point.operation = [&] { ccl::barrier(comm).wait(); }; break;
    case Collective::broadcast:
      point.out = point.in;
      point.operation = [=, &comm] { ccl::broadcast(in, shape.in, kType, 0, comm).wait(); };
      break;
    case Collective::all_reduce:
      point.operation = [=, &comm] { ccl::allreduce(in, out, shape.in, kType, kSum, comm).wait(); };
      break;
    case Collective::all_gather: {
      const std::vector<std::size_t> counts(static_cast<std::size_t>(comm.size()), shape.in);
      point.operation = [=, &comm] { ccl::allgatherv(in, shape.in, out, counts, kType, comm).wait(); };
      break;
    }
    case Collective::reduce_scatter:
      point.operation = [=, &comm] { ccl::reduce_scatter(in, out, shape.out, kType, kSum, comm).wait(); };
      break;
    case Collective::reduce:
      point.operation = [=, &comm] { ccl::reduce(in, out, shape.in, kType, kSum, 0, comm).wait(); };
      break;
    case Collective::all_to_all:
      point.operation = [=, &comm] { ccl::alltoall(in, out, share, kType, comm).wait(); };
      break;
    default: throw NotMeasured("not measured with oneCCL");
  }
  return point;
}

/// Where there is a core for each rank, each has its own.
void bind_to_core(int rank, int ranks) {
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  if (CPU_COUNT(&usable) < ranks) return;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable) || rank-- > 0) continue;
    CPU_ZERO(&usable);
    CPU_SET(cpu, &usable);
    sched_setaffinity(0, sizeof usable, &usable);
    return;
  }
}

void measure_all(int rank, const Options& options, Board& board, Meeting& meeting) {
  bind_to_core(rank, options.ranks);
  const ccl::communicator comm = connect(rank, options.ranks, meeting);
  const auto barrier = [&] { ccl::barrier(comm).wait(); };
  Measurement measurement(options, board, {"oneccl", rank, options.ranks, Waiting::awake, barrier, {}});
  const std::size_t largest = largest_elements(options, options.ranks);
  const Buffer in(largest);
  const Buffer out(largest);
  for_each_point(options, measurement, [&](Collective collective, std::size_t bytes) {
    const Point point = make_point(comm, collective, bytes, in.data(), out.data());
    measurement.print(point, measurement.measure(point));
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options(std::span(argv, static_cast<std::size_t>(argc)));
    Meeting& meeting = Meeting::create();
    return run_ranks("oneccl", options,
                     [&](int rank, Board& board) { measure_all(rank, options, board, meeting); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), kUsage);
    return 3;
  }
}
