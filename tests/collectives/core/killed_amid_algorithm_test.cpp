// SPDX-License-Identifier: Apache-2.0
// A rank is killed amid a collective by each algorithm of the library in turn, on one kind of buffers or the
// other: all others name it.
#include <cohort/cohort.h>
#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/mortal_ranks.h>
#include <cohort/tests/support/print.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace cohort::killed_amid_algorithm_test {
namespace {

constexpr Rank kRanks = 4;
constexpr Rank kRoot = 1;
constexpr int kSurvivedPeerDied = 40;  // + culprit
constexpr int kOtherError = 61;
constexpr int kCannotRunHere = 62;

/// Where the ranks live and what the buffers are.
struct Place {
  const char* name;
  Rank hosts;
  const char* transport;
  bool maps_buffers;
  std::size_t pull_from_bytes;
  std::size_t bytes;  ///< of the largest buffer
};
/// The small one is for algorithms of slots, and for those that run nowhere else.
constexpr std::array kPlaces = {Place{"mapped", 1, "shm", true, kNeverPull, std::size_t{64} << 20},
                                Place{"two hosts", 2, "", false, kNeverPull, std::size_t{4} << 20},
                                Place{"staged", 1, "shm", false, kNeverPull, std::size_t{4} << 20},
                                Place{"pulled", 1, "shm", false, 1, std::size_t{4} << 20},
                                Place{"tcp", 1, "tcp", false, kNeverPull, std::size_t{4} << 20},
                                Place{"small", 1, "shm", false, kNeverPull, 1024}};

/// Calls it for ever; the two buffers, or the one, hold whatever the operator needs.
Task<> call_for_ever(Communicator& comm, Operator op, std::string_view algorithm, std::size_t count,
                     std::span<std::byte> first, std::span<std::byte> second, int progress) {
  const Form form{.count = count, .ranks = comm.size(), .root = kRoot};
  const Extent extent = op->extent(form, comm.rank());
  const InPlace at = op->in_place(form, comm.rank());
  constexpr std::size_t kElement = sizeof(float);
  std::span<std::byte> in = first.first(extent.send * kElement);
  std::span<std::byte> out = second.first(extent.recv * kElement);
  if (op->has_one_buffer && extent.send < extent.recv)
    in = out.subspan((at.recv_at - at.send_at) * kElement, in.size());
  else if (op->has_one_buffer)
    out = in.subspan((at.send_at - at.recv_at) * kElement, out.size());
  const CallArguments arguments{
      .type = DataType::float32, .reduce = ReduceOp::max, .root = kRoot, .in = in, .out = out};
  for (bool is_first = true;; is_first = false) {
    Collective call = comm.call(op, arguments);
    co_await std::move(call).with_algorithm(algorithm);
    if (is_first && ::write(progress, "x", 1) != 1) throw Error(ErrorKind::Internal, "the test is gone");
  }
}

Task<> join_and_call(Engine& engine, CommunicatorOptions options, const Place& place,
                     const AnyAlgorithm& algorithm, Operator op, int progress) {
  Communicator comm = co_await Communicator::join(engine, std::move(options));
  const std::size_t elements = std::max<std::size_t>(op.elements_per_count(kRanks), 1);
  const std::size_t count = place.bytes / sizeof(float) / elements;
  const std::size_t bytes = count * elements * sizeof(float);
  std::exception_ptr failure;
  try {
    if (place.maps_buffers) {
      SharedBuffer<float> first = comm.allocate<float>(bytes / sizeof(float));
      SharedBuffer<float> second = comm.allocate<float>(bytes / sizeof(float));
      const std::span<float> one = first;
      const std::span<float> other = second;
      co_await call_for_ever(comm, op, algorithm.name(), count, std::as_writable_bytes(one),
                             std::as_writable_bytes(other), progress);
    }
    std::vector<std::byte> first(bytes);
    std::vector<std::byte> second(bytes);
    co_await call_for_ever(comm, op, algorithm.name(), count, first, second, progress);
  } catch (...) {
    failure = std::current_exception();
  }
  co_await comm.close();
  std::rethrow_exception(failure);
}

int live(Rank rank, const std::string& address, const Place& place, const AnyAlgorithm& algorithm,
         Operator op, int progress) {
  try {
    Engine engine;
    CommunicatorOptions options;
    options.join.rank = rank;
    options.join.size = kRanks;
    options.join.address = address;
    options.transport = place.transport;
    if (place.hosts == 2) options.join.host_id = rank < kRanks / 2 ? "one" : "other";
    options.hosts_per_switch = 1;  // for algorithms on three levels
    options.pull_from_bytes = place.pull_from_bytes;
    options.timeout = std::chrono::minutes(1);
    engine.run(join_and_call(engine, std::move(options), place, algorithm, op, progress));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::PeerDied)
      return kSurvivedPeerDied + static_cast<int>(error.culprit().value_or(9));
    if (error.kind() == ErrorKind::InvalidArgument) return kCannotRunHere;
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
  }
  return kOtherError;
}

class KilledAmid : public testing::TestWithParam<Operator> {
 protected:
  /// False: it cannot run there.
  static bool kill_one(const Place& place, const AnyAlgorithm& algorithm, Rank victim) {
    test::MortalRanks ranks;
    const std::string address = fmt::format("unix:cohort-test-{:016x}", random_incarnation());
    const Rank working = ranks.start(kRanks, [&](Rank rank, int progress) {
      return live(rank, address, place, algorithm, GetParam(), progress);
    });
    if (working == 0) {
      for (Rank rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.status_of(rank), kCannotRunHere);
      return false;
    }
    EXPECT_EQ(working, kRanks);
    ::usleep(static_cast<useconds_t>(random_incarnation() % 20'000));
    ranks.signal(victim, SIGKILL);
    for (Rank rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(ranks.status_of(rank),
                rank == victim ? -SIGKILL : kSurvivedPeerDied + static_cast<int>(victim))
          << "rank " << rank << ", " << algorithm.name() << ", " << place.name;
    return true;
  }
};

/// Another rank and another place for each, so that all of these meet some algorithms of every operator.
TEST_P(KilledAmid, any_algorithm_is_named_by_every_survivor) {
  std::size_t number = GetParam().index();
  for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(GetParam())) {
    if (algorithm.scope() == Scope::self) continue;
    ++number;
    bool has_run = false;
    for (std::size_t i = 0; i < kPlaces.size() && !has_run; ++i)
      has_run =
          kill_one(kPlaces[(number + i) % kPlaces.size()], algorithm, static_cast<Rank>(number % kRanks));
    EXPECT_TRUE(has_run) << algorithm.name() << " runs nowhere";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, KilledAmid, testing::ValuesIn(all_operators()),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace cohort::killed_amid_algorithm_test
