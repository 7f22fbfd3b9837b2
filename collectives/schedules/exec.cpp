// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/exec.h>

#include <cohort/engine/error.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace cohort {
namespace {

/// Some of the ranks of another Exec, which does the work.
class Level final : public Exec {
 public:
  /// `hosts`: of its ranks, if that is known without asking.
  Level(Exec& whole, Rank rank, std::span<const Rank> ranks, const Hosts* hosts = nullptr)
      : Exec(whole, rank, ranks), known_hosts_(hosts) {
    own_plan().stage_bytes = whole.ccl_bytes();
  }

  [[nodiscard]] const Hosts& hosts() const override {
    if (known_hosts_ != nullptr) return *known_hosts_;
    if (!hosts_) hosts_ = whole().hosts().among(ranks());
    return *hosts_;
  }
  [[nodiscard]] Link& link(Rank peer, Lane lane) override { return whole().link(ranks()[peer], lane); }
  [[nodiscard]] std::size_t ccl_bytes() const noexcept override { return whole().ccl_bytes(); }
  [[nodiscard]] bool has_memory() const noexcept override { return whole().has_memory(); }
  [[nodiscard]] Task<> pull(Rank, Slice, Slice) override { refuse("pull()"); }
  [[nodiscard]] Task<> push(Rank, Slice, Slice) override { refuse("push()"); }
  [[nodiscard]] Reducer reducer(const Combine& combine) const noexcept override {
    return whole().reducer(combine);
  }
  [[nodiscard]] Task<> phase() override { refuse("phase()"); }
  void perform(const LocalStep& step) override { whole().perform(step); }
  [[nodiscard]] bool perform_awhile(LocalStep& step) override { return whole().perform_awhile(step); }
  [[nodiscard]] Task<> perform_rest(LocalStep& step) override { return whole().perform_rest(step); }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw Error(ErrorKind::InvalidArgument,
                std::string(what) +
                    " is for all ranks of a communicator, not for those of a level; let a "
                    "schedule on levels use links");
  }

  const Hosts* known_hosts_;
  mutable std::optional<Hosts> hosts_;  ///< made when first asked for: hardly any schedule does
};

}  // namespace

Exec::Exec(Rank rank, Rank size, StreamWatcher* watcher)
    : rank_(rank),
      size_(size),
      whole_(*this),
      here_(rank),
      own_streams_(std::in_place, watcher),
      streams_(*own_streams_) {}

Exec::Exec(Exec& whole, Rank rank, std::span<const Rank> ranks) noexcept
    : rank_(rank),
      size_(static_cast<Rank>(ranks.size())),
      whole_(whole),
      here_(whole.here_),
      ranks_(ranks),
      streams_(whole.streams_) {}

Exec& Exec::inside() {
  if (!inside_)
    inside_ =
        std::make_unique<Level>(*this, hosts().place_of(rank_), hosts().ranks_of(hosts().host_of(rank_)));
  return *inside_;
}

Exec& Exec::across() {
  if (!across_) {
    const std::span<const Rank> ranks = hosts().ranks_at(hosts().place_of(rank_));
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), hosts().host_of(rank_),
                                     [&](Rank rank, Rank host) { return hosts().host_of(rank) < host; });
    const Hosts* const switches = hosts().are_equal() ? hosts().switches() : nullptr;
    across_ = std::make_unique<Level>(*this, static_cast<Rank>(at - ranks.begin()), ranks, switches);
  }
  return *across_;
}

Task<> Exec::perform_rest(LocalStep& step) {
  perform(step);
  co_return;
}

std::vector<PlacedSlice> Exec::lease_places() {
  std::vector<std::vector<PlacedSlice>>& idle = whole_.place_lists_;
  if (idle.empty()) return {};
  std::vector<PlacedSlice> places = std::move(idle.back());
  idle.pop_back();
  return places;
}

void Exec::give_back(std::vector<PlacedSlice> places) {
  places.clear();
  try {
    whole_.place_lists_.push_back(std::move(places));
  } catch (const std::bad_alloc&) {  // the next one begins with none
  }
}

void Exec::reserve_lists() {
  (void)peers();
  for (Rank rank = 0; rank < size_; ++rank) take_announcement(rank, 0, false);
  constexpr std::size_t kListsAtOnce = 2;
  while (place_lists_.size() < kListsAtOnce) {
    std::vector<PlacedSlice> places;
    places.reserve(size_);
    place_lists_.push_back(std::move(places));
  }
}

void Exec::list_peers() const {
  std::vector<Rank> peers;
  for (Rank distance = 1; distance < size_; ++distance) peers.push_back(ahead(distance));
  peers_ = std::move(peers);
}

}  // namespace cohort
