// SPDX-License-Identifier: Apache-2.0
//
// MPI's collectives under the method of measure.h. Built once with Open MPI and once with MPICH; started by
// their mpirun, whose options choose transport and waiting (see bench/suite/programs.py). --transport only
// names it in the output.

#include <mpi.h>

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cohort/bench/peers/overlap.h>

namespace {

using namespace cohort::peers;

#if defined(OPEN_MPI)
constexpr const char* kPeerName = "openmpi";
#else
constexpr const char* kPeerName = "mpich";
#endif

Board* share_board(int rank) {
  char path[64] = {};
  Board* board = nullptr;
  if (rank == 0) {
    const auto [created, where] = Board::create();
    board = created;
    where.copy(path, sizeof path - 1);
  }
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  return rank == 0 ? board : Board::attach(path);
}

/// Rank 1 returns what it received from rank 0.
std::function<void()> ping_pong(const Point& point) {
  constexpr int kThere = 1;
  constexpr int kBack = 2;
  const int count = static_cast<int>(point.in.size());
  const float* const in = point.in.data();
  float* const out = point.out.data();
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank > 1) return [] {};
  if (rank == 1) {
    return [=] {
      MPI_Recv(out, count, MPI_FLOAT, 0, kThere, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, count, MPI_FLOAT, 0, kBack, MPI_COMM_WORLD);
    };
  }
  return [=] {
    MPI_Send(in, count, MPI_FLOAT, 1, kThere, MPI_COMM_WORLD);
    MPI_Recv(out, count, MPI_FLOAT, 1, kBack, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  };
}

/// The forms with a count for each rank, all of them alike.
std::function<void()> with_counts(Collective collective, const Shape& shape, int ranks, float* in,
                                  float* out) {
  const int in_count = static_cast<int>(shape.in);
  const int out_count = static_cast<int>(shape.out);
  const int block =
      collective == Collective::all_to_all_vc ? in_count / ranks : std::min(in_count, out_count);
  const std::vector<int> counts(static_cast<std::size_t>(ranks), block);
  std::vector<int> places;
  for (int rank = 0; rank < ranks; ++rank) places.push_back(rank * block);
  const auto call = [=](auto function) {
    return std::function<void()>([=] { function(counts.data(), places.data()); });
  };
  switch (collective) {
    case Collective::all_gather_v:
      return call([=](const int* of, const int* at) {
        MPI_Allgatherv(in, in_count, MPI_FLOAT, out, of, at, MPI_FLOAT, MPI_COMM_WORLD);
      });
    case Collective::reduce_scatter_v:
      return call([=](const int* of, const int*) {
        MPI_Reduce_scatter(in, out, of, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      });
    case Collective::gather_v:
      return call([=](const int* of, const int* at) {
        MPI_Gatherv(in, in_count, MPI_FLOAT, out, of, at, MPI_FLOAT, 0, MPI_COMM_WORLD);
      });
    case Collective::scatter_v:
      return call([=](const int* of, const int* at) {
        MPI_Scatterv(in, of, at, MPI_FLOAT, out, out_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      });
    default:
      return call([=](const int* of, const int* at) {
        MPI_Alltoallv(in, of, at, MPI_FLOAT, out, of, at, MPI_FLOAT, MPI_COMM_WORLD);
      });
  }
}

Point make_point(Collective collective, std::size_t bytes, int ranks, float* in, float* out) {
  const Shape shape = shape_of(collective, bytes, ranks);
  const int in_count = static_cast<int>(shape.in);
  const int out_count = static_cast<int>(shape.out);
  Point point{collective, bytes, {in, shape.in}, {out, shape.out}, {}};
  switch (collective) {
    case Collective::barrier: point.operation = [] { MPI_Barrier(MPI_COMM_WORLD); }; break;
    case Collective::broadcast:
      point.out = point.in;
      point.operation = [=] { MPI_Bcast(in, in_count, MPI_FLOAT, 0, MPI_COMM_WORLD); };
      break;
    case Collective::all_reduce:
      point.operation = [=] { MPI_Allreduce(in, out, in_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
      break;
    case Collective::all_gather:
      point.operation = [=] {
        MPI_Allgather(in, in_count, MPI_FLOAT, out, in_count, MPI_FLOAT, MPI_COMM_WORLD);
      };
      break;
    case Collective::reduce_scatter:
      point.operation = [=] {
        MPI_Reduce_scatter_block(in, out, out_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      };
      break;
    case Collective::reduce:
      point.operation = [=] { MPI_Reduce(in, out, in_count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD); };
      break;
    case Collective::all_to_all:
      point.operation = [=] {
        MPI_Alltoall(in, in_count / ranks, MPI_FLOAT, out, out_count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
      };
      break;
    case Collective::send_recv: point.operation = ping_pong(point); break;
    case Collective::gather:
      point.operation = [=] {
        MPI_Gather(in, in_count, MPI_FLOAT, out, in_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      };
      break;
    case Collective::scatter:
      point.operation = [=] {
        MPI_Scatter(in, out_count, MPI_FLOAT, out, out_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      };
      break;
    case Collective::scan:
      point.operation = [=] { MPI_Scan(in, out, in_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
      break;
    case Collective::exclusive_scan:
      point.operation = [=] { MPI_Exscan(in, out, in_count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
      break;
    case Collective::all_gather_v:
    case Collective::reduce_scatter_v:
    case Collective::gather_v:
    case Collective::scatter_v:
    case Collective::all_to_all_vc: point.operation = with_counts(collective, shape, ranks, in, out); break;
  }
  return point;
}

std::vector<Form> forms_of(std::span<const float> in, float* out) {
  const auto request = std::make_shared<MPI_Request>(MPI_REQUEST_NULL);
  const auto start = [=] {
    const int count = static_cast<int>(in.size());
    MPI_Iallreduce(in.data(), out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request.get());
  };
  const auto test = [=] {
    int is_done = 0;
    MPI_Test(request.get(), &is_done, MPI_STATUS_IGNORE);
  };
  const auto wait = [=] { MPI_Wait(request.get(), MPI_STATUS_IGNORE); };
  return {{"MPI_Iallreduce", start, {}, wait}, {"MPI_Iallreduce with MPI_Test", start, test, wait}};
}

void measure_all(const Options& options) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  const auto progress = [] {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
  };
  Measurement measurement(options, *share_board(rank),
                          {kPeerName, rank, ranks, Waiting::awake, barrier, progress});
  const std::size_t largest = largest_elements(options, ranks);
  const Buffer in(largest);
  const Buffer out(largest);
  if (options.overlap) {
    for (const std::size_t bytes : options.sizes_bytes) {
      const Shape shape = shape_of(Collective::all_reduce, bytes, ranks);
      const std::span<float> from(in.data(), shape.in);
      measure_overlap(options, measurement, bytes, from, {out.data(), shape.out}, forms_of(from, out.data()));
    }
    return;
  }
  for_each_point(options, measurement, [&](Collective collective, std::size_t bytes) {
    const Point point = make_point(collective, bytes, ranks, in.data(), out.data());
    measurement.print(point, measurement.measure(point));
  });
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives a launcher that is killed
  MPI_Init(&argc, &argv);
  try {
    const Options options = parse_options(std::span(argv, static_cast<std::size_t>(argc)));
    alarm(options.timeout_s);
    measure_all(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), kUsage);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
