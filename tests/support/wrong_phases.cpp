// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/wrong_phases.h>

#include <cohort/tests/support/schedules.h>

namespace cohort::test {
namespace {

using check::FindingKind;

/// To ccl_out; all have when it is over.
Task<> publish(Exec& x, AllGather op, Slice to) {
  co_await x.copy(to, op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.phase();
}

/// What is pulled is the caller's; a peer's CCL buffers are mapped here, and elsewhere in its own process.
Task<> pulls_ccl_buffers(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await publish(x, op, mine);
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.block(peer), mine);
  co_await x.phase();
}

Task<> pulls_after_the_last_phase(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.phase();
  for (const Rank peer : x.peers()) co_await x.pull(peer, op.block(peer), op.send);
}

/// To where all can copy.
Task<> pushes_to_ccl_buffers(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.push(peer, mine, op.send);
  co_await x.phase();
}

/// A peer may have left, and given the buffer back.
Task<> pushes_after_the_last_phase(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.phase();
  for (const Rank peer : x.peers()) co_await x.push(peer, op.block(x.rank()), op.send);
}

/// Right for a whole message, since all meet before the next one.
Task<> publishes_in_one_place(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await publish(x, op, mine);
  for (const Rank peer : x.peers()) co_await x.copy_from(peer, op.block(peer), mine);
}

/// On memory that ranks map, whose user windows are reached in one way.
template <Task<> (*schedule)(Exec&, AllGather), UserWindows windows>
check::Report within_a_node(const check::CheckOptions& options) {
  Algorithm<AllGather> algorithm = test::as_algorithm<AllGather>(schedule, all_links);
  algorithm.scope = Scope::node;
  check::CheckOptions mapped = options;
  mapped.user_windows = windows;
  return check::check(algorithm, mapped);
}

/// A message that is cut has one arrival for all pieces.
check::Report in_pieces_of_one_place(const check::CheckOptions& options) {
  Algorithm<AllGather> algorithm = test::as_algorithm<AllGather>(publishes_in_one_place, all_links);
  algorithm.scope = Scope::node;
  algorithm.largest_piece = [](std::size_t, Rank) { return std::size_t{2048}; };
  return check::check(algorithm, options);
}

}  // namespace

check::Report published_in_one_place(const check::CheckOptions& options) {
  return within_a_node<publishes_in_one_place, UserWindows::staged>(options);
}

std::vector<WrongSchedule> wrong_phases() {
  return {
      {"pull of a CCL buffer", FindingKind::usage, "main stream, task",
       within_a_node<pulls_ccl_buffers, UserWindows::readable>},
      {"peer's memory touched after the last phase", FindingKind::conflict, "main stream, task",
       within_a_node<pulls_after_the_last_phase, UserWindows::readable>},
      {"push to a CCL buffer", FindingKind::usage, "main stream, task",
       within_a_node<pushes_to_ccl_buffers, UserWindows::readable>},
      {"peer's memory written after the last phase", FindingKind::conflict, "main stream, task",
       within_a_node<pushes_after_the_last_phase, UserWindows::readable>},
      {"push where nothing reaches it", FindingKind::usage, "main stream, task",
       within_a_node<pushes_after_the_last_phase, UserWindows::staged>},
      {"no phase between pieces within a node", FindingKind::conflict, "main stream, task",
       in_pieces_of_one_place},
  };
}

}  // namespace cohort::test
