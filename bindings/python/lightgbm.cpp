// SPDX-License-Identifier: Apache-2.0
// The two functions that LightGBM takes for its network: LGBM_NetworkInitWithFunctions of its c_api.h.
// LightGBM calls them in the thread that trains, outside of its parallel loops, and tells what they throw as
// its own errors.
#include <cohort/bindings/python/lightgbm.h>

#include <cohort/bindings/python/interpreter.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace cohort::python {
namespace {

using bindings::CollectiveCall;

/// LightGBM's comm_size_t: a number of bytes.
using Bytes = std::int32_t;
/// Combines so many bytes of elements of a type into `into`.
using Reducer = void (*)(const char* from, char* into, int type_bytes, Bytes size);

/// What functions without a context of their own work on: as LightGBM's network, a thread's.
struct Network {
  std::weak_ptr<bindings::SharedCommunicator> comm;
  std::vector<std::byte> received;      ///< this rank's block of each rank
  std::vector<std::size_t> all_counts;  ///< bytes from each rank to each
};
thread_local Network network;

/// The bytes of each rank's block. Throws for blocks that do not lie behind each other from the begin on, or
/// are more than `most` bytes together.
std::vector<std::size_t> counts_of(const char* function, Rank ranks, std::span<const Bytes> starts,
                                   std::span<const Bytes> sizes, Bytes most) {
  std::vector<std::size_t> counts;
  std::size_t total = 0;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    if (sizes[rank] < 0 || std::cmp_not_equal(starts[rank], total)) break;
    counts.push_back(static_cast<std::size_t>(sizes[rank]));
    total += counts.back();
  }
  if (counts.size() != ranks || std::cmp_greater(total, most))
    throw std::runtime_error(fmt::format(
        "cohort: {} with blocks that are not one behind the other for each of {} ranks in {} bytes; this "
        "LightGBM is not one that cohort.lightgbm was made for",
        function, ranks, most));
  return counts;
}

/// In the thread that trains, without the interpreter's lock. What handlers of signals raise meanwhile is
/// raised once LightGBM has returned.
void make(bindings::SharedCommunicator& comm, const CollectiveCall& call) {
  Signals signals;
  try {
    comm.call(call, {}, is_main_thread() ? &signals : nullptr);
    signals.raise_later();  // one may have come as the call was over
  } catch (const Error& error) {
    signals.raise_later();
    throw std::runtime_error(fmt::format("cohort: {}", error.what()));
  }
}

std::shared_ptr<bindings::SharedCommunicator> joined() {
  auto comm = network.comm.lock();
  if (!comm)
    throw std::runtime_error(
        "cohort: no communicator is there for trainings of this thread; call cohort.lightgbm.init() in the "
        "thread that "
        "trains, and keep what it returns");
  return comm;
}

void all_gather(char* in, Bytes in_size, const Bytes* starts, const Bytes* sizes, int blocks, char* out,
                Bytes out_size) {
  const auto comm = joined();
  const auto number = static_cast<std::size_t>(blocks);
  const auto counts = counts_of("allgather", comm->size(), {starts, number}, {sizes, number}, out_size);
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const bool is_even = std::ranges::all_of(counts, [&](std::size_t one) { return one == counts.front(); });
  CollectiveCall call{is_even ? operator_of<AllGather> : operator_of<AllGatherV>};
  call.arguments.in = std::as_bytes(std::span(in, static_cast<std::size_t>(in_size)));
  call.arguments.out = std::as_writable_bytes(std::span(out, total));
  if (!is_even) {
    call.arguments.counts = counts;
    call.counts = CollectiveCall::Counts::needed;
  }
  make(*comm, call);
}

/// Combines blocks of so many bytes into the first one, in the order in which LightGBM's recursive halving
/// does, so that models are the same to the last bit: of ranks beyond a power of two each pair at the end
/// first, then the halves, the farthest first.
void fold(std::span<std::byte> blocks, std::size_t size, Rank ranks, int type_bytes, Reducer reducer) {
  std::vector<char*> places(ranks);
  for (Rank rank = 0; rank < ranks; ++rank)
    places[rank] = reinterpret_cast<char*>(blocks.data() + rank * size);
  const auto combine = [&](char* into, const char* from) {
    reducer(from, into, type_bytes, static_cast<Bytes>(size));
  };
  const Rank power = std::bit_floor(ranks);
  for (Rank left = 2 * power - ranks; left < places.size() && places.size() > power; ++left) {
    combine(places[left], places[left + 1]);
    places.erase(places.begin() + left + 1);
  }
  for (Rank distance = power / 2; distance > 0; distance /= 2)
    for (Rank rank = 0; rank < distance; ++rank) combine(places[rank], places[rank + distance]);
}

void reduce_scatter(char* in, Bytes in_size, int type_bytes, const Bytes* starts, const Bytes* sizes,
                    int blocks, char* out, Bytes out_size, const Reducer& reducer) {
  const auto comm = joined();
  const Rank ranks = comm->size();
  const auto number = static_cast<std::size_t>(blocks);
  const auto counts = counts_of("reduce_scatter", ranks, {starts, number}, {sizes, number}, in_size);
  const std::size_t mine = counts[comm->rank()];
  if (std::cmp_greater(mine, out_size))
    throw std::runtime_error(
        fmt::format("cohort: reduce_scatter of a block of {} bytes into {}", mine, out_size));
  network.received.resize(mine * ranks);
  network.all_counts.clear();
  for (Rank rank = 0; rank < ranks; ++rank)
    network.all_counts.insert(network.all_counts.end(), counts.begin(), counts.end());
  const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  CollectiveCall call{operator_of<AllToAllVc>};
  call.arguments.in = std::as_bytes(std::span(in, total));
  call.arguments.out = network.received;
  call.arguments.counts = network.all_counts;
  call.counts = CollectiveCall::Counts::needed;
  make(*comm, call);
  fold(network.received, mine, ranks, type_bytes, reducer);
  std::memcpy(out, network.received.data(), mine);
}

}  // namespace

void define_lightgbm(py::module_& module) {
  module.def(
      "lightgbm_functions",
      [](const PyCommunicator& comm) {
        network.comm = comm.shared();
        return std::tuple(reinterpret_cast<std::uintptr_t>(&reduce_scatter),
                          reinterpret_cast<std::uintptr_t>(&all_gather));
      },
      "Where LightGBM's reduce_scatter and allgather are, for trainings of this thread on the communicator.",
      py::arg("comm"));
}

}  // namespace cohort::python
