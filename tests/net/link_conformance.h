// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport_list.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/fake_verbs_transport.h>
#include <cohort/tests/support/forked_part.h>
#include <cohort/tests/support/queue_transport.h>
#include <cohort/tests/support/world_engine.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

/// The transports whose links are under test, and the stage on which two ranks play their roles over one.
namespace cohort::test {

/// Where the two ends of a link live.
enum class Place {
  world,      ///< on one engine in virtual time, with simulated sockets
  kernel,     ///< on one engine, where the kernel's sockets are part of what is tested
  processes,  ///< each in a process of its own
};

/// A transport under test, and what it promises beyond moving bytes.
struct TransportCase {
  std::string name;
  TransportKind kind;
  Place place = Place::world;
  bool is_encrypted = false;
  bool is_isolated = false;
  unsigned connections = 1;
  /// A device's own threads may have to wait for a processor, and in an emulated guest for long.
  Duration settling = std::chrono::milliseconds(5);
  /// put and get may name user windows of the peer.
  bool reaches_user_windows = false;
  /// Several operations of one direction may be under way.
  bool has_several_under_way = false;
  /// Closing one end is told to the other end's owner.
  bool reports_closing = false;

  friend std::ostream& operator<<(std::ostream& out, const TransportCase& transport) {
    return out << transport.name;
  }
};

inline TransportKind library_kind(std::string_view name) {
  const auto kinds = transports();
  return *std::ranges::find(kinds, name, &TransportKind::name);
}

/// What a test does with one end of the link.
using Role = std::function<Task<>(LinkEnd&)>;

class LinkConformance : public ::testing::TestWithParam<TransportCase> {
 protected:
  /// Plays rank 0's and rank 1's role on the ends of a new link, and expects that neither owner was told of
  /// any trouble.
  static void run(const Role& role_0, const Role& role_1) {
    const auto untroubled = [](const Role& role) {
      return [&role](LinkEnd& end) -> Task<> {
        co_await role(end);
        EXPECT_TRUE(end.host().failures.empty() && end.host().mismatches.empty());
      };
    };
    run_troubled(untroubled(role_0), untroubled(role_1));
  }

  /// The same, where trouble is what the test is about.
  static void run_troubled(const Role& role_0, const Role& role_1) {
    const bool is_encrypted = GetParam().is_encrypted;
    const LinkEnd::Choice choice{.address = is_encrypted ? fresh_other_address() : fresh_unix_address(),
                                 .kind = GetParam().kind,
                                 .settling = GetParam().settling,
                                 .is_encrypted = is_encrypted,
                                 .is_isolated = GetParam().is_isolated,
                                 .connections = GetParam().connections};
    const auto play_both = [&](Engine& engine) {
      auto both = [&]() -> Task<> {
        co_await when_all(play(engine, 0, choice, role_0), play(engine, 1, choice, role_1));
      };
      engine.run(both());
    };
    const auto play_one = [&](Rank rank, const Role& role) {
      Engine engine;
      engine.run(play(engine, rank, choice, role));
    };
    if (GetParam().place == Place::world) {
      WorldEngine engine;
      return play_both(engine);
    }
    if (GetParam().place == Place::kernel) {
      Engine engine;
      return play_both(engine);
    }
    ForkedPart other("the process of rank 1", [&] { play_one(1, role_1); });
    play_one(0, role_0);
    other.join();
  }

 private:
  static Task<> play(Engine& engine, Rank rank, const LinkEnd::Choice& choice, const Role& role) {
    const std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine, rank, choice);
    const auto error =
        co_await error_of(with_deadline(std::chrono::seconds(60), play_to_the_end(*end, role)));
    EXPECT_FALSE(error) << "rank " << rank << ": " << error->what();
    co_await end->finish();
  }
  static Task<> play_to_the_end(LinkEnd& end, const Role& role) {
    co_await role(end);
    co_await end.meet();  // the other one may still need this end
  }
};

inline TransportCase over_tcp(std::string name, Place place, bool is_encrypted, unsigned connections) {
  return {.name = std::move(name),
          .kind = library_kind("tcp"),
          .place = place,
          .is_encrypted = is_encrypted,
          .connections = connections,
          .reaches_user_windows = true,
          .has_several_under_way = true,
          .reports_closing = true};
}

/// Those that every machine can test, and, where COHORT_TEST_RDMA says that there is a device (./run test
/// verbs), verbs.
inline std::vector<TransportCase> transport_cases() {
  std::vector<TransportCase> cases = {
      {.name = "shm_isolated", .kind = library_kind("shm"), .is_isolated = true},
      {.name = "shm_threads", .kind = library_kind("shm"), .reaches_user_windows = true},
      {.name = "shm_processes", .kind = library_kind("shm"), .place = Place::processes},
      over_tcp("tcp", Place::kernel, false, 1),
      over_tcp("tcp_encrypted", Place::kernel, true, 1),
      over_tcp("tcp_simulated", Place::world, false, 1),
      over_tcp("tcp_two_connections", Place::kernel, false, 2),
      over_tcp("tcp_four_connections_encrypted", Place::kernel, true, 4),
      over_tcp("tcp_four_connections_of_processes", Place::processes, false, 4),
      over_tcp("tcp_three_connections_simulated", Place::world, false, 3),
      {.name = "queue", .kind = test::kQueueTransport, .reaches_user_windows = true},
      {.name = "verbs_fake",
       .kind = test::kFakeVerbsTransport,
       .place = Place::kernel,
       .reaches_user_windows = true,
       .has_several_under_way = true,
       .reports_closing = true},
      {.name = "verbs_fake_three_pairs",
       .kind = test::fake_verbs_transport<3>(),
       .place = Place::kernel,
       .reaches_user_windows = true,
       .has_several_under_way = true,
       .reports_closing = true},
  };
  if (std::getenv("COHORT_TEST_RDMA") == nullptr) return cases;
  for (const Place place : {Place::kernel, Place::processes})
    cases.push_back({.name = place == Place::kernel ? "verbs" : "verbs_processes",
                     .kind = library_kind("verbs"),
                     .place = place,
                     .settling = std::chrono::milliseconds(300),
                     .reaches_user_windows = true,
                     .has_several_under_way = true,
                     .reports_closing = true});
  return cases;
}

}  // namespace cohort::test
