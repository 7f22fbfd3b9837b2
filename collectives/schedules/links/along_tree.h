// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/links/tree.h>

/// What goes up a Tree, and down it. The tree outlives the task.
namespace cohort {

/// `sum` grows by those of all ranks below, smallest subtree first, and goes on to the parent.
inline Task<> combine_upwards(Exec& x, const Tree& tree, Slice sum, Reducer reducer) {
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).recv_reduce(sum, reducer);
  if (!tree.is_root()) co_await x.link(tree.parent()).send(sum);
}

/// The root's data to all, largest subtree first.
inline Task<> pass_downwards(Exec& x, const Tree& tree, Slice data) {
  if (!tree.is_root()) co_await x.link(tree.parent()).recv(data);
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).send(data);
}

/// The root hears that all have come.
inline Task<> signal_upwards(Exec& x, const Tree& tree) {
  for (Rank distance = 1; tree.has_child(distance); distance *= 2)
    co_await x.link(tree.child(distance)).wait(Signal::Ack);
  if (!tree.is_root()) co_await x.link(tree.parent()).post(Signal::Ack);
}

/// All hear that it has.
inline Task<> signal_downwards(Exec& x, const Tree& tree) {
  if (!tree.is_root()) co_await x.link(tree.parent()).wait(Signal::DataSignal);
  for (Rank distance = tree.widest() / 2; distance != 0; distance /= 2)
    if (tree.has_child(distance)) co_await x.link(tree.child(distance)).post(Signal::DataSignal);
}

}  // namespace cohort
