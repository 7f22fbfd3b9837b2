// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/algorithms/library.h>
#include <cohort/collectives/schedules/links/host_blocks.h>
#include <cohort/collectives/schedules/signals.h>
#include <cohort/collectives/schedules/variant.h>

namespace cohort {
namespace scatter_star_star {
namespace {

Task<> send_inside(Exec& inside, const HostBlocks& from) {
  auto serve = [&](Rank peer) -> Task<> { return send_or_post(inside.link(peer), from[peer]); };
  co_await inside.fork_join(inside.peers(), serve);
}

Task<> serve_host(Exec& x, Scatter op, Rank host) {
  const HostBlocks blocks(x, op, host);
  co_await send_blocks(link_to_middle(x, host), blocks);
}

Task<> serve_hosts(Exec& x, const Scatter& op) {
  auto serve = [&](Rank distance) -> Task<> { return serve_host(x, op, host_ahead(x, distance)); };
  const auto others = other_hosts(x);
  co_await x.fork_join(others, serve);
}

Task<> give_all(Exec& x, Scatter op) {
  const HostBlocks own(x, op, x.hosts().host_of(x.rank()));
  co_await x.copy(op.recv, op.block(x.rank()));
  co_await hear_from_all(x.inside());
  for (const Rank distance : other_hosts(x))
    co_await link_to_middle(x, host_ahead(x, distance)).wait(Signal::Ack);
  co_await x.streams().fork_join(serve_hosts(x, op), send_inside(x.inside(), own));
}

/// Who speaks for another host.
Task<> pass_on(Exec& x, Scatter op) {
  Exec& inside = x.inside();
  Link& root = x.link(op.root);
  const Rank host = x.hosts().host_of(x.rank());
  const bool is_apart = inside.size() == 1;
  const Slice packed = is_apart ? op.recv : x.scratch(0, HostBlocks(x, op, host).bytes());
  const HostBlocks own(x, op, host, packed);
  co_await hear_from_all(inside);
  co_await root.post(Signal::Ack);
  co_await receive_blocks(root, own);
  co_await send_inside(inside, own);
  if (!is_apart) co_await x.copy(op.recv, own[inside.rank()]);
}

Task<> take(Link& link, Slice block) {
  co_await link.post(Signal::Ack);
  co_await receive_or_wait(link, block);
}

/// Two-level scatter, on hosts of any sizes: Acks go to the root by the ranks in its place, counted around,
/// of all hosts; it sends each of these the blocks of its host, which that one hands out.
///
/// Cost, m hosts of at most q ranks: 4 rounds; (p-1) * block bytes sent by the root, of which those of other
/// hosts go in m-1 messages, where ranks of a host follow one another and the call is not cut into pieces,
/// else in as many as blocks.
///
/// Streams: main, and of the root two sub streams with m-1 and q-1 of their own, of others q-1. Scratch: q
/// blocks. Source: the star of the seed, on each level.
///
/// The Acks tell the root that all run the same collective, and what it sends after them tells the others.
Task<> scatter_star_star(Exec& x, Scatter op) {
  if (x.rank() == op.root) return give_all(x, op);
  const Rank middle = x.hosts().middle(x.hosts().host_of(x.rank()), op.root);
  return x.rank() == middle ? pass_on(x, op) : take(x.link(middle), op.recv);
}

Cost cost(std::size_t bytes, const Hosts& hosts) { return cost_of_two_stars(bytes, hosts, true); }

constexpr Algorithm<Scatter> kAlgorithm = {.name = "star_star",
                                           .levels = Levels::any_hosts,
                                           .cost = cost,
                                           .needs = needs_of_two_stars,
                                           .largest_piece = largest_piece_of_two_stars,
                                           .schedule = scatter_star_star};

constexpr Algorithm<ScatterV> kVariant = variant_of<ScatterV, kAlgorithm>();

}  // namespace
}  // namespace scatter_star_star

AnyAlgorithm describe(const struct ScatterStarStar*) { return scatter_star_star::kAlgorithm; }

AnyAlgorithm describe(const struct ScatterVStarStar*) { return scatter_star_star::kVariant; }

}  // namespace cohort
