// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/wrong_schedules.h>

#include <cohort/collectives/schedules/links/exchange.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/task_scope.h>
#include <cohort/engine/when_all.h>
#include <cohort/notify/notify.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_orders.h>
#include <cohort/tests/support/wrong_phases.h>

namespace cohort::test {

using check::FindingKind;

Needs all_links(std::size_t bytes, Rank ranks) {
  return {.links_to_all = true, .scratch_bytes = bytes * ranks, .lanes = 1};
}

Task<> all_gather_by_put(Exec& x, AllGather op) {
  auto exchange_with = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    const Slice theirs = x.ccl_in(x.rank() * op.send.bytes, op.send.bytes);
    const Slice mine = x.ccl_in(peer * op.send.bytes, op.send.bytes);
    co_await link.post(Signal::Ack);
    co_await link.wait(Signal::Ack);
    co_await link.put(op.send, theirs, Signal::DataSignal);
    co_await link.wait(Signal::DataSignal);
    co_await x.copy(op.block(peer), mine);
  };
  co_await x.copy(op.block(x.rank()), op.send);
  co_await x.fork_join(x.peers(), exchange_with);
}

namespace {

/// Each rank sends first and receives then: it ends only if links buffer all of it.
Task<> send_before_receive(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  Link& next = x.link(x.ahead(1));
  Link& previous = x.link(x.behind(1));
  for (Rank step = 0; step + 1 < x.size(); ++step) {
    co_await next.send(op.block(x.behind(step)));
    co_await previous.recv(op.block(x.behind(step + 1)));
  }
}

Task<> post_ack(Link& link) { co_await link.post(Signal::Ack); }

/// The signal stands behind bytes that the peer wants only after the signal.
Task<> signal_behind_bytes(Exec& x, Broadcast op) {
  if (x.rank() == op.root) {
    for (const Rank peer : x.peers()) {
      Link& link = x.link(peer);
      auto give = [&] { return send_slice(link, op.data); };
      auto tell = [&] { return post_ack(link); };
      co_await x.fork_join(give, tell);
      co_await link.wait(Signal::Ack);
    }
    co_return;
  }
  Link& root = x.link(op.root);
  co_await root.wait(Signal::Ack);
  co_await root.recv(op.data);
  co_await root.post(Signal::Ack);
}

/// The reply to a get may stand behind bytes that are received only after it.
Task<> bytes_before_a_reply(Exec& x, Broadcast op) {
  const Slice mark = x.ccl_out(0, 4);
  co_await x.copy(mark, x.ccl_in(0, 4));
  if (x.rank() == op.root) {
    for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
    auto serve = [&](Rank peer) -> Task<> {
      co_await x.link(peer).send(op.data);
      co_await x.link(peer).wait(Signal::DataSignal);
    };
    co_await x.fork_join(x.peers(), serve);
    co_return;
  }
  Link& root = x.link(op.root);
  co_await root.wait(Signal::Ack);
  co_await root.get(mark, x.scratch(0, 4));
  co_await root.recv(op.data);
  co_await root.post(Signal::DataSignal);
}

/// A second token on the same signal, although the first may not have been taken.
Task<> two_tokens_on_a_flag(Exec& x, Barrier) {
  for (int round = 0; round < 2; ++round) co_await x.link(x.ahead(1)).post(Signal::Ack);
  for (int round = 0; round < 2; ++round) co_await x.link(x.behind(1)).wait(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::DataSignal);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::DataSignal);
}

/// Everybody waits for the rank behind before telling the one ahead: nobody begins.
Task<> everybody_waits_first(Exec& x, Barrier) {
  co_await x.link(x.behind(1)).wait(Signal::Ack);
  co_await x.link(x.ahead(1)).post(Signal::Ack);
}

/// Tells its neighbour only, and leaves having heard of nobody else.
Task<> hears_of_one(Exec& x, Barrier) {
  co_await x.link(x.ahead(1)).post(Signal::Ack);
  co_await x.link(x.behind(1)).wait(Signal::Ack);
}

Task<> notify_never_awaited(Exec& x, Barrier) {
  LocalNotify done = x.notify();
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  done.post();
}

Task<> notify_never_posted(Exec& x, Barrier) {
  LocalNotify done = x.notify();
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  if (x.rank() == 2) co_await done.wait();
}

/// Who takes which of the two posts depends on who comes first.
Task<> two_streams_on_one_notify(Exec& x, Barrier) {
  LocalNotify done = x.notify(2);
  auto take = [&]() -> Task<> { co_await done.wait(); };
  auto meet = [&](Rank peer) -> Task<> {
    co_await x.link(peer).post(Signal::Ack);
    co_await x.link(peer).wait(Signal::Ack);
  };
  done.post();
  done.post();
  co_await x.fork_join(take, take);
  co_await x.fork_join(x.peers(), meet);
}

Task<> meet_all(Exec& x) {
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

/// Nobody waits for anybody, and nobody comes to the end.
Task<> waits_for_a_timer(Exec& x, Barrier) {
  co_await meet_all(x);
  co_await Engine::current().sleep_until(kNever);
}

/// A machine that let time pass by itself would not notice.
Task<> waits_for_a_while(Exec& x, Barrier) {
  if (x.rank() == 2) co_await Engine::current().sleep_for(std::chrono::milliseconds(1));
  co_await meet_all(x);
}

Task<> waits_for_a_notify_of_its_own(Exec& x, Barrier) {
  Notify own;
  co_await meet_all(x);
  if (x.rank() == 2) co_await own.wait();
}

Task<> meet_one(Link& link) {
  co_await link.post(Signal::Ack);
  co_await link.wait(Signal::Ack);
}

Task<> tasks_of_a_scope(Exec& x, Barrier) {
  TaskScope tasks;
  for (const Rank peer : x.peers()) tasks.spawn(meet_one(x.link(peer)));
  co_await tasks.join();
}

Task<> tasks_of_when_all(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) {
    Link& link = x.link(peer);
    co_await when_all(send_slice(link, op.send), receive_slice(link, op.block(peer)));
  }
}

/// Two chunks may have come before the first is passed on.
Task<> notify_over_its_limit(Exec& x, Broadcast op) {
  LocalNotify arrived = x.notify();
  const Slice halves[] = {op.data.part(0, op.data.bytes / 2),
                          op.data.part(op.data.bytes / 2, op.data.bytes - op.data.bytes / 2)};
  auto take = [&]() -> Task<> {
    for (const Slice& half : halves) {
      co_await x.link(x.behind(1)).recv(half);
      arrived.post();
    }
  };
  auto pass = [&]() -> Task<> {
    for (const Slice& half : halves) {
      co_await arrived.wait();
      co_await x.link(x.ahead(1)).send(half);
    }
  };
  if (x.rank() == op.root) {
    for (const Slice& half : halves) co_await x.link(x.ahead(1)).send(half);
  } else if (x.ahead(1) == op.root) {
    for (const Slice& half : halves) co_await x.link(x.behind(1)).recv(half);
  } else {
    co_await x.fork_join(take, pass);
  }
}

/// The forwarding stream does not wait for the one that receives.
Task<> passes_on_too_early(Exec& x, Broadcast op) {
  if (x.rank() == op.root)
    co_await x.link(x.ahead(1)).send(op.data);
  else if (x.ahead(1) == op.root)
    co_await x.link(x.behind(1)).recv(op.data);
  else
    co_await exchange(x, x.link(x.ahead(1)), op.data, x.link(x.behind(1)), op.data);
}

/// Two streams send to one peer over one lane.
Task<> two_streams_on_one_lane(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  const std::size_t half = op.send.bytes / 2;
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    auto part = [&](std::size_t at) -> Task<> {
      co_await exchange(x, link, op.send.part(at, half), link, op.block(peer).part(at, half));
    };
    const std::size_t parts[] = {0, half};
    co_await x.fork_join(parts, part);
  };
  co_await x.fork_join(x.peers(), swap);
}

Task<> lane_not_asked_for(Exec& x, Barrier) {
  co_await x.link(x.ahead(1), 1).post(Signal::Ack);
  co_await x.link(x.behind(1), 1).wait(Signal::Ack);
}

Task<> link_to_itself(Exec& x, Barrier) {
  for (Rank peer = 0; peer < x.size(); ++peer) co_await x.link(peer).post(Signal::Ack);
  for (Rank peer = 0; peer < x.size(); ++peer) co_await x.link(peer).wait(Signal::Ack);
}

Task<> link_not_asked_for(Exec& x, Barrier) {
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

Task<> phase_without_mapping(Exec& x, Barrier) { return x.phase(); }

/// Copies from peers although it does not ask for a mapped group.
Task<> copies_without_mapping(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.copy_from(peer, op.block(peer), op.send);
}

/// Puts into what the peer's caller gave, which the peer alone can reach.
Task<> puts_into_user_window(Exec& x, AllGather op) {
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers())
    co_await x.link(peer).put(op.send, op.block(x.rank()), Signal::DataSignal);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::DataSignal);
}

/// Right within one operation; the next one fills ccl_out while peers still read it.
Task<> leaves_while_read(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(mine, op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).get(mine, op.block(peer));
}

/// Every rank combines its own input first: other orders, other bits.
Task<> combines_own_first(Exec& x, AllReduce op) {
  std::vector<PlacedSlice> inputs = {{x.rank(), op.send}};
  for (const Rank peer : x.peers())
    inputs.push_back({x.rank(), x.scratch(peer * op.send.bytes, op.send.bytes)});
  auto swap = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await exchange(x, link, op.send, link, x.scratch(peer * op.send.bytes, op.send.bytes));
  };
  co_await x.fork_join(x.peers(), swap);
  const PlacedSlice output[] = {{x.rank(), op.recv}};
  co_await x.reduce(output, inputs, op.combine);
}

Task<> throws_on_rank_2(Exec& x, Barrier) {
  if (x.rank() == 2) throw Error(ErrorKind::Internal, "no table for 4 ranks");
  for (const Rank peer : x.peers()) co_await x.link(peer).post(Signal::Ack);
  for (const Rank peer : x.peers()) co_await x.link(peer).wait(Signal::Ack);
}

/// Each element one place further, read after it was written.
Task<> copies_onto_itself(Exec& x, Barrier) {
  co_await x.copy(x.ccl_out(4, 16), x.ccl_out(0, 16));
  co_await meet_all(x);
}

Task<> combines_between_elements(Exec& x, Barrier) {
  const PlacedSlice output[] = {{x.rank(), x.ccl_out(32, 8)}};
  const PlacedSlice inputs[] = {{x.rank(), x.ccl_out(2, 8)}, {x.rank(), x.ccl_out(16, 8)}};
  co_await x.reduce(output, inputs, Combine(DataType::float32, ReduceOp::avg, x.size()));
  co_await meet_all(x);
}

/// Half an element was put where a whole one is combined.
Task<> combines_half_an_element(Exec& x, AllReduce op) {
  co_await x.copy(x.scratch(0, 2), op.send.part(0, 2));
  const PlacedSlice output[] = {{x.rank(), x.scratch(8, 4)}};
  const PlacedSlice inputs[] = {{x.rank(), x.scratch(0, 4)}, {x.rank(), op.send.part(0, 4)}};
  co_await x.reduce(output, inputs, op.combine);
  co_await meet_all(x);
}

/// Its own input is where it was in the end; a thread that reads it meanwhile sees something else.
Task<> borrows_the_input(Exec& x, AllGather op) {
  const Slice kept = x.ccl_out(0, op.send.bytes);
  co_await x.copy(kept, op.send);
  co_await x.copy(op.send, x.scratch(0, op.send.bytes));
  co_await x.copy(op.send, kept);
  Task<> gathers = all_gather_by_put(x, op);
  co_await gathers;
}

/// Two messages where one would do: the first is written over before anybody reads it.
Task<> writes_for_nothing(Exec& x, AllGather op) {
  co_await x.copy(x.ccl_out(0, op.send.bytes), op.send);
  Task<> gathers = all_gather_by_put(x, op);
  co_await gathers;
}

/// Enough for what the case has, not for what the library asks: resources are those of a class of sizes.
Needs links_for_small(std::size_t bytes, Rank ranks) {
  return {.links_to_all = bytes <= 4000, .links_to_neighbours = true, .scratch_bytes = bytes * ranks};
}

Needs neighbours(std::size_t, Rank) { return {.links_to_neighbours = true}; }
Cost too_cheap(std::size_t bytes, Rank) { return {.rounds = 2, .bytes_moved = static_cast<double>(bytes)}; }
Cost too_few_rounds(std::size_t bytes, Rank ranks) {
  return {.rounds = 1, .bytes_moved = static_cast<double>(bytes) * ranks};
}
Cost without_copies(std::size_t bytes, Rank ranks) {
  return {.rounds = 2, .bytes_moved = static_cast<double>(bytes) * (ranks - 1)};
}

Cost hidden_sender(std::size_t bytes, Rank ranks) {
  const double n = static_cast<double>(bytes) * (ranks - 1);
  return {.rounds = 2,
          .bytes_moved = n,
          .bytes_copied = static_cast<double>(bytes) * ranks,
          .messages = 2.0 * ranks * (ranks - 1),
          .bytes_by_all = n * ranks,
          .messages_of_one = 2.0 * (ranks - 1),
          .bytes_of_one = n / 2};
}

Cost hidden_taker(std::size_t bytes, Rank ranks) {
  Cost cost = hidden_sender(bytes, ranks);
  cost.bytes_of_one *= 2;
  cost.messages_to_one = ranks - 1.0;
  return cost;
}

template <class Op, Task<> (*schedule)(Exec&, Op)>
check::Report checked(const check::CheckOptions& options) {
  return test::check_schedule<Op>(schedule, all_links, options);
}

check::Report with_links_for_small(const check::CheckOptions& options) {
  return test::check_schedule<AllGather>(all_gather_by_put, links_for_small, options);
}

check::Report with_neighbours(const check::CheckOptions& options) {
  return test::check_schedule<Barrier>(link_not_asked_for, neighbours, options);
}

check::Report with_cost(const check::CheckOptions& options, Cost (*cost)(std::size_t, Rank)) {
  Algorithm<AllGather> algorithm = test::as_algorithm<AllGather>(all_gather_by_put, all_links);
  algorithm.cost = cost;
  return check::check(algorithm, options);
}
check::Report with_cheap_bytes(const check::CheckOptions& options) { return with_cost(options, too_cheap); }
check::Report with_few_rounds(const check::CheckOptions& options) {
  return with_cost(options, too_few_rounds);
}
check::Report with_forgotten_copies(const check::CheckOptions& options) {
  return with_cost(options, without_copies);
}
check::Report with_hidden_sender(const check::CheckOptions& options) {
  return with_cost(options, hidden_sender);
}

check::Report with_hidden_taker(const check::CheckOptions& options) {
  return with_cost(options, hidden_taker);
}

/// What is missing, too early, or in each other's way.
std::vector<WrongSchedule> broken_plans() {
  return {
      {"everybody sends before receiving", FindingKind::deadlock, "rank 0, main stream, task 2",
       checked<AllGather, send_before_receive>},
      {"signal behind bytes that are wanted later", FindingKind::usage, "rank 0, stream 2, task 1",
       checked<Broadcast, signal_behind_bytes>},
      {"bytes that may stand before the reply to a get", FindingKind::deadlock, "rank 1, main stream, task 3",
       checked<Broadcast, bytes_before_a_reply>},
      {"second post on a flag not yet taken", FindingKind::notify, "rank 0, main stream, task 2",
       checked<Barrier, two_tokens_on_a_flag>},
      {"everybody waits before posting", FindingKind::deadlock, "rank 0, main stream, task 1",
       checked<Barrier, everybody_waits_first>},
      {"barrier that hears of one rank only", FindingKind::agreement, "rank 1's end",
       checked<Barrier, hears_of_one>},
      {"Notify posted, never awaited", FindingKind::notify, "main stream",
       checked<Barrier, notify_never_awaited>},
      {"Notify awaited, never posted", FindingKind::deadlock, "rank 2, main stream, task 7",
       checked<Barrier, notify_never_posted>},
      {"two streams wait for one Notify", FindingKind::usage, "rank 0, stream 2, task 1",
       checked<Barrier, two_streams_on_one_notify>},
      {"Notify posted beyond its limit", FindingKind::notify, "rank 1, stream 1, task 4",
       checked<Broadcast, notify_over_its_limit>},
      {"wait for a timer", FindingKind::deadlock, "rank 0, main stream, after task 6",
       checked<Barrier, waits_for_a_timer>},
      {"wait for a while", FindingKind::deadlock, "rank 2, main stream, after task 0",
       checked<Barrier, waits_for_a_while>},
      {"wait for a Notify of its own", FindingKind::deadlock, "rank 2, main stream, after task 6",
       checked<Barrier, waits_for_a_notify_of_its_own>},
      {"tasks of a TaskScope", FindingKind::usage, "rank 0: post Ack to rank 1",
       checked<Barrier, tasks_of_a_scope>},
      {"tasks of when_all", FindingKind::usage, "rank 0: send send[0, +4000] to rank 1",
       checked<AllGather, tasks_of_when_all>},
      {"stream that passes on before another has received", FindingKind::conflict, "rank 1, stream 2, task 1",
       checked<Broadcast, passes_on_too_early>},
      {"two streams on one lane", FindingKind::usage, "rank 0, stream 1.2.1, task 1",
       checked<AllGather, two_streams_on_one_lane>},
      {"lane that needs() does not ask for", FindingKind::usage, "rank 0, main stream",
       checked<Barrier, lane_not_asked_for>},
      {"link to itself", FindingKind::usage, "rank 0, main stream", checked<Barrier, link_to_itself>},
      {"link that needs() does not ask for", FindingKind::usage, "rank 0, main stream", with_neighbours},
      {"phase without mapped group", FindingKind::usage, "rank 0, main stream, task 1",
       checked<Barrier, phase_without_mapping>},
      {"copy from a peer without mapped group", FindingKind::usage, "rank 0, main stream, task 2",
       checked<AllGather, copies_without_mapping>},
      {"put into a peer's user window", FindingKind::usage, "rank 0, main stream, task 2",
       checked<AllGather, puts_into_user_window>},
      {"leaving while peers read ccl_out", FindingKind::conflict, "rank 0, main stream, task 11",
       checked<AllGather, leaves_while_read>},
      {"own operand first on every rank", FindingKind::reduction, "main stream, task 1",
       checked<AllReduce, combines_own_first>},
      {"schedule that throws", FindingKind::failure, "rank 2", checked<Barrier, throws_on_rank_2>},
      {"cost() that understates bytes", FindingKind::cost, "bytes moved", with_cheap_bytes},
      {"cost() that understates rounds", FindingKind::cost, "rounds", with_few_rounds},
      {"cost() that forgets copies", FindingKind::cost, "bytes copied", with_forgotten_copies},
      {"cost() that hides who sends most", FindingKind::cost, "bytes sent by one rank", with_hidden_sender},
      {"cost() that hides who takes most", FindingKind::cost, "messages to one rank", with_hidden_taker},
  };
}

/// What a task may not do, whatever the others do.
std::vector<WrongSchedule> broken_contracts() {
  return {
      {"copy that overlaps itself", FindingKind::usage, "rank 0, main stream, task 1",
       checked<Barrier, copies_onto_itself>},
      {"reduction between elements", FindingKind::bounds, "rank 0, main stream, task 1",
       checked<Barrier, combines_between_elements>},
      {"reduction of half an element", FindingKind::bounds, "rank 0, main stream, task 2",
       checked<AllReduce, combines_half_an_element>},
      {"input written and restored", FindingKind::usage, "rank 0, main stream, task 2",
       checked<AllGather, borrows_the_input>},
      {"buffer written that nobody reads", FindingKind::cost, "rank 0, main stream, task 1",
       checked<AllGather, writes_for_nothing>},
      {"needs() of the case, not of its size class", FindingKind::usage, "rank 0, stream 2",
       with_links_for_small},
  };
}

}  // namespace

const std::vector<WrongSchedule>& wrong_schedules() {
  static const std::vector<WrongSchedule> kTable = [] {
    std::vector<WrongSchedule> list = broken_plans();
    const std::vector<WrongSchedule> contracts = broken_contracts();
    list.insert(list.end(), contracts.begin(), contracts.end());
    const std::vector<WrongSchedule> orders = wrong_orders();
    list.insert(list.end(), orders.begin(), orders.end());
    const std::vector<WrongSchedule> phases = wrong_phases();
    list.insert(list.end(), phases.begin(), phases.end());
    return list;
  }();
  return kTable;
}

}  // namespace cohort::test
