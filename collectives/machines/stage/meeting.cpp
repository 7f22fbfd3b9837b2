// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/meeting.h>

namespace cohort::machine {

void announce(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments,
              const std::vector<bool>& refers) {
  const std::size_t most = arguments.bytes() * algorithm.op().given_per_count(x.size());
  for (Rank of = 0; of < x.size(); ++of) x.take_announcement(of, most, refers[of]);
  if (x.has_referred(x.rank())) return;
  const Extent extent = algorithm.op()->extent(x.size(), arguments.root, x.rank());
  const std::size_t own = arguments.bytes() * extent.send;
  x.perform(x.copy(x.slot(own), {WindowId::send, 0, own}));
}

Task<> run_local(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments) {
  const bool ends_with_phase = algorithm.announces() == Announces::windows || x.any_referred();
  algorithm.combine(x, arguments);
  if (!ends_with_phase) co_return;
  co_await x.phase();
  algorithm.finish(x, arguments);
}

}  // namespace cohort::machine
