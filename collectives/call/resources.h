// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedule/algorithm.h>
#include <cohort/net/host/host_group.h>
#include <cohort/net/tcp/data_connection.h>

#include <map>
#include <memory>

namespace cohort {

namespace tcp {
class TcpLink;
}

enum class Transport : std::uint8_t { shm, tcp };
std::string_view to_string(Transport transport) noexcept;

/// What asks for resources: looked up by this, computed and created on first use only.
struct ResourceTag {
  const AnyAlgorithm* algorithm;
  std::uint8_t size_class;  ///< log2 of the piece's bytes
  auto operator<=>(const ResourceTag&) const = default;
};

/// What schedules run on, kept for the life of a communicator: links by peer and lane, CCL buffers, scratch.
class Resources : Immovable {
 public:
  Resources(Engine& engine, Membership& membership, LinkHost& host, Transport transport,
            std::size_t buffer_bytes, std::size_t heap_bytes);
  ~Resources();

  [[nodiscard]] Transport transport() const noexcept { return transport_; }
  [[nodiscard]] std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  /// Null where the ranks do not share memory.
  [[nodiscard]] host::HostGroup* group() const noexcept { return group_.get(); }

  /// Starts what runs beside collectives: doorbell, acceptor.
  void start(TaskScope& services);
  /// Makes sure that what a schedule needs is there; suspends only the first time.
  [[nodiscard]] Task<> provide(ResourceTag tag, const Needs& needs);
  [[nodiscard]] bool is_provided(ResourceTag tag) const { return provided_.contains(tag); }
  /// Asserts that it was provided.
  [[nodiscard]] Link& link(Rank peer, Lane lane) noexcept;

  /// Whether an operation waits for that peer's bytes on a link that is closed.
  [[nodiscard]] bool is_cut_off(Rank peer) const noexcept;

  /// Binds ccl_in, ccl_out and scratch.
  void bind(WindowTable& windows) noexcept;
  /// Tells links that a collective starts, for frames that came early.
  void operation_started() noexcept;
  /// Breaks all links; their operations end.
  void shutdown() noexcept;

 private:
  struct AlignedFree {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  using Buffer = std::unique_ptr<std::byte, AlignedFree>;
  static Buffer allocate(std::size_t bytes);

  Task<> provide_link(Rank peer, Lane lane);
  [[nodiscard]] std::unique_ptr<Link>& place(Rank peer, Lane lane) noexcept {
    return links_[static_cast<std::size_t>(peer) * kMostLanes + lane];
  }

  Engine& engine_;
  Membership& membership_;
  LinkHost& host_;
  const Transport transport_;
  const std::size_t buffer_bytes_;

  std::unique_ptr<host::HostGroup> group_;
  std::unique_ptr<DataAcceptor> acceptor_;
  TaskScope* services_ = nullptr;
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<tcp::TcpLink*> tcp_links_;
  Buffer ccl_in_;
  Buffer ccl_out_;
  Buffer scratch_;
  std::size_t scratch_bytes_ = 0;
  std::map<ResourceTag, Needs> provided_;
};

}  // namespace cohort
