// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_plane.h>

#include <cohort/engine/when_all.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class NoHandler final : public ControlPlane::Handler {
 public:
  void on_control(Rank, const ControlMessage&) noexcept override {}
  void on_departure(Rank, bool, std::uint64_t) noexcept override {}
};

/// One rank's exchange of hellos, and what came of it.
struct End {
  std::vector<Rank> heard;
  std::optional<Error> error;
};

/// Rank 0 has nothing to say to rank 1.
Task<> exchange(Engine& engine, Membership& membership, End& end) {
  NoHandler handler;
  ControlPlane control(engine, membership, handler);
  const ControlPlane::HelloFor hello_for = [&](Rank peer) -> ControlPlane::Hello {
    if (membership.rank == 0 && peer == 1) throw Error(ErrorKind::ResourceLimit, "no words for rank 1");
    return {};
  };
  const ControlPlane::Taken taken = [&](Rank peer, const ControlMessage&, std::vector<Descriptor>) {
    end.heard.push_back(peer);
  };
  const std::optional<Error> error = co_await error_of(control.exchange_hellos(hello_for, taken));
  end.error = error;
  if (error) control.shutdown();
}

TEST(ControlPlane, a_rank_that_cannot_say_hello_to_one_still_does_to_the_others_and_hears_all) {
  Engine engine;
  std::vector<Joined> joined = join_on(engine, world_of(3, fresh_unix_address()));
  std::array<End, 3> ends;
  auto everybody = [&]() -> Task<> {
    co_await when_all(exchange(engine, *joined[0].membership, ends[0]),
                      exchange(engine, *joined[1].membership, ends[1]),
                      exchange(engine, *joined[2].membership, ends[2]));
  };
  engine.run(everybody());
  EXPECT_EQ(kind_of(ends[0].error), "ResourceLimit");
  EXPECT_THAT(ends[0].heard, UnorderedElementsAre(1, 2));
  EXPECT_EQ(kind_of(ends[1].error), "PeerDied");
  EXPECT_THAT(ends[1].error->what(), HasSubstr("see what it printed, then start all ranks again"));
  EXPECT_EQ(kind_of(ends[2].error), "no error");
  EXPECT_THAT(ends[2].heard, UnorderedElementsAre(0, 1));
}

}  // namespace
}  // namespace cohort::testing
