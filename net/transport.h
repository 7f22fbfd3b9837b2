// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/membership.h>
#include <cohort/net/packet.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

class DataConnections;
namespace host {
class HostGroup;
}

/// What the ranks at both ends of a transport's links can do with each other's memory.
struct Capabilities {
  bool maps_memory = false;   ///< loads and stores reach the peer's CCL buffers and shared heap
  bool reads_memory = false;  ///< the kernel copies out of the peer's process, where it is allowed to

  /// What both have.
  [[nodiscard]] Capabilities operator&(const Capabilities& other) const noexcept {
    return {.maps_memory = maps_memory && other.maps_memory,
            .reads_memory = reads_memory && other.reads_memory};
  }
  bool operator==(const Capabilities&) const = default;
};

/// What a transport says to one peer's transport of the same kind when the communicator is established.
struct Introduction {
  static constexpr std::size_t kMostWords = 256;
  static constexpr std::size_t kMostDescriptors = 2;

  std::string words;  ///< printable ASCII without '|', at most kMostWords characters
  std::vector<int>
      descriptors;  ///< at most kMostDescriptors, to peers on this host only; the transport's own
};

/// What is made with one transport: the links of a communicator to those peers that it was chosen for.
///
/// In this order: register_memory() for the CCL buffers; introduce() and meet() once for each peer, unless it
/// is a group's, or where not all ranks are connected (Membership::is_sparse()) of those on other hosts that
/// are no neighbours; start(); then the rest. Threads: the engine's. Lifetime: outlives its links, ends after
/// the services that it started have been joined. Errors: what concerns a peer names it as culprit.
class Transport : Immovable {
 public:
  virtual ~Transport() = default;

  /// What is said to that peer.
  [[nodiscard]] virtual Introduction introduce(Rank) const { return {}; }
  /// What that peer has said. Throws ProtocolError if it makes no sense.
  virtual void meet(Rank, std::string_view, std::vector<Descriptor>) {}
  /// Spawns what has to run beside collectives.
  virtual void start(TaskScope&) {}

  /// Makes a link, once for each peer and lane. The peer does the same at about the same time, so both may
  /// wait for each other. Throws LinkFault, Unsupported, AuthFailed, ...
  [[nodiscard]] virtual Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) = 0;

  /// Opens the way of messages to that peer, once. After start(). `services`: where it runs what has to run
  /// beside. Null: this kind carries none.
  [[nodiscard]] virtual std::unique_ptr<PacketChannel> open_packets(Rank, PacketHandler&, TaskScope&) {
    return nullptr;
  }

  /// Memory that schedules will name often: the CCL buffers, scratch, and what peers map of users' buffers.
  /// For transports that want to know beforehand; it is not freed before forget_memory().
  virtual void register_memory(std::span<std::byte>) {}
  virtual void forget_memory(const std::byte*) noexcept {}

  /// Whether collective_started() is to be called. Asked once: what must not slow down small messages is not
  /// asked each time.
  [[nodiscard]] virtual bool hears_of_collectives() const noexcept { return false; }
  /// The owner's running() has moved on to the next collective: what came for it early may go on.
  virtual void collective_started() noexcept {}

  /// Where their number is measured: from now on links to other hosts spread what is large over that many
  /// connections, as far as they have them, and new ones are made of `made`. Between calls, on all ranks.
  virtual void use_connections(unsigned /*spread_over*/, unsigned /*made*/) noexcept {}

  /// Whether an operation waits for that peer's bytes on a link that is closed.
  [[nodiscard]] virtual bool is_cut_off(Rank) const noexcept { return false; }
  /// Suspends until what operations that are over have sent has left this host: before shutdown(), where that
  /// would drop it. Throws only the cause of its scope.
  [[nodiscard]] virtual Task<> until_sent() { co_return; }
  /// Breaks all links, without a report: what waits on them goes on waiting, for its cancellation. Services
  /// end. Idempotent.
  virtual void shutdown() noexcept {}
};

/// Where a group is within the communicator that its ranks have joined, the root, and rides on what that one
/// has. By rank of the group:
struct GroupPlace {
  std::vector<Rank> ranks;             ///< in the root
  std::vector<GroupNumber> numbers;    ///< what each calls the group
  std::vector<std::uint64_t> regions;  ///< where its part of that rank's segment begins
};

/// What a transport is made for. All of it outlives the transport.
struct TransportUse {
  Engine& engine;
  Membership& membership;
  LinkOwner& host;
  /// Authenticated TCP connections to peers, for transports that need one to begin with, or all the time.
  DataConnections& connections;
  /// The ranks that share this host's memory; null where the kind does not map memory.
  host::HostGroup* group = nullptr;
  /// For a group: the root's transport of the same kind, and the place in the root. What was introduced
  /// there is known; start() is called, introduce() and meet() are not.
  Transport* root = nullptr;
  const GroupPlace* place = nullptr;
  /// Of each lane to another host over TCP, or kMeasuredConnections; a group's are the root's.
  unsigned tcp_connections = 1;
};

/// A kind of transport: one folder, and one line in transports.cpp.
struct TransportKind {
  std::string_view name;  ///< of COHORT_TRANSPORT, and in errors: letters and digits
  Capabilities can;       ///< with whomever it reaches
  /// Whether it may connect this rank with that one, or, for this rank itself, with anybody. The same answer
  /// at both ends. A rank alone on its host is reached by itself.
  bool (*reaches)(const Membership& membership, Rank peer);
  /// Costs memory and descriptors at most: nothing is sent before start().
  std::unique_ptr<Transport> (*make)(const TransportUse& use);
  /// Why it does not reach that one, for people. Null: for the reason that every kind could have, which is
  /// another host.
  std::string (*why_not)(const Membership& membership, Rank peer) = nullptr;
  /// The network that this host is on with devices of the kind, PeerInfo::fabric; 0: none. Asked when
  /// joining, in real worlds only. Null: the kind needs no devices.
  std::uint64_t (*fabric)() = nullptr;
  /// What this host has for it, or lacks, for people. Null: nothing that would be worth a line.
  std::string (*describe)() = nullptr;
};

}  // namespace cohort
