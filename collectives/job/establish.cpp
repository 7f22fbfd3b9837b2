// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/job/establish.h>

#include <cohort/collectives/calibration/known_figures.h>
#include <cohort/engine/assert.h>
#include <cohort/engine/system/descriptor_limit.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace cohort {
namespace {

/// What a transport may say; what it says is read with text_for_people().
bool is_plain(std::string_view words) {
  return std::ranges::all_of(words,
                             [](char letter) { return letter >= ' ' && letter <= '~' && letter != '|'; });
}

/// What stands in the text of a hello: "transport|words|speed|access|host|switches|bandwidth".
struct HelloText {
  std::string transport;  ///< the name of the kind that was chosen for the receiver
  std::string words;      ///< its own
  std::string speed;      ///< LinkSpeed; empty where all memory is mapped
  std::string access;     ///< "isolated", or "direct": how ranks of one process reach each other
  std::string host;       ///< the first of the ranks that share memory with the sender
  std::string switches;   ///< how many hosts are below each
  std::string bandwidth;  ///< of the network of the sender's host

  [[nodiscard]] std::string text() const {
    return fmt::format("{}|{}|{}|{}|{}|{}|{}", transport, words, speed, access, host, switches, bandwidth);
  }

  /// Throws ProtocolError for anything that text() does not write.
  static HelloText parse(std::string_view text) {
    std::array<std::string, 7> fields;
    std::size_t field = 0;
    for (const char letter : text) {
      if (letter != '|')
        fields[field] += letter;
      else if (++field == fields.size())
        break;
    }
    if (field + 1 != fields.size())
      throw Error(ErrorKind::ProtocolError, fmt::format("a hello says '{}', which is no such text", text));
    return {fields[0], fields[1], fields[2], fields[3], fields[4], fields[5], fields[6]};
  }
};

/// One exchange, on the side of one rank.
class Exchange : Immovable {
 public:
  Exchange(const Membership& membership, Resources& resources, const std::optional<LinkSpeed>& own_speed)
      : membership_(membership), resources_(resources), said_(membership.size) {
    const PeerTransports& transports = resources.transports();
    said_[membership.rank] = {transports.ranks_of_host().front(), transports.host_bandwidth()};
    if (!own_speed) return;
    own_speed_ = own_speed->text();
    speeds_.push_back(LinkSpeed::parse(own_speed_));  // as the others will read it
  }

  /// For this rank itself: what is passed on to those that are no neighbours.
  [[nodiscard]] ControlPlane::Hello hello_for(Rank peer) {
    PeerTransports& transports = resources_.transports();
    if (peer == membership_.rank) {
      const HelloText text = said_to_all({}, {});
      ControlPlane::Hello hello;
      hello.message.sequence = resources_.buffer_bytes();
      hello.message.set_text(text.text());
      return hello;
    }
    Introduction introduction = transports.to(peer).introduce(peer);
    const HelloText text = said_to_all(std::string(transports.name_for(peer)), std::move(introduction.words));
    COHORT_ASSERT(is_plain(text.words), "transport {} says '{}', which does not fit a hello", text.transport,
                  text.words);
    COHORT_ASSERT(text.words.size() <= Introduction::kMostWords &&
                      introduction.descriptors.size() <= Introduction::kMostDescriptors,
                  "transport {} says {} characters and passes {} descriptors", text.transport,
                  text.words.size(), introduction.descriptors.size());
    ControlPlane::Hello hello{.message = agreed_with(peer),
                              .descriptors = std::move(introduction.descriptors)};
    COHORT_ASSERT(text.text().size() < hello.message.text.size(), "'{}' does not fit a hello", text.text());
    hello.message.set_text(text.text());
    return hello;
  }

  void take(Rank peer, const ControlMessage& theirs, std::vector<Descriptor> descriptors) {
    try {
      const HelloText text = HelloText::parse(theirs.text_for_people());
      check(peer, theirs, text);
      said_[peer] = {parse<Rank>("the first rank of its host", text.host, membership_.size - 1),
                     parse<std::uint32_t>("the bandwidth of its host", text.bandwidth, kMostHostBandwidth)};
      if (!theirs.is_passed_on())
        resources_.transports().to(peer).meet(peer, text.words, std::move(descriptors));
      if (!speeds_.empty()) speeds_.push_back(LinkSpeed::parse(text.speed));
    } catch (const Error& error) {
      throw blamed_on(error, membership_.rank, peer);
    }
  }

  /// Once all have said theirs.
  void learn_hosts() { resources_.transports().learn_hosts(membership_, said_); }

  [[nodiscard]] std::optional<LinkSpeed> agreed_speed() const {
    return speeds_.empty() ? std::nullopt : std::optional(LinkSpeed::agreed(speeds_));
  }

 private:
  /// Throws ProtocolError for what is no number, or above `most`.
  template <class T>
  [[nodiscard]] static T parse(std::string_view what, std::string_view text, T most) {
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value > most)
      throw Error(ErrorKind::ProtocolError,
                  fmt::format("a hello says that {} is '{}', which is no number up to {}", what, text, most));
    return value;
  }
  [[nodiscard]] HelloText said_to_all(std::string transport, std::string words) const {
    return {std::move(transport),
            std::move(words),
            own_speed_,
            access(),
            fmt::format("{}", said_[membership_.rank].first),
            switches(),
            fmt::format("{}", said_[membership_.rank].bandwidth)};
  }
  [[nodiscard]] std::string switches() const {
    return fmt::format("{}", resources_.transports().hosts_per_switch());
  }
  [[nodiscard]] std::string access() const { return resources_.is_isolated() ? "isolated" : "direct"; }

  /// The numbers of a hello: the CCL buffer's size, and the heap's where its layout must be the same.
  [[nodiscard]] ControlMessage agreed_with(Rank peer) const {
    ControlMessage message;
    message.sequence = resources_.buffer_bytes();
    message.signature.count =
        resources_.transports().capabilities(peer).maps_memory ? resources_.heap_bytes() : 0;
    return message;
  }

  void check(Rank peer, const ControlMessage& theirs, const HelloText& text) const {
    const auto refuse = [&](std::string_view what, std::string_view variable, const auto& their_value,
                            const auto& my_value) {
      throw Error(
          ErrorKind::Mismatch,
          fmt::format("{} differs: {} has {}, rank {} has {}; give all ranks the same {}", what,
                      membership_.peers[peer].describe(), their_value, membership_.rank, my_value, variable))
          .with_culprit(peer);
    };
    const ControlMessage mine = agreed_with(peer);
    const std::string_view name = resources_.transports().name_for(peer);
    // What is passed on is said to all: which transport it is each has from neighbours on other hosts.
    const bool is_of_pair = !theirs.is_passed_on();
    if (is_of_pair && text.transport != name) refuse("transport", "COHORT_TRANSPORT", text.transport, name);
    if (theirs.sequence != mine.sequence)
      refuse("CCL buffer size", "COHORT_BUFFSIZE", theirs.sequence, mine.sequence);
    if (is_of_pair && theirs.signature.count != mine.signature.count)
      refuse("shared heap size", "COHORT_HEAPSIZE", theirs.signature.count, mine.signature.count);
    if (text.access != access())
      refuse("access to ranks of one process", "is_isolated", text.access, access());
    if (text.switches != switches())
      refuse("number of hosts below a switch", "COHORT_HOSTS_PER_SWITCH", text.switches, switches());
  }

  const Membership& membership_;
  Resources& resources_;
  std::string own_speed_;
  std::vector<LinkSpeed> speeds_;
  std::vector<PeerTransports::SaidOfHost> said_;  ///< by rank
};

/// What links cost a core here: as an earlier job has measured it under the same conditions, or else measured
/// now, and kept by the first rank of the host.
Task<LinkSpeed> speed_of_links(Engine& engine, const Membership& membership, double ranks_per_core,
                               Duration budget) {
  Rank here = 0;
  Rank first = membership.rank;
  for (Rank peer = membership.size; peer-- > 0;) {
    if (!membership.shares_host(peer)) continue;
    first = peer;
    ++here;
  }
  const KnownFigures known(engine.platform(), fmt::format("{}ranks/{:.3g}percore", here, ranks_per_core));
  if (std::optional<LinkSpeed> kept = known.speed()) {
    kept->ranks_per_core = ranks_per_core;
    kept->cache_bytes = engine.platform().core_cache_bytes();
    kept->keeps_figures = true;
    co_return *kept;
  }
  const LinkSpeed measured = co_await LinkSpeed::measure(engine, ranks_per_core, budget);
  if (measured.is_measured && first == membership.rank) known.keep(measured);
  co_return measured;
}

}  // namespace

Task<std::optional<LinkSpeed>> exchange_hellos(Engine& engine, const Membership& membership,
                                               ControlPlane& control, Resources& resources,
                                               TaskScope& services, double ranks_per_core, Duration budget) {
  std::optional<LinkSpeed> own_speed;
  if (!resources.is_host_wide() && membership.size > 1) {
    const LinkSpeed speed = co_await speed_of_links(engine, membership, ranks_per_core, budget);
    own_speed = speed;
  }
  Exchange exchange(membership, resources, own_speed);
  const ControlPlane::HelloFor hello_for = [&](Rank peer) { return exchange.hello_for(peer); };
  const ControlPlane::Taken taken = [&](Rank peer, const ControlMessage& theirs,
                                        std::vector<Descriptor> descriptors) {
    exchange.take(peer, theirs, std::move(descriptors));
  };
  if (membership.is_sparse()) resources.transports().connections().start(services);
  co_await control.exchange_hellos(hello_for, taken, services);
  exchange.learn_hosts();
  co_return exchange.agreed_speed();
}

Error silence_at_joining(const Membership& membership, std::optional<Rank> silent, bool waits_for_room) {
  const std::string head = fmt::format("joining '{}': all ranks came, but ", membership.name);
  if (waits_for_room)
    return Error(
        ErrorKind::ResourceLimit,
        fmt::format("{}too many descriptors that processes of this user pass to each other were on "
                    "their way until the time was over: a process that was stopped may hold them up; "
                    "at most {} may be, so else raise the limit on open files (ulimit -n)",
                    head, descriptor_limit::current()));
  if (!silent)
    return Error(ErrorKind::DeadlineExceeded,
                 head + "the time was over before all was measured; give it more (COHORT_JOIN_TIMEOUT)");
  return Error(ErrorKind::PeerSilent, fmt::format("{}{} did not answer in time: it is stopped, or hangs, or "
                                                  "the network between us does",
                                                  head, membership.peers[*silent].describe()))
      .with_culprit(*silent);
}

Error silence_in_group(const Membership& group, std::optional<Rank> silent, const Wording& wording) {
  const std::string who = silent ? group.peers[*silent].describe() : std::string("nobody in particular");
  const Error error(
      ErrorKind::DeadlineExceeded,
      fmt::format("group '{}' was not ready in time: all ranks have made it, and no answer came "
                  "from {}; find out what that rank does instead, or give calls more time "
                  "({})",
                  group.name, who, wording.timeout));
  return silent ? error.with_culprit(*silent) : error;
}

}  // namespace cohort
