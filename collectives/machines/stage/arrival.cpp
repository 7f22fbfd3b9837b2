// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/stage/arrival.h>

#include <algorithm>

namespace cohort::machine {
void announce(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments,
              const std::vector<bool>& refers) {
  const Form form = arguments.form(x.size());
  std::size_t most = 0;
  for (Rank of = 0; of < x.size(); ++of) most = std::max(most, algorithm.op()->extent(form, of).send);
  for (Rank of = 0; of < x.size(); ++of) x.take_announcement(of, most * arguments.element_bytes, refers[of]);
  if (x.has_referred(x.rank()) || !algorithm.op().is_read(form, x.rank())) return;
  const std::size_t own = algorithm.op()->extent(form, x.rank()).send * arguments.element_bytes;
  x.perform(x.copy(x.slot(own), {WindowId::send, 0, own}));
}

Task<> run_local(Exec& x, const AnyAlgorithm& algorithm, const OperatorArguments& arguments) {
  const Form form = arguments.form(x.size());
  bool ends_with_phase = algorithm.announces() == Announces::windows ||
                         (x.none_referred() && algorithm.meets_again(x, x.announced()[x.rank()].slice.bytes));
  for (Rank of = 0; of < x.size(); ++of)
    ends_with_phase = ends_with_phase || (x.has_referred(of) && algorithm.op().is_read(form, of));
  algorithm.combine(x, arguments);
  if (!ends_with_phase) co_return;
  co_await x.phase();
  algorithm.finish(x, arguments);
}

}  // namespace cohort::machine
