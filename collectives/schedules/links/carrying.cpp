// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/links/carrying.h>

#include <cohort/collectives/schedules/links/block_exchange.h>
#include <cohort/collectives/schedules/links/share_exchange.h>

namespace cohort {

std::size_t HostVectors::bytes_before(Rank host, Rank index, Rank parts) const noexcept {
  const std::span<const Rank> ranks = hosts_.ranks_of(host);
  const std::size_t at = std::size_t{index} * ranks.size();
  const std::size_t whole = at / parts;
  std::size_t bytes = 0;
  for (const Rank rank : ranks.first(whole)) bytes += blocks_->bytes_of(rank);
  if (whole == ranks.size()) return bytes;
  const std::size_t elements = blocks_->bytes_of(ranks[whole]) / element_bytes_;
  return bytes + elements * (at % parts) / parts * element_bytes_;
}

Carrying::Carrying(Exec& x, const HostVectors& vectors)
    : x_(x),
      vectors_(vectors),
      host_(vectors.hosts().host_of(x.rank())),
      place_(vectors.hosts().place_of(x.rank())),
      size_(vectors.hosts().size_of(host_)),
      by_host_(x.lease_places()),
      partners_(x.lease_places()) {
  const Rank count = vectors_.hosts().count();
  std::size_t at = 0;
  for (Rank host = 0; host < count; ++host) {
    at += carried(place_, host).begin;
    bytes_ += carried(size_ - 1, host).end;
  }
  for (Rank host = 0; host < count; ++host) {
    const std::size_t bytes = carried(place_, host).bytes();
    by_host_.push_back({x.here(), x.scratch(at, bytes)});
    at += bytes;
  }
  x_.inside().use_scratch_from(bytes_);
  find_partners();
}

Carrying::~Carrying() {
  x_.give_back(std::move(by_host_));
  x_.give_back(std::move(partners_));
}

void Carrying::find_partners() {
  const Hosts& hosts = vectors_.hosts();
  for (Rank distance = 1; distance < hosts.count(); ++distance) {
    const Rank host = (host_ + distance) % hosts.count();
    const std::uint64_t theirs = hosts.size_of(host);
    const std::uint64_t end = (place_ + std::uint64_t{1}) * theirs;
    const HostVectors::Range mine = carried(place_, host);
    for (std::uint64_t place = place_ * theirs / size_; place * size_ < end; ++place) {
      const auto part = vectors_.part(host, static_cast<Rank>(place), hosts.size_of(host));
      const HostVectors::Range common = mine.common_with(part);
      partners_.push_back(
          {hosts.ranks_of(host)[place], of_host(host).part(common.begin - mine.begin, common.bytes())});
    }
  }
}

std::span<const Carrying::Partner> Carrying::partners_on(Rank host) const {
  const auto is_there = [&](const Partner& one) { return vectors_.hosts().host_of(one.rank) == host; };
  const auto first = std::ranges::find_if(partners_, is_there);
  const auto last = std::find_if_not(first, partners_.end(), is_there);
  return {first, last};
}

Slice Carrying::operator()(Rank place) const {
  std::size_t begin = 0;
  std::size_t end = 0;
  for (Rank host = 0; host < vectors_.hosts().count(); ++host) {
    const HostVectors::Range part = carried(place, host);
    begin += part.begin;
    end += part.end;
  }
  return x_.scratch(begin, end - begin);
}

HostVectors::Range Carrying::own_range_of(const Partner& partner) const {
  const HostVectors::Range mine = carried(place_, host_);
  const Hosts& hosts = vectors_.hosts();
  const Rank parts = hosts.size_of(hosts.host_of(partner.rank));
  const HostVectors::Range common =
      mine.common_with(vectors_.part(host_, hosts.place_of(partner.rank), parts));
  return {common.begin - mine.begin, common.end - mine.begin};
}

Slice Carrying::own_for(const Partner& partner) const {
  const HostVectors::Range range = own_range_of(partner);
  return own().part(range.begin, range.bytes());
}

Slice Carrying::received_from(const Partner& partner) const {
  const HostVectors::Range range = own_range_of(partner);
  return x_.scratch(bytes_ + vectors_.hosts().host_of(partner.rank) * own().bytes + range.begin,
                    range.bytes());
}

Task<> Carrying::combine(Slice result, Combine combine) {
  const bool is_one_host = vectors_.hosts().count() == 1;
  Combine first = combine;
  if (!is_one_host) first.average_over = 0;
  const Slice sums = is_one_host ? result : (*this)(place_);
  if (size_ > 1) co_await exchange_shares(x_.inside(), *this, sums, first);
  if (!is_one_host) co_await combine_across(result, combine);
}

Task<> Carrying::combine_across(Slice result, Combine combine) {
  auto swap = [&](const Partner& with) -> Task<> {
    return exchange_slices(x_, link_to(with), with.slice, received_from(with));
  };
  co_await x_.fork_join(partners_, swap);
  std::vector<PlacedSlice> inputs = x_.lease_places();
  const std::size_t bytes = own().bytes;
  for (Rank host = 0; host < vectors_.hosts().count(); ++host)
    inputs.push_back({x_.here(), x_.scratch(bytes_ + host * bytes, bytes)});
  inputs[host_].slice = own();
  const PlacedSlice output{x_.here(), result};
  co_await x_.reduce(std::span(&output, 1), inputs, combine);
  x_.give_back(std::move(inputs));
}

// Who has nothing to send is heard of all the same: it is the last phase.
Task<> Carrying::spread() {
  auto swap_across = [&](const Partner& with) -> Task<> {
    return exchange_or_signal(x_, link_to(with), own_for(with), with.slice);
  };
  co_await x_.fork_join(partners_, swap_across);
  co_await spread_or_signal(x_.inside(), *this);
}

Task<> Carrying::scatter_from(Rank host) {
  auto give = [&](const Partner& to) -> Task<> { return send_slice(link_to(to), to.slice); };
  auto take = [&](const Partner& from) -> Task<> { return receive_slice(link_to(from), own_for(from)); };
  if (host == host_)
    co_await x_.fork_join(partners_, give);
  else
    co_await x_.fork_join(partners_on(host), take);
}

Task<> Carrying::gather_to(Rank host) {
  auto give = [&](const Partner& to) -> Task<> { return send_slice(link_to(to), own_for(to)); };
  auto take = [&](const Partner& from) -> Task<> { return receive_slice(link_to(from), from.slice); };
  if (host == host_)
    co_await x_.fork_join(partners_, take);
  else
    co_await x_.fork_join(partners_on(host), give);
}

}  // namespace cohort
