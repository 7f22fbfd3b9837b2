// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedule/carrying.h>

#include <cohort/collectives/schedule/maybe_empty.h>
#include <cohort/collectives/schedule/share_exchange.h>

namespace cohort {
namespace {

/// In the last phase, in which who has nothing to send is heard of all the same.
Task<> exchange_or_signal(Exec& x, Link& link, Slice out, Slice in) {
  co_await x.streams().fork_join(send_or_post(link, out), receive_or_wait(link, in));
}

}  // namespace

Carrying::Carrying(Exec& x, const HostVectors& vectors)
    : x_(x),
      vectors_(vectors),
      host_(vectors.hosts().host_of(x.rank())),
      place_(vectors.hosts().place_of(x.rank())),
      size_(vectors.hosts().size_of(host_)) {
  const Rank count = vectors_.hosts().count();
  std::size_t before = 0;
  for (Rank host = 0; host < count; ++host) {
    before += carried(place_, host).begin;
    bytes_ += carried(size_ - 1, host).end;
  }
  at_.reserve(count + std::size_t{1});
  at_.push_back(before);
  for (Rank host = 0; host < count; ++host) at_.push_back(at_.back() + carried(place_, host).bytes());
  x_.inside().use_scratch_from(bytes_);
  find_partners();
}

void Carrying::find_partners() {
  const Hosts& hosts = vectors_.hosts();
  for (Rank distance = 1; distance < hosts.count(); ++distance) {
    const Rank host = (host_ + distance) % hosts.count();
    const std::uint64_t theirs = hosts.size_of(host);
    const std::uint64_t end = (place_ + std::uint64_t{1}) * theirs;
    for (std::uint64_t place = place_ * theirs / size_; place * size_ < end; ++place)
      partners_.push_back({host, static_cast<Rank>(place)});
  }
}

std::span<const Carrying::Partner> Carrying::partners_on(Rank host) const {
  const auto first = std::ranges::find(partners_, host, &Partner::host);
  const auto last =
      std::find_if(first, partners_.end(), [&](const Partner& one) { return one.host != host; });
  return {first, last};
}

Link& Carrying::link_to(const Partner& partner) {
  return x_.link(vectors_.hosts().ranks_of(partner.host)[partner.place]);
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

Slice Carrying::of_host(Rank host) const { return x_.scratch(at_[host], at_[host + 1] - at_[host]); }

Slice Carrying::carried_for(const Partner& partner) const {
  const HostVectors::Range mine = carried(place_, partner.host);
  const Rank parts = vectors_.hosts().size_of(partner.host);
  const HostVectors::Range common = mine.common_with(vectors_.part(partner.host, partner.place, parts));
  return of_host(partner.host).part(common.begin - mine.begin, common.bytes());
}

HostVectors::Range Carrying::own_range_of(const Partner& partner) const {
  const HostVectors::Range mine = carried(place_, host_);
  const Rank parts = vectors_.hosts().size_of(partner.host);
  const HostVectors::Range common = mine.common_with(vectors_.part(host_, partner.place, parts));
  return {common.begin - mine.begin, common.end - mine.begin};
}

Slice Carrying::own_for(const Partner& partner) const {
  const HostVectors::Range range = own_range_of(partner);
  return own().part(range.begin, range.bytes());
}

Slice Carrying::received_from(const Partner& partner) const {
  const HostVectors::Range range = own_range_of(partner);
  return x_.scratch(bytes_ + partner.host * own().bytes + range.begin, range.bytes());
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
    return exchange_slices(x_, link_to(with), carried_for(with), received_from(with));
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

Task<> Carrying::spread() {
  Exec& inside = x_.inside();
  auto swap_across = [&](const Partner& with) -> Task<> {
    return exchange_or_signal(x_, link_to(with), own_for(with), carried_for(with));
  };
  const Slice mine = (*this)(place_);
  auto swap_inside = [&](Rank peer) -> Task<> {
    return exchange_or_signal(inside, inside.link(peer), mine, (*this)(peer));
  };
  co_await x_.fork_join(partners_, swap_across);
  co_await inside.fork_join(inside.peers(), swap_inside);
}

Task<> Carrying::scatter_from(Rank host) {
  auto give = [&](const Partner& to) -> Task<> { return send_slice(link_to(to), carried_for(to)); };
  auto take = [&](const Partner& from) -> Task<> { return receive_slice(link_to(from), own_for(from)); };
  if (host == host_)
    co_await x_.fork_join(partners_, give);
  else
    co_await x_.fork_join(partners_on(host), take);
}

Task<> Carrying::gather_to(Rank host) {
  auto give = [&](const Partner& to) -> Task<> { return send_slice(link_to(to), own_for(to)); };
  auto take = [&](const Partner& from) -> Task<> { return receive_slice(link_to(from), carried_for(from)); };
  if (host == host_)
    co_await x_.fork_join(partners_, take);
  else
    co_await x_.fork_join(partners_on(host), give);
}

}  // namespace cohort
