// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/host/host_group.h>
#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>

#include <array>
#include <string>

namespace cohort::shm {

/// A link through shared memory: one-sided operations are a copy by whoever asks, signals are counters, and a
/// two-sided message is announced by the sender and pulled by the receiver.
///
/// Source memory that the receiver maps (a communicator's buffer, or any memory inside one process) is read
/// in place; private memory goes through two staging slots of 128 KiB that the sender fills while the
/// receiver empties. Both ends have met at the start of the collective (HostGroup's arrivals), where they
/// have compared their signatures: nothing here carries one.
///
/// A broken link completes nothing that waits.
class ShmLink final : public Link, private host::Watcher {
 public:
  ShmLink(host::HostGroup& group, LinkOwner& host, Rank peer, Lane lane) noexcept;
  ~ShmLink() override;

  [[nodiscard]] std::string_view transport() const noexcept override { return "shm"; }

 private:
  bool poll() noexcept override;
  bool start(LinkOperation& operation) override;
  void cancel(LinkOperation& operation) noexcept override;

  /// Does as much of an operation as can be done now; true when it is complete. `has_waited`: in a turn of
  /// its own, where it does something in any case.
  bool advance(LinkOperation& operation, bool has_waited) noexcept;
  bool advance_wait(const LinkOperation& operation) noexcept;
  /// How many collectives the oldest untaken post of a signal is ahead of the one that runs here.
  [[nodiscard]] int lead_of_next(std::size_t signal, std::uint32_t skipped = 0) const noexcept;
  /// In the first operation of a collective: nothing of an earlier one may be left.
  void begin_collective() noexcept;
  bool advance_send(LinkOperation& operation, bool has_waited) noexcept;
  bool advance_receive(LinkOperation& operation, bool has_waited) noexcept;
  bool advance_put(LinkOperation& operation, bool has_waited) noexcept;
  bool advance_get(LinkOperation& operation, bool has_waited) noexcept;
  /// Calls move(at, bytes) for what is left of `size` bytes of an operation, while the turn lasts; true: all
  /// is done. If they may be memory of the peer's user (`touches`) that was withdrawn, nothing is or counts.
  template <class Move>
  bool move_awhile(std::size_t& done, std::size_t size, bool touches, bool& has_waited, Move move) noexcept;
  /// Bytes of a peer, to where an operation has them.
  static void take(const LinkOperation::Request& request, std::byte* to, const std::byte* from,
                   std::size_t bytes) noexcept;
  void announce_piece(std::byte* at, std::size_t left_bytes, host::SendCell::Place place) noexcept;
  /// The announced piece as this process sees it; nowhere after reporting a peer that announced nonsense.
  struct Announced {
    const std::byte* at = nullptr;
    std::size_t bytes = 0;
    bool may_be_users = false;
  };
  [[nodiscard]] Announced announced(std::size_t left) noexcept;

  /// Tells the owner, once.
  void fail(const Error& error) noexcept;
  void fail_left_over(Signal signal) noexcept;

  void post(Signal signal) noexcept;
  [[nodiscard]] std::byte* local(const Slice& slice) const noexcept;
  [[nodiscard]] std::byte* remote(const Slice& slice) const noexcept;

  /// Operations that could not complete at once: one on the sending end (send, put, get), one on the
  /// receiving end, one wait per signal.
  static constexpr std::size_t kPlaces = 2 + kSignals;
  [[nodiscard]] static std::size_t place_of(const LinkOperation::Request& request) noexcept;

  host::HostGroup& group_;
  LinkOwner& host_;
  const Lane lane_;
  std::array<LinkOperation*, kPlaces> waiting_{};
  std::size_t waiting_count_ = 0;

  std::uint64_t sequence_ = 0;  ///< the collective that this link was used in last
  bool is_broken_ = false;
  std::array<std::uint32_t, kSignals> posted_{};
  std::array<std::uint32_t, kSignals> taken_{};
  std::uint32_t sent_ = 0;
  std::uint32_t received_ = 0;
  std::size_t taken_of_piece_ = 0;  ///< bytes of the announced piece that is being received
};

}  // namespace cohort::shm
