// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_state.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/process.h>
#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace cohort {
namespace {

template <std::size_t N>
std::array<std::byte, N> hash_of(std::span<const std::byte> bytes) {
  const crypto::Digest digest = crypto::sha256(bytes);
  std::array<std::byte, N> first{};
  std::copy_n(digest.begin(), N, first.begin());
  return first;
}

std::uint64_t number_of(std::string_view text) {
  return std::bit_cast<std::uint64_t>(
      hash_of<sizeof(std::uint64_t)>(std::as_bytes(std::span(text.data(), text.size()))));
}

/// Another machine is another host.
std::array<std::byte, 16> host_id(Engine& engine, const JoinOptions& asked) {
  const std::string fingerprint = fmt::format("{}|{}|{}|{}", engine.platform().host_fingerprint(),
                                              asked.host_id.size(), asked.host_id, asked.machine_id);
  return hash_of<16>(std::as_bytes(std::span(fingerprint)));
}

/// Ranks of one machine have its cores, whatever they say that their hosts are.
std::uint64_t machine_id(Engine& engine, std::string_view asked) {
  return number_of(fmt::format("{}|{}", engine.platform().kernel_id(), asked));
}

Address meeting_address(const JoinOptions& options) {
  try {
    return Address::parse(options.address_or_default());
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("where the ranks meet (COHORT_ADDR): {}", error.message()));
  }
}

Identity make_identity(const JoinOptions& options) {
  Identity identity;
  identity.job = job_id(options.name, options.job);
  identity.rank = options.rank;
  identity.world = options.size;
  identity.incarnation = random_incarnation();
  identity.pid = current_process();
  identity.encryption = options.encryption;
  return identity;
}

}  // namespace

JoinState::JoinState(Engine& on, JoinOptions asked)
    : engine(on),
      options(std::move(asked)),
      address(meeting_address(options)),
      where(address.to_string()),
      started(engine.now()),
      deadline(after(started, options.timeout)),
      identity(make_identity(options)) {
  membership.name = options.name;
  membership.job = identity.job;
  membership.rank = options.rank;
  membership.size = options.size;
  membership.incarnation = identity.incarnation;
  membership.encryption = identity.encryption;
  membership.host_timeout = options.host_timeout;
  membership.peers.resize(options.size);
  membership.control.resize(options.size);

  PeerInfo& self = membership.peers[options.rank];
  self.rank = options.rank;
  self.process = self.visible_process = identity.pid;
  self.incarnation = identity.incarnation;
  self.engine = engine.number();
  self.host_id = host_id(engine, options);
  self.machine_id = machine_id(engine, options.machine_id);
  self.cores = engine.platform().usable_cores();
  self.host = engine.platform().host_name();
}

std::string JoinState::elapsed() const {
  const auto seconds = std::chrono::duration_cast<std::chrono::duration<double>>(engine.now() - started);
  return fmt::format("{:.1f} s", seconds.count());
}

Identity JoinState::identity_for(Purpose purpose) const {
  Identity other = identity;
  other.purpose = purpose;
  return other;
}

void JoinState::listen(const Address& near) {
  PeerInfo& self = membership.peers[membership.rank];
  control_listener = Listener(engine, control_address(self));
  const Address host = near.is_unix() ? Address::parse("127.0.0.1:0") : near;
  try {
    membership.data_listener =
        listen_within(options.ports, host, [this](const Address& at) { return Listener(engine, at); });
    self.data_address = membership.data_listener.local_address();
  } catch (const Error& error) {
    if (!near.is_unix()) throw;
    // A network namespace without a loopback interface: shared memory does not need one.
    log(options.ports ? LogLevel::warn : LogLevel::info, "no TCP between the ranks of this host: {}",
        error.message());
  }
}

Address control_address(const PeerInfo& peer) {
  return Address::unix_abstract(fmt::format("cohort-control-{:016x}-{}", peer.incarnation, peer.rank));
}

std::string list_of_ranks(const std::vector<Rank>& ascending) {
  std::string text;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", ascending[first])
                          : fmt::format("{}-{}", ascending[first], ascending[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace cohort
