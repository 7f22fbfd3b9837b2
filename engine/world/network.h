// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/world.h>

namespace cohort::world {

/// The sockets of one process. All processes of a host are threads of this very process, to each other too.
class WorldNetwork final : public Network {
 public:
  WorldNetwork(World& world, Process process) : world_(world), process_(process) {}

  int open(const Address&) override { return world_.sockets().open(process_); }
  int listen(int socket, const Address& at) override { return world_.sockets().listen(socket, at); }
  void own(int socket) noexcept override { world_.sockets().guard(socket); }
  int accept(int socket) override { return world_.sockets().accept(socket); }
  void close(int socket) noexcept override { world_.sockets().close(socket); }
  int send(int socket, std::span<const std::byte> first, std::span<const std::byte> second) noexcept override;
  int receive(int socket, std::span<std::byte> into) noexcept override;
  int unacknowledged(int socket) noexcept override { return world_.sockets().unacknowledged(socket); }
  Duration silence(int socket) noexcept override { return world_.sockets().silence(socket); }
  void shutdown(int socket) noexcept override { world_.sockets().shutdown(socket); }
  void set_no_delay(int) noexcept override {}
  void set_buffer_bytes(int, std::size_t) noexcept override {}
  int peer_credentials(int socket, PeerCredentials& into) override;
  int local_address(int socket, Address& into) override {
    return world_.sockets().local_address(socket, into);
  }
  int remote_address(int socket, Address& into) override {
    return world_.sockets().remote_address(socket, into);
  }

 private:
  World& world_;
  const Process process_;
};

}  // namespace cohort::world
