// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/host_blocks.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace gather_star_star {
namespace {

Task<> receive_inside(Exec& inside, const HostBlocks& to) {
  auto take = [&](Rank peer) -> Task<> { return receive_or_wait(inside.link(peer), to[peer]); };
  co_await inside.fork_join(inside.peers(), take);
}

Task<> take_host(Exec& x, Gather op, Rank host) {
  const HostBlocks blocks(x, op, host);
  co_await receive_blocks(link_to_middle(x, host), blocks);
}

Task<> take_hosts(Exec& x, const Gather& op) {
  auto take = [&](Rank distance) -> Task<> { return take_host(x, op, host_ahead(x, distance)); };
  const auto others = other_hosts(x);
  co_await x.fork_join(others, take);
}

Task<> take_all(Exec& x, Gather op) {
  const HostBlocks own(x, op, x.hosts().host_of(x.rank()));
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.streams().fork_join(take_hosts(x, op), receive_inside(x.inside(), own));
  for (const Rank distance : other_hosts(x))
    co_await link_to_middle(x, host_ahead(x, distance)).post(Signal::Ack);
  co_await tell_all(x.inside());
}

/// Who speaks for another host.
Task<> pass_on(Exec& x, Gather op) {
  Exec& inside = x.inside();
  Link& root = x.link(op.root);
  const Rank host = x.hosts().host_of(x.rank());
  const bool is_apart = inside.size() == 1;
  const Slice packed = is_apart ? op.send : x.scratch(0, HostBlocks(x, op, host).bytes());
  const HostBlocks own(x, op, host, packed);
  if (!is_apart) co_await x.copy(own[inside.rank()], op.send);
  co_await receive_inside(inside, own);
  co_await send_blocks(root, own);
  co_await root.wait(Signal::Ack);
  co_await tell_all(inside);
}

Task<> give(Link& link, Slice block) {
  co_await send_or_post(link, block);
  co_await link.wait(Signal::Ack);
}

/// Two-level gather, on hosts of any sizes: inside of hosts everybody gives its block to the rank in the
/// root's place, counted around, which passes all of its host on to the root; Acks come back the same way.
///
/// Cost, m hosts of at most q ranks: 4 rounds; (p-1) * block bytes received by the root, of which those of
/// other hosts come in m-1 messages, where ranks of a host follow one another and the call is not cut into
/// pieces, else in as many as blocks.
///
/// Streams: main, and of the root two sub streams with m-1 and q-1 of their own, of others q-1. Scratch: q
/// blocks. Source: the star of the seed, on each level.
///
/// The Acks tell everybody that all run the same collective: the root has heard from all when it posts them.
Task<> gather_star_star(Exec& x, Gather op) {
  if (x.rank() == op.root) return take_all(x, op);
  const Rank middle = x.hosts().middle(x.hosts().host_of(x.rank()), op.root);
  return x.rank() == middle ? pass_on(x, op) : give(x.link(middle), op.send);
}

Cost cost(std::size_t bytes, const Hosts& hosts) { return cost_of_two_stars(bytes, hosts, false); }

constexpr Algorithm<Gather> kAlgorithm = {.name = "star_star",
                                          .levels = Levels::any_hosts,
                                          .cost = cost,
                                          .needs = needs_of_two_stars,
                                          .largest_piece = largest_piece_of_two_stars,
                                          .schedule = gather_star_star};

constexpr Algorithm<GatherV> kVariant = variant_of<GatherV, kAlgorithm>();

}  // namespace
}  // namespace gather_star_star

AnyAlgorithm describe(const struct GatherStarStar*) { return gather_star_star::kAlgorithm; }

AnyAlgorithm describe(const struct GatherVStarStar*) { return gather_star_star::kVariant; }

}  // namespace cohort
