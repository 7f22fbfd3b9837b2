// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/network.h>

#include <cohort/engine/system/host.h>

#include <unistd.h>

#include <cerrno>

namespace cohort::world {

int WorldNetwork::send(int socket, std::span<const std::byte> first,
                       std::span<const std::byte> second) noexcept {
  world_.step(process_);
  return world_.sockets().send(socket, first, second);
}

int WorldNetwork::receive(int socket, std::span<std::byte> into) noexcept {
  std::vector<int> unwanted;
  const int result = world_.sockets().receive(socket, into, unwanted);
  for (const int descriptor : unwanted) ::close(descriptor);
  return result;
}

int WorldNetwork::peer_credentials(int socket, PeerCredentials& into) {
  if (!world_.sockets().is_unix(socket)) return -EOPNOTSUPP;
  into = {static_cast<std::uint32_t>(::getpid()), host::user_id()};
  return 0;
}

}  // namespace cohort::world
