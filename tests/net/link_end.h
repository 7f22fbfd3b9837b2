// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/peer_transports.h>
#include <cohort/tests/support/joining.h>
#include <cohort/tests/support/outcome.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Links without a communicator, for tests: who stands behind them, and the ends of one.
namespace cohort::test {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

/// A communicator as far as links see it, in one collective that never ends unless the test says so.
class FakeHost final : public LinkOwner {
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
  void gives_up(Rank peer) noexcept override { told_of_giving_up.push_back(peer); }
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
  std::vector<Rank> told_of_giving_up;
  std::vector<std::pair<std::uint64_t, Signature>> mismatches;
  /// Cancelled when a link fails, as a communicator does.
  CancelScope* collective = nullptr;

 private:
  std::array<std::unique_ptr<std::byte[]>, kWindows> memories_;
};

/// One of two ranks, 0 and 1, and its link to the other over one kind of transport. Both may be on one
/// engine, or each in a process of its own.
///
/// Everything a communicator does with a transport is done here: it is made, introduced, started, asked for a
/// link, and told of collectives. Threads: the engine's. Lifetime: finish() comes before its end.
class LinkEnd : Immovable {
 public:
  static constexpr std::size_t kWindowBytes = 16 * kMiB + 4 * kKiB;
  static constexpr Lane kLane = 2;

  /// What both ends agree on.
  struct Choice {
    std::string address;  ///< where they meet
    TransportKind kind;
    Duration settling = std::chrono::milliseconds(5);  ///< how long what was said may be on its way
    bool is_encrypted = false;
    bool is_isolated = false;  ///< as if ranks of one process lived in processes of their own
    /// Of each lane over TCP; more than one: between two hosts.
    unsigned connections = 1;
  };

  /// Joins and connects; completes together with the other end's. Throws what joining throws.
  static Task<std::unique_ptr<LinkEnd>> make(Engine& engine, Rank rank, const Choice& choice) {
    std::unique_ptr<LinkEnd> end(new LinkEnd(engine, rank, choice.settling));
    std::vector<JoinOptions> world = world_of(2, choice.address);
    if (choice.is_encrypted) {
      give_secret(world);
      for (JoinOptions& options : world) options.encryption = Encryption::required;
    }
    if (choice.connections > 1) world[rank].host_id = fmt::format("host{}", rank);
    const std::uint64_t fabric = choice.kind.fabric == nullptr ? 0 : choice.kind.fabric();
    Membership membership = co_await cohort::join(engine, std::move(world[rank]), fabric);
    end->membership_ = std::move(membership);
    end->make_transport(choice);
    co_await end->introduce();
    end->transports_->start(end->services_);
    std::unique_ptr<Link> link = co_await end->transports_->to(end->peer()).connect(end->peer(), kLane);
    end->link_ = std::move(link);
    co_return end;
  }

  [[nodiscard]] Engine& engine() noexcept { return engine_; }
  [[nodiscard]] Rank peer() const noexcept { return 1 - rank_; }
  [[nodiscard]] Link& link() noexcept { return *link_; }
  [[nodiscard]] FakeHost& host() noexcept { return host_; }
  [[nodiscard]] PeerTransports& transports() noexcept { return *transports_; }
  [[nodiscard]] std::byte* at(const Slice& slice) { return host_.state.windows.at(slice); }
  void shutdown() noexcept { transports_->shutdown(); }
  /// This rank begins its next collective.
  void begin_next() noexcept {
    ++host_.state.sequence;
    transports_->collective_started();
  }
  /// Returns when the other end has called it as often. Does not go over the link. Throws PeerDied when the
  /// other end is gone.
  Task<> meet() {
    constexpr std::array kHere = {std::byte{1}};
    std::array<std::byte, 1> there{};
    co_await control().send(kHere);
    const bool has_come = co_await control().receive(there);
    if (!has_come) throw Error(ErrorKind::PeerDied, "the other end has left the test");
  }
  /// Until what the other end has said is here, or a wait has begun: no link tells when. Costs nothing in
  /// virtual time; between processes, and through the kernel's sockets, there is nothing but time to wait
  /// for.
  Task<> settle() { co_await engine_.sleep_for(settling_); }
  /// Ends what runs beside the link.
  Task<> finish() {
    shutdown();
    services_.cancel();
    co_await services_.join();
  }

  /// Bytes that differ from slice to slice.
  void fill(const Slice& slice, unsigned seed) {
    std::byte* const bytes = at(slice);
    for (std::size_t i = 0; i < slice.bytes; ++i) bytes[i] = pattern(i, seed);
  }
  /// Whether the slice is what fill() wrote somewhere, from the byte `from` on.
  [[nodiscard]] bool holds(const Slice& slice, unsigned seed, std::size_t from = 0) {
    const std::byte* const bytes = at(slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != pattern(from + i, seed)) return false;
    return true;
  }
  /// The sum, byte by byte, of two fillings.
  [[nodiscard]] bool holds_sum(const Slice& slice, unsigned one, unsigned other) {
    const std::byte* const bytes = at(slice);
    for (std::size_t i = 0; i < slice.bytes; ++i)
      if (bytes[i] != plus(pattern(i, one), pattern(i, other))) return false;
    return true;
  }

  [[nodiscard]] static std::byte plus(std::byte a, std::byte b) noexcept {
    return static_cast<std::byte>(std::to_integer<unsigned>(a) + std::to_integer<unsigned>(b));
  }

 private:
  static constexpr std::array kUserWindows = {WindowId::send, WindowId::recv};

  /// What a communicator's hello says, and where this rank's user windows lie, as announced when ranks meet.
  struct Hello {
    std::array<char, Introduction::kMostWords + 1> words{};
    std::array<std::byte*, kUserWindows.size()> windows{};
  };

  LinkEnd(Engine& engine, Rank rank, Duration settling) : engine_(engine), rank_(rank), settling_(settling) {
    host_.expected_peer = peer();
  }

  [[nodiscard]] static std::byte pattern(std::size_t i, unsigned seed) noexcept {
    return static_cast<std::byte>((i * 31 + (i >> 12) + seed * 101) & 0xff);
  }
  [[nodiscard]] Socket& control() noexcept { return membership_.control[peer()]; }

  void make_transport(const Choice& choice) {
    kind_ = choice.kind;
    const PeerTransports::Choice kinds{.kinds = std::span(&kind_, 1),
                                       .asked = {},
                                       .buffer_bytes = kWindowBytes,
                                       .heap_bytes = kMiB,
                                       .is_isolated = choice.is_isolated,
                                       .tcp_connections = choice.connections};
    transports_ = std::make_unique<PeerTransports>(engine_, membership_, host_, kinds);
    for (std::size_t window = 0; window < kWindows; ++window)
      host_.bind_own(static_cast<WindowId>(window), kWindowBytes);
    host::HostGroup* const group = transports_->group();
    if (group == nullptr) return;
    WindowTable& own = host_.state.windows;
    own.bind(WindowId::ccl_in, group->own().at(group->layout().ccl_in()), kWindowBytes);
    own.bind(WindowId::ccl_out, group->own().at(group->layout().ccl_out()), kWindowBytes);
  }
  Task<> introduce() {
    const Introduction said = transports_->to(peer()).introduce(peer());
    Hello hello;
    said.words.copy(hello.words.data(), Introduction::kMostWords);
    for (std::size_t i = 0; i < kUserWindows.size(); ++i) hello.windows[i] = at({kUserWindows[i], 0, 0});
    const bool is_sent = co_await control().pass(std::as_bytes(std::span(&hello, 1)), said.descriptors);
    EXPECT_TRUE(is_sent);
    Hello heard;
    std::vector<Descriptor> passed;
    const auto into = std::as_writable_bytes(std::span(&heard, 1));
    const bool has_come = co_await control().receive(into, passed, Introduction::kMostDescriptors);
    if (!has_come) throw Error(ErrorKind::PeerDied, "the other end left before its introduction");
    transports_->to(peer()).meet(peer(), heard.words.data(), std::move(passed));
    host::HostGroup* const group = transports_->group();
    if (group == nullptr || !group->is_in_process(peer())) co_return;
    for (std::size_t i = 0; i < kUserWindows.size(); ++i)
      group->windows(peer()).bind(kUserWindows[i], heard.windows[i], kWindowBytes);
  }

  Engine& engine_;
  const Rank rank_;
  const Duration settling_;
  TransportKind kind_{};
  FakeHost host_;
  Membership membership_;
  std::unique_ptr<PeerTransports> transports_;
  std::unique_ptr<Link> link_;
  TaskScope services_;
};

inline Slice in_send(std::size_t bytes, std::size_t at = 0) { return {WindowId::send, at, bytes}; }
inline Slice in_recv(std::size_t bytes, std::size_t at = 0) { return {WindowId::recv, at, bytes}; }
inline Slice in_ccl_in(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_in, at, bytes}; }
inline Slice in_ccl_out(std::size_t bytes, std::size_t at = 0) { return {WindowId::ccl_out, at, bytes}; }

/// Adds bytes; says that its elements are as large as asked for, and checks that it is only given whole ones.
inline Reducer adder(std::uint8_t element_bytes) {
  const auto fold = [](const Reducer& self, std::byte* inout, const std::byte* in,
                       std::size_t bytes) noexcept {
    EXPECT_EQ(bytes % self.element_bytes, 0U);
    for (std::size_t i = 0; i < bytes; ++i) inout[i] = LinkEnd::plus(inout[i], in[i]);
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

}  // namespace cohort::test
