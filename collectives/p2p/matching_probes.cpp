// SPDX-License-Identifier: Apache-2.0
// What a Matching tells of messages before somebody receives them.
#include <cohort/collectives/p2p/matching.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

namespace cohort {

std::optional<Envelope> Matching::look_now(const MessageRequest& probe) {
  if (use_.health.is_failed()) throw Error(use_.health.cause());
  open_all_of(probe);
  advance_all_of(probe);
  if (use_.health.is_failed()) throw Error(use_.health.cause());
  return find_for_probe(probe);
}

Task<Envelope> Matching::look(const MessageRequest& request) {
  Looker looker;
  lookers_.push_back(looker);
  advance_all_of(request);
  for (;;) {
    const std::optional<Envelope> found = find_for_probe(request);
    if (found) co_return *found;
    co_await looker.news.wait();
  }
}

std::optional<Envelope> Matching::find_for_probe(const MessageRequest& request) {
  const std::optional<Found> found = find_unexpected(request);
  if (!found) return std::nullopt;
  const Packet& packet = found->message->packet;
  Envelope envelope{.from = found->from, .tag = packet.tag, .bytes = packet.bytes};
  if (request.probe == MessageRequest::Probe::claims) {
    envelope.claim = ++claims_;
    auto& [from, message] = claimed_[envelope.claim];  // without memory for it the message stays where it is
    from = found->from;
    message = std::move(*found->message);
    peers_[found->from].unexpected.erase(found->message);
  }
  return envelope;
}

void Matching::match_claimed(Incoming& incoming) {
  const auto found = claimed_.find(incoming.request.claim);
  if (found == claimed_.end())
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("a recv of the claimed message {} on '{}', but there is none of that number; each "
                    "is received once",
                    incoming.request.claim, use_.membership.name));
  auto [from, message] = std::move(found->second);
  claimed_.erase(found);
  match(incoming, from, message.packet);
  if (!use_.health.is_failed()) deliver(incoming, message);
}

}  // namespace cohort
