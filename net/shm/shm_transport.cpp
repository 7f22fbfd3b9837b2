// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/shm/shm_transport.h>

#include <cohort/net/host/host_group.h>
#include <cohort/net/shm/shm_link.h>
#include <cohort/net/shm/shm_packets.h>

namespace cohort::shm {
namespace {

/// The segments and what wakes ranks are the group's; here are the links over them.
class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const TransportUse& use) noexcept
      : group_(*use.group), host_(use.host), is_of_root_(use.root == nullptr) {}

  [[nodiscard]] Introduction introduce(Rank) const override {
    return {.words = {}, .descriptors = group_.descriptors_for_peers()};
  }
  void meet(Rank peer, std::string_view, std::vector<Descriptor> descriptors) override {
    group_.adopt(peer, std::move(descriptors));
  }
  void start(TaskScope& services) override {
    if (is_of_root_) services.spawn(group_.listen());
  }

  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override {
    co_return std::make_unique<ShmLink>(group_, host_, peer, lane);
  }
  [[nodiscard]] std::unique_ptr<PacketChannel> open_packets(Rank peer, PacketHandler&, TaskScope&) override {
    return std::make_unique<ShmPackets>(group_, host_, peer);
  }

 private:
  host::HostGroup& group_;
  LinkOwner& host_;
  const bool is_of_root_;  ///< which rings and listens for its groups, too
};

}  // namespace

TransportKind transport_kind() noexcept {
  return {.name = "shm",
          .can = {.maps_memory = true, .reads_memory = true},
          .reaches = [](const Membership& membership, Rank peer) { return membership.shares_host(peer); },
          .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
            return std::make_unique<ShmTransport>(use);
          }};
}

}  // namespace cohort::shm
