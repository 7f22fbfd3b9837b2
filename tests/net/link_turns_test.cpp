// SPDX-License-Identifier: Apache-2.0
// Whatever a link moves, others on the engine have their turns meanwhile. Time passes as bytes come to lie
// where they belong.
#include <cohort/engine/world/world.h>
#include <cohort/net/transport_list.h>
#include <cohort/tests/net/link_end.h>
#include <cohort/tests/support/storing_clock.h>

#include <algorithm>
#include <functional>
#include <ostream>

namespace cohort::test::link_turns_test {
namespace {

using namespace std::chrono_literals;
using test::kUntouched;
using test::Results;
using test::StoringClock;

constexpr Duration kPromised = 200us;
constexpr std::size_t kBytes = 8 * kMiB;
constexpr float kSent = 1;

void add_floats(const Reducer&, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  auto* const sum = reinterpret_cast<float*>(inout);
  const auto* const more = reinterpret_cast<const float*>(in);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) sum[i] += more[i];
}

/// What rank 0 does with the link, and rank 1 on the other end.
struct Move {
  std::string name;
  std::function<Task<>(Link&)> here;
  std::function<Task<>(Link&)> there;
  bool stores_there = false;  ///< to rank 1's ccl_in, else to rank 0's
  float stored = kSent;
};

Task<> nothing(Link&) { co_return; }

constexpr std::size_t kSmallBytes = 8 * kKiB;

Slice small_part(const Slice& of, std::size_t at) { return of.part(at, kSmallBytes); }

Task<> send_in_a_row(Link& link, Slice from) {
  for (std::size_t at = 0; at < from.bytes; at += kSmallBytes) co_await link.send(small_part(from, at));
}
Task<> recv_in_a_row(Link& link, Slice to) {
  for (std::size_t at = 0; at < to.bytes; at += kSmallBytes) co_await link.recv(small_part(to, at));
}

std::vector<Move> moves() {
  const Reducer adder{.fold = add_floats, .element_bytes = sizeof(float)};
  const Slice given = in_ccl_out(kBytes);
  const Slice got = in_ccl_in(kBytes);
  return {
      {"put", [=](Link& link) { return put(link, given, got, Signal::DataSignal); },
       [](Link& link) { return wait(link, Signal::DataSignal); }, true},
      {"get", [=](Link& link) { return get(link, given, got); }, nothing},
      {"get_reduce", [=](Link& link) { return get_reduce(link, given, got, adder); }, nothing, false,
       kUntouched + kSent},
      {"recv", [=](Link& link) { return recv(link, got); }, [=](Link& link) { return send(link, given); }},
      {"recv_in_a_row", [=](Link& link) { return recv_in_a_row(link, got); },
       [=](Link& link) { return send_in_a_row(link, given); }},
      {"recv_reduce", [=](Link& link) { return recv_reduce(link, got, adder); },
       [=](Link& link) { return send(link, given); }, false, kUntouched + kSent},
  };
}

struct TurnsCase {
  std::string transport;
  bool is_isolated = false;
  Move move;

  [[nodiscard]] std::string name() const {
    return transport + (is_isolated ? "_isolated_" : "_") + move.name;
  }
  friend std::ostream& operator<<(std::ostream& out, const TurnsCase& of) { return out << of.name(); }
};

std::vector<TurnsCase> all_cases() {
  std::vector<TurnsCase> list;
  for (const Move& move : moves()) {
    list.push_back({"shm", false, move});
    list.push_back({"shm", true, move});
    list.push_back({"tcp", false, move});
  }
  return list;
}

class LinkTurns : public ::testing::TestWithParam<TurnsCase> {
 protected:
  LinkTurns() : world_(settings()), engine_(options()) {}

  static world::Settings settings() {
    world::Settings settings;
    settings.seed = 1;
    settings.host_of = {0};
    settings.late_percent = 0;
    settings.pause_percent = 0;
    settings.buffer_bytes = kMiB;  // as the kernel's sockets have
    return settings;
  }
  EngineOptions options() {
    EngineOptions options = world_.engine_options(0);
    options.clock = std::make_unique<StoringClock>(std::move(options.clock), results_);
    return options;
  }

  /// Wants every turn, and measures how long the longest took.
  Task<> beat() {
    while (!is_over_) {
      const TimePoint before = engine_.now();
      co_await engine_.sleep_for(0s);
      longest_ = std::max(longest_, engine_.now() - before);
    }
  }

  Task<> play(Rank rank) {
    const TurnsCase& of = GetParam();
    const auto kinds = transports();
    const LinkEnd::Choice choice{.address = address_,
                                 .kind = *std::ranges::find(kinds, of.transport, &TransportKind::name),
                                 .is_isolated = of.is_isolated};
    const std::unique_ptr<LinkEnd> end = co_await LinkEnd::make(engine_, rank, choice);
    const bool is_here = rank == 0;
    std::ranges::fill(floats(*end, in_ccl_out(kBytes)), kSent);
    const std::span<float> stored = floats(*end, in_ccl_in(kBytes));
    std::ranges::fill(stored, kUntouched);
    const bool stores = is_here != of.move.stores_there;
    if (stores) results_.watch(stored);
    co_await end->meet();
    TaskScope heart;
    if (is_here) heart.spawn(beat());
    Task<> moving = is_here ? of.move.here(end->link()) : of.move.there(end->link());
    co_await moving;
    co_await end->meet();
    is_over_ = true;
    co_await heart.join();
    const bool is_there = std::ranges::all_of(stored, [&](float value) { return value == of.move.stored; });
    EXPECT_TRUE(is_there || !stores);
    EXPECT_TRUE(end->host().failures.empty());
    co_await end->finish();
  }
  static std::span<float> floats(LinkEnd& end, const Slice& slice) {
    return {reinterpret_cast<float*>(end.at(slice)), slice.bytes / sizeof(float)};
  }

  const std::string address_ = fresh_unix_address();
  Results results_;
  world::World world_;
  Engine engine_;
  bool is_over_ = false;
  Duration longest_{0};
};

TEST_P(LinkTurns, others_have_theirs_while_a_large_message_moves) {
  auto both = [&]() -> Task<> { co_await when_all(play(0), play(1)); };
  engine_.run(both());
  EXPECT_LE(longest_, kPromised);
}

INSTANTIATE_TEST_SUITE_P(, LinkTurns, ::testing::ValuesIn(all_cases()),
                         [](const auto& of) { return of.param.name(); });

}  // namespace
}  // namespace cohort::test::link_turns_test
