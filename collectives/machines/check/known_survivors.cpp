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

bool is_send_before(const Case&, const Mutant& mutant) { return mutant.changed.kind == TaskKind::send; }

constexpr KnownSurvivor kKnownSurvivors[] = {
    {"all_reduce", "slots", ChangeKind::peer, TaskKind::copy,
     "all slots of ranks that refer to their inputs hold the same sum: right, but it reads a peer's",
     is_of_another_that_refers},
    {"all_reduce", "slots", ChangeKind::swap, TaskKind::reduce,
     "who alone refers reads slots and its own input, which last beyond the phase: right, but later",
     is_phase_before_who_alone_refers},
    {"reduce_scatter", "slots", ChangeKind::swap, TaskKind::reduce,
     "who alone refers reads slots and its own input, which last beyond the phase: right, but later",
     is_phase_before_who_alone_refers},
    {"reduce_scatter_v", "slots", ChangeKind::swap, TaskKind::reduce,
     "who alone refers reads slots and its own input, which last beyond the phase: right, but later",
     is_phase_before_who_alone_refers},
    {"all_gather", "slots", ChangeKind::swap, TaskKind::copy,
     "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {"all_gather_v", "slots", ChangeKind::swap, TaskKind::copy,
     "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {"all_to_all", "slots", ChangeKind::swap, TaskKind::copy,
     "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {"all_to_all_vc", "slots", ChangeKind::swap, TaskKind::copy,
     "a slot lasts beyond the phase that ends the use of inputs: right, but later",
     is_phase_before_reading_a_slot},
    {"all_gather", "mesh", ChangeKind::window, TaskKind::copy,
     "in place, the own block is where it belongs, and the same in ccl_out: right, but copied"},
    {"all_reduce", "tree", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines for all, its children in another order: right, and the same everywhere"},
    {"reduce", "tree", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines for all, its children in another order: right, and the same everywhere"},
    {"reduce_scatter", "tree", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines for all, its children in another order: right, and the same everywhere"},
    {"reduce_scatter", "tree", ChangeKind::swap, TaskKind::send,
     "children get their blocks in another order: right, but the longest way begins later"},
    {"all_reduce", "double_tree", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines for all, its children in another order: right, and the same everywhere"},
    {"reduce", "double_tree", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines for all, its children in another order: right, and the same everywhere"},
    {"all_reduce", "rhd", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce_scatter", "rhd", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "rhd", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce_scatter", "nb", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce_scatter", "nb_reversed", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce_scatter", "nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "nb", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "nb_reversed", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "nb", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "nhr", ChangeKind::swap, TaskKind::recv,
     "what is sent then is none of what is received: right, in another order", is_send_before},
    {"reduce", "nb", ChangeKind::swap, TaskKind::send,
     "with 3 ranks no round waits for the one before it: right, in another order"},
    {"reduce", "nhr", ChangeKind::swap, TaskKind::send,
     "with 3 ranks no round waits for the one before it: right, in another order"},
    {"reduce", "direct", ChangeKind::swap, TaskKind::reduce,
     "the root alone reads its own share, which may come after the phase: right, but later"},
    {"gather", "slots", ChangeKind::drop, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather", "slots", ChangeKind::shorten, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather", "slots", ChangeKind::window, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather", "slots", ChangeKind::peer, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather_v", "slots", ChangeKind::drop, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather_v", "slots", ChangeKind::shorten, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather_v", "slots", ChangeKind::window, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"gather_v", "slots", ChangeKind::peer, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody what it brings"},
    {"scatter", "slots", ChangeKind::drop, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter", "slots", ChangeKind::shorten, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter", "slots", ChangeKind::window, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter", "slots", ChangeKind::peer, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter", "one_shot", ChangeKind::window, TaskKind::copy,
     "in place, the root keeps its block and writes over one that it has sent"},
    {"scatter", "tree", ChangeKind::window, TaskKind::copy,
     "in place, the root keeps its block and writes over one that it has sent"},
    {"scatter_v", "slots", ChangeKind::drop, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter_v", "slots", ChangeKind::shorten, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter_v", "slots", ChangeKind::window, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter_v", "slots", ChangeKind::peer, TaskKind::copy,
     "the root takes its own block from where it gives it, and nobody that part of what it brings"},
    {"scatter_v", "one_shot", ChangeKind::window, TaskKind::copy,
     "in place, the root keeps its block and writes over one that it has sent"},
    {"scatter_v", "tree", ChangeKind::window, TaskKind::copy,
     "in place, the root keeps its block and writes over one that it has sent"},
    {"scan", "direct", ChangeKind::swap, TaskKind::reduce,
     "a rank alone reads its own share, which may come after the phase: right, but later"},
    {"exclusive_scan", "direct", ChangeKind::swap, TaskKind::reduce,
     "a rank alone reads its own share, which may come after the phase: right, but later"},
    {"all_reduce", "mesh_nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "mesh_ring", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "mesh_nhr_pipelined", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "mesh_nhr_pipelined", ChangeKind::swap, TaskKind::send,
     "other parts of the vector, which nothing that comes between them changes: right, in another order"},
    {"all_reduce", "mesh_nhr_pipelined", ChangeKind::swap, TaskKind::recv,
     "other parts of the vector, which nothing that comes between them changes: right, in another order"},
    {"all_reduce", "tree_nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"all_reduce", "tree_nhr", ChangeKind::swap, TaskKind::send,
     "with 3 hosts no round of their leaders waits for the one before it: right, in another order"},
    {"reduce_scatter", "mesh_nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "mesh_nhr", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
    {"reduce", "mesh_nhr", ChangeKind::swap, TaskKind::recv,
     "what is sent then is none of what is received: right, in another order", is_send_before},
    {"reduce", "mesh_nhr", ChangeKind::swap, TaskKind::send,
     "with 3 or 5 hosts a round need not wait for the one before it: right, in another order"},
    {"all_gather", "mesh_nhr", ChangeKind::window, TaskKind::copy,
     "in place, the own block is where it belongs, and the same in scratch: right, but copied"},
    {"reduce_scatter_v", "mesh_ring", ChangeKind::swap, TaskKind::recv_reduce,
     "one rank combines each element for all, partial sums in another order: right, and the same"},
};

}  // namespace

std::span<const KnownSurvivor> known_survivors() noexcept { return kKnownSurvivors; }

bool is_known_survivor(const Case& one, const Mutant& mutant) {
  return std::ranges::any_of(kKnownSurvivors, [&](const KnownSurvivor& known) {
    return known.op == to_string(one.op()) && known.algorithm == one.algorithm->name() &&
           known.kind == mutant.kind && known.task == mutant.task.kind &&
           (known.is_such == nullptr || known.is_such(one, mutant));
  });
}

}  // namespace cohort::check
