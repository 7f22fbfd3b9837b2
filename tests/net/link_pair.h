// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/link.h>
#include <cohort/net/link_host.h>
#include <cohort/net/peer_transports.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

/// Links without a communicator, for tests: who stands behind them, and two that belong together.
namespace cohort::testing {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

/// A communicator as far as links see it, in one collective that never ends unless the test says so.
class FakeHost final : public LinkHost {
 public:
  FakeHost() {
    state.sequence = 1;
    state.is_running = true;
    state.signature = {.what = 7, .count = 11};
  }

  [[nodiscard]] const RunningOperation& running() const noexcept override { return state; }
  void link_failed(Rank peer, const Error& error) noexcept override {
    EXPECT_EQ(peer, expected_peer);
    failures.push_back(error);
    if (collective != nullptr) collective->cancel(error);
  }
  void mismatch(Rank peer, std::uint64_t sequence, const Signature& theirs) noexcept override {
    EXPECT_EQ(peer, expected_peer);
    mismatches.emplace_back(sequence, theirs);
    if (collective != nullptr) collective->cancel(Error(ErrorKind::Mismatch, "the ranks disagree"));
  }

  /// Gives the window memory of its own.
  void bind_own(WindowId window, std::size_t bytes) {
    auto& memory = memories_[static_cast<std::size_t>(window)];
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    state.windows.bind(window, memory.get(), bytes);
  }

  RunningOperation state;
  Rank expected_peer = 0;
  std::vector<Error> failures;
  std::vector<std::pair<std::uint64_t, Signature>> mismatches;
  /// Cancelled when a link fails, as a communicator does.
  CancelScope* collective = nullptr;

 private:
  std::array<std::unique_ptr<std::byte[]>, kWindows> memories_;
};

/// Two ranks, 0 and 1, on one engine, and the link of each to the other over one kind of transport.
///
/// Everything a communicator does with a transport is done here: it is made, introduced, started, asked for a
/// link, and told of collectives.
class LinkPair : Immovable {
 public:
  static constexpr std::size_t kWindowBytes = 16 * kMiB + 4 * kKiB;
  static constexpr Lane kLane = 2;

  /// Isolated: as if the ranks lived in processes of their own.
  static Task<std::unique_ptr<LinkPair>> make(Engine& engine, TransportKind kind, bool is_isolated) {
    std::unique_ptr<LinkPair> pair(new LinkPair(engine, kind));
    co_await pair->join();
    for (const Rank rank : {0U, 1U}) pair->make_transport(rank, is_isolated);
    for (const Rank rank : {0U, 1U}) pair->introduce(rank);
    for (const Rank rank : {0U, 1U}) pair->ends_[rank].transports->start(pair->services_);
    co_await when_all(pair->connect(0), pair->connect(1));
    co_return pair;
  }

  [[nodiscard]] Link& link(Rank of) noexcept { return *ends_[of].link; }
  [[nodiscard]] FakeHost& host(Rank of) noexcept { return ends_[of].host; }
  [[nodiscard]] PeerTransports& transports(Rank of) noexcept { return *ends_[of].transports; }
  [[nodiscard]] std::byte* at(Rank of, const Slice& slice) { return host(of).state.windows.at(slice); }
  void shutdown(Rank of) noexcept { ends_[of].transports->shutdown(); }
  /// That rank begins its next collective.
  void begin_next(Rank of) noexcept {
    ++host(of).state.sequence;
    ends_[of].transports->collective_started();
  }
  /// Ends what runs beside the links.
  Task<> finish() {
    for (const Rank rank : {0U, 1U}) shutdown(rank);
    services_.cancel();
    co_await services_.join();
  }

  /// Bytes that differ from slice to slice.
  void fill(Rank of, const Slice& slice, unsigned seed) {
    std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i) bytes[i] = pattern(i, seed);
  }
  [[nodiscard]] bool holds(Rank of, const Slice& slice, unsigned seed) {
    const std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != pattern(i, seed)) return false;
    return true;
  }
  /// The sum, byte by byte, of two fillings.
  [[nodiscard]] bool holds_sum(Rank of, const Slice& slice, unsigned one, unsigned other) {
    const std::byte* const bytes = at(of, slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != plus(pattern(i, one), pattern(i, other))) return false;
    return true;
  }

  [[nodiscard]] static std::byte plus(std::byte a, std::byte b) noexcept {
    return static_cast<std::byte>(std::to_integer<unsigned>(a) + std::to_integer<unsigned>(b));
  }

 private:
  [[nodiscard]] static std::byte pattern(std::size_t i, unsigned seed) noexcept {
    return static_cast<std::byte>((i * 31 + (i >> 12) + seed * 101) & 0xff);
  }

  struct End {
    FakeHost host;
    Joined joined;
    std::unique_ptr<PeerTransports> transports;
    std::unique_ptr<Link> link;
  };

  LinkPair(Engine& engine, const TransportKind& kind) : engine_(engine), kind_(kind) {}

  Task<> join() {
    std::vector<JoinOptions> world = world_of(2, fresh_unix_address());
    co_await when_all(join_into(engine_, std::move(world[0]), ends_[0].joined),
                      join_into(engine_, std::move(world[1]), ends_[1].joined));
  }
  void make_transport(Rank rank, bool is_isolated) {
    End& end = ends_[rank];
    end.host.expected_peer = 1 - rank;
    const PeerTransports::Choice choice{.kinds = std::span(&kind_, 1),
                                        .asked = {},
                                        .buffer_bytes = kWindowBytes,
                                        .heap_bytes = kMiB,
                                        .is_isolated = is_isolated};
    end.transports = std::make_unique<PeerTransports>(engine_, *end.joined.membership, end.host, choice);
    for (std::size_t window = 0; window < kWindows; ++window)
      end.host.bind_own(static_cast<WindowId>(window), kWindowBytes);
    if (host::HostGroup* const group = end.transports->group()) {
      end.host.state.windows.bind(WindowId::ccl_in, group->own().at(group->layout().ccl_in()), kWindowBytes);
      end.host.state.windows.bind(WindowId::ccl_out, group->own().at(group->layout().ccl_out()),
                                  kWindowBytes);
    }
  }
  /// What a hello does: words, and descriptors of which the peer gets copies.
  void introduce(Rank rank) {
    const Rank peer = 1 - rank;
    const Introduction said = ends_[rank].transports->to(peer).introduce(peer);
    std::vector<Descriptor> passed;
    for (const int descriptor : said.descriptors) passed.emplace_back(::dup(descriptor));
    ends_[peer].transports->to(rank).meet(rank, said.words, std::move(passed));
    host::HostGroup* const group = ends_[peer].transports->group();
    if (group == nullptr || !group->is_in_process(rank)) return;
    for (const WindowId window : {WindowId::send, WindowId::recv})  // as announced when ranks meet
      group->windows(rank).bind(window, at(rank, {window, 0, 0}), kWindowBytes);
  }
  Task<> connect(Rank rank) {
    std::unique_ptr<Link> link = co_await ends_[rank].transports->to(1 - rank).connect(1 - rank, kLane);
    ends_[rank].link = std::move(link);
  }

  Engine& engine_;
  const TransportKind kind_;
  std::array<End, 2> ends_;
  TaskScope services_;
};

inline Slice in_send(std::size_t bytes, std::size_t at = 0) { return {WindowId::send, at, bytes}; }
inline Slice in_recv(std::size_t bytes, std::size_t at = 0) { return {WindowId::recv, at, bytes}; }
inline Slice in_ccl_in(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_in, at, bytes}; }
inline Slice in_ccl_out(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_out, at, bytes}; }

/// Adds bytes; says that its elements are as large as asked for, and checks that it is only given whole ones.
inline Reducer adder(std::uint8_t element_bytes) {
  constexpr auto fold = [](const Reducer& self, std::byte* inout, const std::byte* in,
                           std::size_t bytes) noexcept {
    EXPECT_EQ(bytes % self.element_bytes, 0U);
    for (std::size_t i = 0; i < bytes; ++i) inout[i] = LinkPair::plus(inout[i], in[i]);
  };
  return {.fold = fold, .element_bytes = element_bytes};
}
/// The largest element that these bytes are made of.
inline Reducer adder_for(std::size_t bytes) { return adder(bytes % 8 == 0 ? 8 : 1); }

inline Task<> send(Link& link, Slice from) { co_await link.send(from); }
inline Task<> recv(Link& link, Slice to) { co_await link.recv(to); }
inline Task<> recv_reduce(Link& link, Slice to, Reducer reducer) { co_await link.recv_reduce(to, reducer); }
inline Task<> put(Link& link, Slice from, Slice to, Signal signal) { co_await link.put(from, to, signal); }
inline Task<> get(Link& link, Slice from, Slice to) { co_await link.get(from, to); }
inline Task<> get_reduce(Link& link, Slice from, Slice to, Reducer reducer) {
  co_await link.get_reduce(from, to, reducer);
}
inline Task<> post(Link& link, Signal signal) { co_await link.post(signal); }
inline Task<> wait(Link& link, Signal signal) { co_await link.wait(signal); }

}  // namespace cohort::testing
