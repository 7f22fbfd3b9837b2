// SPDX-License-Identifier: Apache-2.0
//
// The method of measure.h for programs in other languages: libpeer_method.so, used by torch_bench.py through
// ctypes. One measurement a process; the calls in the order in which they stand here. A process that fails
// prints why and returns or ends with status 3.

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>

#include <cohort/bench/peers/measure.h>

namespace {

using namespace cohort::peers;

constexpr int kFailed = 3;

struct State {
  Options options;
  Board* board = nullptr;
  std::optional<Measurement> measurement;
};

State& state() {
  static State all;
  return all;
}

int complain(const std::exception& error) {
  std::fprintf(stderr, "peer_method: %s\n", error.what());
  return kFailed;
}

}  // namespace

#define PEER_EXPORT extern "C" __attribute__((visibility("default")))

/// Before the ranks are forked. The number of ranks asked for, or 0 for wrong options.
PEER_EXPORT int peer_parse(int argc, char** argv) {
  try {
    state().options = parse_options(std::span(argv, static_cast<std::size_t>(argc)));
    state().board = Board::create().first;
    return state().options.ranks;
  } catch (const std::exception& error) {
    complain(error);
    return 0;
  }
}

/// In each rank: it ends with its parent, or when a point takes too long. `barrier` is the library's own.
PEER_EXPORT int peer_join(const char* name, int rank, void (*barrier)()) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(state().options.timeout_s);
  try {
    State& all = state();
    all.measurement.emplace(all.options, *all.board,
                            Peer{name, rank, all.options.ranks, Waiting::asleep, barrier, {}});
    return 0;
  } catch (const std::exception& error) {
    return complain(error);
  }
}

/// How a library does a collective: see peer_measure().
enum class Way : int { out_of_place, in_place, none };

/// All points. `prepare` makes `operate` do the collective with these buffers, and tells in which way.
PEER_EXPORT int peer_measure(Way (*prepare)(const char* collective, float* in, std::size_t in_count,
                                            float* out, std::size_t out_count),
                             void (*operate)()) {
  State& all = state();
  try {
    const std::size_t largest = largest_elements(all.options, all.options.ranks);
    const Buffer in(largest);
    const Buffer out(largest);
    for_each_point(all.options, *all.measurement, [&](Collective collective, std::size_t bytes) {
      const Shape shape = shape_of(collective, bytes, all.options.ranks);
      Point point{collective, bytes, {in.data(), shape.in}, {out.data(), shape.out}, operate};
      const Way way = prepare(name_of(collective), in.data(), shape.in, out.data(), shape.out);
      if (way == Way::none) throw NotMeasured("this library has none");
      if (way == Way::in_place) point.out = point.in;
      all.measurement->print(point, all.measurement->measure(point));
    });
    return 0;
  } catch (const std::exception& error) {
    all.board->failed = true;
    return complain(error);
  }
}

/// A rank has died: the others, which would wait for it, give up.
PEER_EXPORT void peer_fail() { state().board->failed = true; }
