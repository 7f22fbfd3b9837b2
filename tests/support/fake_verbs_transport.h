// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/verbs/verbs_transport.h>
#include <cohort/tests/support/fake_verbs.h>

namespace cohort::test {

/// The transport over RDMA between ranks of one engine, on a library that is made up.
inline const TransportKind kFakeVerbsTransport = {
    .name = "verbs",
    .can = {},
    .reaches = [](const Membership& ranks, Rank peer) { return ranks.shares_engine(peer); },
    .make = [](const TransportUse& use) -> std::unique_ptr<Transport> {
      static FakeVerbs fake;
      if (fake.devices.empty()) fake.devices.push_back(FakeDevice{.gids = {FakeVerbs::ipv4(0)}});
      const verbs::Settings settings;
      const verbs::Choice choice = verbs::choose_port(fake.library(), settings);
      return verbs::make_transport(use,
                                   std::make_unique<verbs::Device>(fake.library(), *choice.port, settings));
    }};

}  // namespace cohort::test
