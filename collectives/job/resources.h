// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/engine/system/shared_memory.h>
#include <cohort/net/peer_transports.h>

#include <cstdlib>
#include <map>
#include <memory>

namespace cohort {

/// What asks for resources: looked up by this, computed and created on first use only.
struct ResourceTag {
  const AnyAlgorithm* algorithm;
  std::uint8_t size_class;  ///< log2 of the piece's bytes
  auto operator<=>(const ResourceTag&) const = default;
};

/// What schedules run on, kept for the life of a communicator: links by peer and lane, CCL buffers, scratch,
/// and the memory of the heap.
class Resources : Immovable {
 public:
  /// Where the communicator's heap lies.
  struct HeapPlace {
    SharedMemory& memory;
    std::size_t offset;
    std::size_t bytes;
  };

  /// Throws InvalidArgument, Unsupported, ResourceLimit. `within`: of a group, which has no heap of its own.
  Resources(Engine& engine, Membership& membership, LinkOwner& host, const PeerTransports::Choice& choice,
            const PeerTransports::Within* within = nullptr);
  ~Resources();

  [[nodiscard]] PeerTransports& transports() noexcept { return transports_; }
  [[nodiscard]] const PeerTransports& transports() const noexcept { return transports_; }
  /// The ranks whose memory is mapped here; null if there are none.
  [[nodiscard]] host::HostGroup* group() noexcept { return transports_.group(); }
  [[nodiscard]] const host::HostGroup* group() const noexcept { return transports_.group(); }
  /// Whether every rank's memory is mapped here: one host has all of them.
  [[nodiscard]] bool is_host_wide() const noexcept { return is_host_wide_; }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  [[nodiscard]] std::size_t heap_bytes() const noexcept { return heap_bytes_; }
  /// Whether ranks of this process are reached as if they were in others.
  [[nodiscard]] bool is_isolated() const noexcept { return is_isolated_; }
  /// Mapped by the group, where there is one; else this rank's own. Not for a group within a communicator.
  [[nodiscard]] HeapPlace heap() noexcept;

  /// Starts what runs beside collectives.
  void start(TaskScope& services) { transports_.start(services); }
  /// Makes sure that what a schedule needs is there; suspends only the first time.
  [[nodiscard]] Task<> provide(ResourceTag tag, const Needs& needs);
  [[nodiscard]] bool is_provided(ResourceTag tag) const { return provided_.contains(tag); }
  /// Asserts that it was provided.
  [[nodiscard]] Link& link(Rank peer, Lane lane) noexcept;

  /// Whether an operation waits for that peer's bytes on a link that is closed.
  [[nodiscard]] bool is_cut_off(Rank peer) const noexcept { return transports_.is_cut_off(peer); }

  /// Binds ccl_in, ccl_out and scratch.
  void bind(WindowTable& windows) noexcept;
  /// Tells links that a collective starts, for what came early.
  void operation_started() noexcept { transports_.collective_started(); }
  /// As Transport::until_sent().
  [[nodiscard]] Task<> until_sent() { return transports_.until_sent(); }
  /// Breaks all links; their operations end.
  void shutdown() noexcept { transports_.shutdown(); }

 private:
  struct AlignedFree {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  using Buffer = std::unique_ptr<std::byte, AlignedFree>;
  static Buffer allocate(std::size_t bytes);

  void place_memory();
  void provide_scratch(std::size_t bytes);
  Task<> provide_link(Rank peer, Lane lane);
  [[nodiscard]] std::unique_ptr<Link>& place(Rank peer, Lane lane) noexcept {
    return links_[static_cast<std::size_t>(peer) * kMostLanes + lane];
  }

  const Membership& membership_;
  const std::size_t buffer_bytes_;
  const std::size_t heap_bytes_;
  const bool is_isolated_;
  const bool has_heap_;
  PeerTransports transports_;
  const bool is_host_wide_;

  // Where no peer maps them; else they lie in this rank's segment of the group.
  Buffer private_buffers_[2];
  SharedMemory private_heap_;

  std::byte* ccl_in_ = nullptr;
  std::byte* ccl_out_ = nullptr;
  Buffer scratch_;
  std::size_t scratch_bytes_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<ResourceTag, Needs> provided_;
};

}  // namespace cohort
