// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/calibration/known_figures.h>

#include <fmt/format.h>

namespace cohort {
namespace {

/// Of what is measured, and how: raised when that changes, so that older figures are not looked at.
constexpr unsigned kRevision = 10;

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 14695981039346656037U;
  for (const char letter : text) hash = (hash ^ static_cast<std::uint8_t>(letter)) * 1099511628211U;
  return hash;
}

constexpr std::size_t kSizes = SlotCrossover::kSizes.size();
constexpr std::size_t kOfPullUse = KnownFigures::kPullFigures / kPullUses;

}  // namespace

/// The fingerprint has the boot's number: another kernel, or other neighbours, may be as fast as they like.
KnownFigures::KnownFigures(Platform& platform, std::string_view conditions, const Membership* hosts) {
  const bool is_simulated = !platform.has_devices();
  if (is_simulated) return;
  cache_ = FigureCache::from_environment();
  conditions_ = fmt::format("{:016x}/{}", hash_of(platform.host_fingerprint()), conditions);
  if (hosts == nullptr) return;
  std::string ids;  // by rank: pairs of neighbours are what is measured
  for (const auto& peer : hosts->peers) {
    for (const std::byte byte : peer.host_id) ids.push_back(static_cast<char>(byte));
    if (peer.data_address.size_bytes() != 0) ids += peer.data_address.with_any_port().to_string();
  }
  conditions_ += fmt::format("/{:016x}", hash_of(ids));
}

std::string KnownFigures::key(std::string_view what) const {
  return fmt::format("{}.{}/{}", what, kRevision, conditions_);
}

std::optional<LinkSpeed> KnownFigures::speed() const {
  const auto found = find<std::array<double, 4>>("links");
  if (!found) return std::nullopt;
  LinkSpeed speed;
  speed.message_us = (*found)[0];
  speed.byte_us = (*found)[1];
  speed.combine_us = (*found)[2];
  speed.copy_us = (*found)[3];
  speed.is_measured = true;
  return speed;
}

void KnownFigures::keep(const LinkSpeed& measured) const {
  cache_.keep(key("links"),
              std::array{measured.message_us, measured.byte_us, measured.combine_us, measured.copy_us});
}

KnownFigures::OfSlots KnownFigures::figures_of(const SlotCrossover& measured) {
  OfSlots figures{};
  for (const SlotTimes& times : measured.measured())
    for (std::size_t i = 0; i < kSizes; ++i) {
      if (times.bytes != SlotCrossover::kSizes[i]) continue;
      const std::size_t at = (times.op.index() * kSizes + i) * 2;
      figures[at] = times.slots_us;
      figures[at + 1] = times.direct_us;
    }
  return figures;
}

void KnownFigures::give(const OfSlots& figures, SlotCrossover& to) {
  for (const Operator op : all_operators()) {
    std::vector<SlotTimes> measured;
    for (std::size_t i = 0; i < kSizes; ++i) {
      const std::size_t at = (op.index() * kSizes + i) * 2;
      if (figures[at] == 0 || figures[at + 1] == 0) break;
      measured.push_back({op, SlotCrossover::kSizes[i], figures[at], figures[at + 1]});
    }
    to.take(measured);
  }
}

KnownFigures::OfPull KnownFigures::figures_of(const PullCrossover& measured) {
  OfPull figures{};
  for (std::size_t use = 0; use < kPullUses; ++use) {
    std::size_t at = use * kOfPullUse;
    for (const PullTimes& times : measured.measured(static_cast<PullUse>(use))) {
      figures[at++] = times.staged_us;
      figures[at++] = times.pulled_us;
    }
  }
  return figures;
}

void KnownFigures::give(const OfPull& figures, std::size_t core_cache_bytes, PullCrossover& to) {
  for (std::size_t use = 0; use < kPullUses; ++use) {
    std::vector<PullTimes> measured;
    for (std::size_t i = 0; i < PullCrossover::kSizes.size(); ++i) {
      const std::size_t at = use * kOfPullUse + 2 * i;
      if (figures[at] == 0 || figures[at + 1] == 0) break;
      measured.push_back({PullCrossover::kSizes[i], figures[at], figures[at + 1]});
    }
    to.take(static_cast<PullUse>(use), measured);
  }
  to.combine_beyond(core_cache_bytes);
}

}  // namespace cohort
