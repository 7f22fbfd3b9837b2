// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/machines/check/known_survivors.h>

#include <algorithm>
#include <ranges>

namespace cohort::check {
namespace {

bool is_out_of_a_slot(const TaskRecord& task) { return task.remote.window == WindowId::slot; }

bool refers_alone(const CheckOptions& options, Rank rank) {
  const auto refers_too = [&](Rank other) { return other != rank && refers(options.referring, other); };
  return refers(options.referring, rank) &&
         std::ranges::none_of(std::views::iota(Rank{0}, options.ranks), refers_too);
}

bool is_of_another_that_refers(const Case& one, const Mutant& mutant) {
  const Referring referring = one.options.referring;
  return is_out_of_a_slot(mutant.changed) && refers(referring, mutant.task.rank) &&
         refers(referring, mutant.changed.peer);
}

bool is_phase_before_who_alone_refers(const Case& one, const Mutant& mutant) {
  return mutant.changed.kind == TaskKind::phase && refers_alone(one.options, mutant.task.rank);
}

bool is_phase_before_reading_a_slot(const Case&, const Mutant& mutant) {
  return mutant.changed.kind == TaskKind::phase && is_out_of_a_slot(mutant.task);
}

bool is_phase_before_who_first_refers(const Case& one, const Mutant& mutant) {
  const Referring referring = one.options.referring;
  const auto refers_before = [&](Rank rank) { return refers(referring, rank); };
  return mutant.changed.kind == TaskKind::phase && referring != Referring::nobody &&
         std::ranges::none_of(std::views::iota(Rank{0}, mutant.task.rank), refers_before);
}

bool is_rank_1_from_rank_0(const Case&, const Mutant& mutant) {
  return is_out_of_a_slot(mutant.changed) && mutant.task.rank == 1 && mutant.changed.peer == 0;
}

bool is_of_root(const Case& one, const Mutant& mutant) { return mutant.task.rank == one.options.root; }

bool is_first_rank_in_place(const Case& one, const Mutant& mutant) {
  return mutant.task.rank == 0 && one.options.is_in_place;
}

bool is_send_before(const Case&, const Mutant& mutant) { return mutant.changed.kind == TaskKind::send; }

constexpr std::string_view kPartialSums =
    "one rank combines each element for all, partial sums in another order: right, and the same";
constexpr std::string_view kStoredAtAnother =
    "the root stores at a peer what it has stored at another: right, but it reads it there";
constexpr std::string_view kChildren =
    "one rank combines for all, its children in another order: right, and the same everywhere";
constexpr std::string_view kWritesOverSent =
    "in place, the root keeps its block and writes over one that it has sent";

using Ops = OneOf<std::string_view>;
using Kinds = OneOf<ChangeKind>;

constexpr KnownSurvivor kKnownSurvivors[] = {
    {Ops("all_reduce"), "slots", Kinds(ChangeKind::peer), TaskKind::copy,
     "all slots of ranks that refer to their inputs hold the same sum: right, but it reads a peer's",
     is_of_another_that_refers},
    {Ops("all_reduce", "reduce_scatter", "reduce_scatter_v"), "slots", Kinds(ChangeKind::swap),
     TaskKind::reduce,
     "who alone refers reads slots and its own input, which last beyond the phase: right, but later",
     is_phase_before_who_alone_refers},
    {Ops("scan"), "slots", Kinds(ChangeKind::swap), TaskKind::reduce,
     "who first refers reads slots and its own input, which last beyond the phase: right, but later",
     is_phase_before_who_first_refers},
    {Ops("scan"), "slots", Kinds(ChangeKind::window), TaskKind::copy,
     "in place, the first rank's result is its input, wherever it is copied to: right, but copied",
     is_first_rank_in_place},
    {Ops("exclusive_scan"), "slots", Kinds(ChangeKind::swap), TaskKind::copy,
     "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {Ops("exclusive_scan"), "slots", Kinds(ChangeKind::peer), TaskKind::copy,
     "rank 1's result is what rank 0 has brought: right, but it reads rank 0's slot again",
     is_rank_1_from_rank_0},
    {Ops("all_gather", "all_gather_v", "all_to_all", "all_to_all_vc"), "slots", Kinds(ChangeKind::swap),
     TaskKind::copy, "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {Ops("all_gather"), "mesh", Kinds(ChangeKind::window), TaskKind::copy,
     "in place, the own block is where it belongs, and the same in ccl_out: right, but copied"},
    {Ops("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v"), "tree", Kinds(ChangeKind::swap),
     TaskKind::recv_reduce, kChildren},
    {Ops("reduce_scatter", "reduce_scatter_v"), "tree", Kinds(ChangeKind::swap), TaskKind::send,
     "children get their blocks in another order: right, but the longest way begins later"},
    {Ops("all_reduce", "reduce"), "double_tree", Kinds(ChangeKind::swap), TaskKind::recv_reduce, kChildren},
    {Ops("all_reduce", "reduce_scatter", "reduce", "reduce_scatter_v"), "rhd", Kinds(ChangeKind::swap),
     TaskKind::recv_reduce, kPartialSums},
    {Ops("reduce_scatter", "all_reduce", "reduce"), "nb", Kinds(ChangeKind::swap), TaskKind::recv_reduce,
     kPartialSums},
    {Ops("reduce_scatter", "all_reduce"), "nb_reversed", Kinds(ChangeKind::swap), TaskKind::recv_reduce,
     kPartialSums},
    {Ops("reduce_scatter", "all_reduce", "reduce"), "nhr", Kinds(ChangeKind::swap), TaskKind::recv_reduce,
     kPartialSums},
    {Ops("reduce"), "nhr", Kinds(ChangeKind::swap), TaskKind::recv,
     "what is sent then is none of what is received: right, in another order", is_send_before},
    {Ops("reduce"), "nb", Kinds(ChangeKind::swap), TaskKind::send,
     "with 3 ranks no round waits for the one before it: right, in another order"},
    {Ops("reduce"), "nhr", Kinds(ChangeKind::swap), TaskKind::send,
     "with 3 ranks no round waits for the one before it: right, in another order"},
    {Ops("broadcast"), "direct", Kinds(ChangeKind::peer), TaskKind::copy, kStoredAtAnother, is_of_root},
    {Ops("broadcast"), "slots", Kinds(ChangeKind::peer), TaskKind::copy, kStoredAtAnother, is_of_root},
    {Ops("reduce"), "direct", Kinds(ChangeKind::swap), TaskKind::reduce,
     "the root alone reads its own share, which may come after the phase: right, but later"},
    {Ops("scatter", "scatter_v"), "slots",
     Kinds(ChangeKind::drop, ChangeKind::shorten, ChangeKind::window, ChangeKind::peer), TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {Ops("scatter", "scatter_v"), "one_shot", Kinds(ChangeKind::window), TaskKind::copy, kWritesOverSent},
    {Ops("scatter", "scatter_v"), "tree", Kinds(ChangeKind::window), TaskKind::copy, kWritesOverSent},
    {Ops("scan", "exclusive_scan"), "direct", Kinds(ChangeKind::swap), TaskKind::reduce,
     "a rank alone reads its own share, which may come after the phase: right, but later"},
    {Ops("scan"), "direct", Kinds(ChangeKind::window), TaskKind::copy,
     "in place, the first rank's result is its input, and the same in ccl_in: right, but copied"},
    {Ops("all_reduce", "reduce_scatter", "reduce"), "mesh_nhr", Kinds(ChangeKind::swap),
     TaskKind::recv_reduce, kPartialSums},
    {Ops("all_reduce", "reduce_scatter"), "mesh_mesh_nhr", Kinds(ChangeKind::swap), TaskKind::recv_reduce,
     kPartialSums},
    {Ops("all_gather"), "mesh_mesh_nhr", Kinds(ChangeKind::window), TaskKind::copy,
     "in place, the own block is where it belongs, and the same in scratch: right, but copied"},
    {Ops("all_reduce", "reduce_scatter_v"), "mesh_ring", Kinds(ChangeKind::swap), TaskKind::recv_reduce,
     kPartialSums},
    {Ops("all_reduce"), "mesh_nhr_pipelined", Kinds(ChangeKind::swap), TaskKind::recv_reduce, kPartialSums},
    {Ops("all_reduce"), "mesh_nhr_pipelined", Kinds(ChangeKind::swap), TaskKind::send,
     "other parts of the vector, which nothing that comes between them changes: right, in another order"},
    {Ops("all_reduce"), "mesh_nhr_pipelined", Kinds(ChangeKind::swap), TaskKind::recv,
     "other parts of the vector, which nothing that comes between them changes: right, in another order"},
    {Ops("all_reduce"), "tree_nhr", Kinds(ChangeKind::swap), TaskKind::recv_reduce, kPartialSums},
    {Ops("all_reduce"), "tree_nhr", Kinds(ChangeKind::swap), TaskKind::send,
     "with 3 hosts no round of their leaders waits for the one before it: right, in another order"},
    {Ops("reduce"), "mesh_nhr", Kinds(ChangeKind::swap), TaskKind::recv,
     "what is sent then is none of what is received: right, in another order", is_send_before},
    {Ops("reduce"), "mesh_nhr", Kinds(ChangeKind::swap), TaskKind::send,
     "with 3 or 5 hosts a round need not wait for the one before it: right, in another order"},
    {Ops("all_gather"), "mesh_nhr", Kinds(ChangeKind::window), TaskKind::copy,
     "in place, the own block is where it belongs, and the same in scratch: right, but copied"},
};

}  // namespace

std::span<const KnownSurvivor> known_survivors() noexcept { return kKnownSurvivors; }

bool is_known_survivor(const Case& one, const Mutant& mutant) {
  return std::ranges::any_of(kKnownSurvivors, [&](const KnownSurvivor& known) {
    return known.ops.has(to_string(one.op())) && known.algorithm == one.algorithm->name() &&
           known.kinds.has(mutant.kind) && known.task == mutant.task.kind &&
           (known.is_such == nullptr || known.is_such(one, mutant));
  });
}

}  // namespace cohort::check
