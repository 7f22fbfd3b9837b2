// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/verbs_transport.h>
#include <cohort/tests/support/fake_verbs.h>

namespace cohort::test {

/// The library below kFakeVerbsTransport, made at its first use.
inline FakeVerbs& fake_verbs_of_transport() {
  static FakeVerbs fake;
  if (fake.devices.empty()) fake.devices.push_back(FakeDevice{.gids = {FakeVerbs::ipv4(0)}});
  return fake;
}

/// With so many queue pairs for each connection.
template <std::uint8_t kPairs>
TransportKind fake_verbs_transport() {
  return {.name = "verbs",
          .can = {},
          .reaches = [](const Membership& ranks, Rank peer) { return ranks.shares_engine(peer); },
          .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
            const FakeVerbs& fake = fake_verbs_of_transport();
            const verbs::Library& library = fake.library();
            verbs::Settings settings;
            settings.pairs = kPairs;
            const verbs::Choice choice = verbs::choose_port(library, settings);
            std::unique_ptr<verbs::Device> device;
            if (use.root == nullptr)
              device = std::make_unique<verbs::Device>(library, *choice.port, settings);
            return verbs::make_transport(use, std::move(device), fake.locked_memory_limit);
          }};
}

/// The transport over RDMA between ranks of one engine, on a library that is made up.
inline const TransportKind kFakeVerbsTransport = fake_verbs_transport<1>();

}  // namespace cohort::test
