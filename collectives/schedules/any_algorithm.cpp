// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/any_algorithm.h>

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/operators/list.h>

#include <array>

namespace cohort {

/// How an operator's algorithms are called by those who know none.
template <class Op>
struct AnyAlgorithm::Typed {
  [[nodiscard]] static const Algorithm<Op>& as(const void* algorithm) noexcept {
    return *static_cast<const Algorithm<Op>*>(algorithm);
  }
  static Cost cost(const void* self, std::size_t bytes, const Hosts& hosts) {
    const Algorithm<Op>& algorithm = as(self);
    if (!algorithm.cost) return {};
    const Cost cost = algorithm.cost(bytes, hosts);
    return algorithm.levels == Levels::none ? on_hosts(cost, algorithm.distances, hosts) : cost;
  }
  static Needs needs(const void* self, std::size_t bytes, const Hosts& hosts) {
    return as(self).needs(bytes, hosts);
  }
  static std::size_t largest_piece(const void* self, std::size_t bytes, const Hosts& hosts) {
    return as(self).largest_piece(bytes, hosts);
  }
  static Task<> run_pieces(const Algorithm<Op>& algorithm, Exec& x, Op op, std::size_t piece) {
    const std::size_t bytes = op.size_bytes();
    for (std::size_t at = 0; at < bytes; at += piece) {
      const Op part = op.part(at, std::min(piece, bytes - at));
      co_await algorithm.schedule(x, part);
    }
  }
  static Task<> run(const void* self, Exec& x, const OperatorArguments& arguments, std::size_t piece) {
    const Op op = Op::of(arguments, x.rank(), x.size());
    return piece >= op.size_bytes() ? as(self).schedule(x, op) : run_pieces(as(self), x, op, piece);
  }
  static void combine(const void* self, Exec& x, const OperatorArguments& arguments) {
    as(self).local.combine(x, Op::of(arguments, x.rank(), x.size()));
  }
  static void finish(const void* self, Exec& x, const OperatorArguments& arguments) {
    const auto finish_it = as(self).local.finish;
    if (finish_it != nullptr) finish_it(x, Op::of(arguments, x.rank(), x.size()));
  }

  static constexpr Functions kFunctions = {cost, needs, largest_piece, run, combine, finish};
};

const AnyAlgorithm::Functions& AnyAlgorithm::functions_of(Operator op) noexcept {
  static constexpr auto kOfAll = []<class... Op>(OperatorList<Op...>) {
    return std::array{Typed<Op>::kFunctions...};
  }(Operators{});
  return kOfAll[op.index()];
}

}  // namespace cohort
