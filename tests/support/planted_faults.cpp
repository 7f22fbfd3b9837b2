// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/planted_faults.h>

#include <cohort/tests/support/own_operands.h>
#include <cohort/tests/support/schedules.h>
#include <cohort/tests/support/wrong_schedules.h>

#include <algorithm>

namespace cohort::test {
namespace {

using check::Fate;
using check::Fault;
using check::FindingKind;
using check::Report;
using check::TaskKind;
using check::TaskPlace;
using check::TaskRequest;
using Alter = std::function<Fate(TaskRequest&)>;
using Run = std::function<Report(bool, std::uint64_t)>;

constexpr std::size_t kElement = 4;

/// Alters one task: that of a rank, a stream and a number in the first operation. `rank` 99: of every rank.
Fault at(Rank rank, std::string stream, std::uint32_t number, Alter alter) {
  return [=](const TaskPlace& place, TaskRequest& request) {
    const bool is_there = place.operation == 1 && (rank == 99 || place.rank == rank) &&
                          place.stream == stream && place.number == number;
    return is_there ? alter(request) : Fate::keep;
  };
}

/// Two tasks of one stream in each other's place.
Fault swapped(Rank rank, std::string stream, std::uint32_t first, TaskRequest in_place_of_second,
              TaskRequest in_place_of_first) {
  return [=](const TaskPlace& place, TaskRequest& request) {
    const bool is_there = place.operation == 1 && place.rank == rank && place.stream == stream;
    if (is_there && place.number == first) request = in_place_of_first;
    if (is_there && place.number == first + 1) request = in_place_of_second;
    return Fate::keep;
  };
}

Fate drop(TaskRequest&) { return Fate::drop; }
Fate twice(TaskRequest&) { return Fate::twice; }

template <class Change>
Alter change(Change edit) {
  return [edit](TaskRequest& request) {
    edit(request);
    return Fate::keep;
  };
}
Alter to_peer(Rank peer) {
  return change([peer](TaskRequest& r) { r.peer = peer; });
}
Alter as_signal(Signal signal) {
  return change([signal](TaskRequest& r) { r.signal = signal; });
}
Alter as_kind(TaskKind kind) {
  return change([kind](TaskRequest& r) { r.kind = kind; });
}
/// The local slice, `bytes` further on.
Alter moved(std::ptrdiff_t bytes) {
  return change([bytes](TaskRequest& r) { r.local.offset += static_cast<std::size_t>(bytes); });
}
Alter remote_moved(std::ptrdiff_t bytes) {
  return change([bytes](TaskRequest& r) { r.remote.offset += static_cast<std::size_t>(bytes); });
}
Alter shorter() {
  return change([](TaskRequest& r) {
    r.local.bytes -= kElement;
    if (!r.remote.empty()) r.remote.bytes -= kElement;
  });
}

template <class Edit>
Alter operands(Edit edit) {
  return [edit, own = OwnOperands()](TaskRequest& request) {
    return own.change(request, [&](auto& outputs, auto& inputs) {
      edit(outputs, inputs);
      return Fate::keep;
    });
  };
}
Alter shorter_copy() {
  return operands([](auto& outputs, auto& inputs) {
    outputs.front().slice.bytes -= kElement;
    inputs.front().slice.bytes -= kElement;
  });
}

template <class Op>
Run planted(std::string_view id, Fault fault, UserWindows windows = UserWindows::staged) {
  return [=](bool is_planted, std::uint64_t seed) {
    check::CheckOptions options;
    options.seed = seed;
    options.user_windows = windows;
    return check::check(library<Op>(id), options, is_planted ? &fault : nullptr);
  };
}
Run planted_into_puts(Fault fault) {
  return [=](bool is_planted, std::uint64_t seed) {
    check::CheckOptions options;
    options.seed = seed;
    return test::check_schedule<AllGather>(all_gather_by_put, all_links, options,
                                           is_planted ? &fault : nullptr);
  };
}

// What rank 1's stream 2 of all_gather mesh, which serves rank 3, asks for: 4000 bytes a block.
constexpr std::size_t kBlock = 4000;
TaskRequest mesh_get() {
  return {.kind = TaskKind::get,
          .peer = 3,
          .local = {WindowId::recv, 3 * kBlock, kBlock},
          .remote = {WindowId::ccl_out, 0, kBlock}};
}
TaskRequest mesh_signal(TaskKind kind, Signal signal) { return {.kind = kind, .peer = 3, .signal = signal}; }

using List = std::vector<PlantedFault>;

void add_mesh_all_gather(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant) {
    list.push_back({fault, "all_gather mesh", kind, names, planted<AllGather>("mesh", std::move(plant))});
  };
  const std::string two = "stream 2";
  add("dropped post of Ack", FindingKind::deadlock, "rank 3, stream 2, task 2", at(1, two, 1, drop));
  add("dropped wait for Ack", FindingKind::conflict, "rank 1, stream 2, task 3", at(1, two, 2, drop));
  add("dropped get", FindingKind::contribution, "bytes 12000..15999 of rank 1's recv", at(1, two, 3, drop));
  add("dropped post of DataSignal", FindingKind::deadlock, "rank 3, stream 2, task 5", at(1, two, 4, drop));
  add("dropped wait for DataSignal", FindingKind::conflict, "rank 3, stream 2, task 3", at(1, two, 5, drop));
  add("early DataSignal, before the get", FindingKind::conflict, "rank 1, stream 2, task 4",
      swapped(1, two, 3, mesh_get(), mesh_signal(TaskKind::post, Signal::DataSignal)));
  add("get before the wait for Ack", FindingKind::conflict, "rank 1, stream 2, task 2",
      swapped(1, two, 2, mesh_signal(TaskKind::wait, Signal::Ack), mesh_get()));
  add("wait for Ack before the post, on both sides", FindingKind::deadlock, "rank 1, stream 2, task 1",
      [](const TaskPlace& place, TaskRequest& request) {
        const bool is_there = place.operation == 1 && place.rank % 2 == 1 && place.stream == "stream 2";
        if (is_there && place.number <= 2) request.kind = place.number == 1 ? TaskKind::wait : TaskKind::post;
        return Fate::keep;
      });
  add("two waits in the wrong order, on both sides", FindingKind::deadlock, "rank 1, stream 2, task 2",
      [](const TaskPlace& place, TaskRequest& request) {
        const bool is_there = place.operation == 1 && place.rank % 2 == 1 && place.stream == "stream 2";
        if (is_there && place.number == 2) request.signal = Signal::DataSignal;
        if (is_there && place.number == 5) request.signal = Signal::Ack;
        return Fate::keep;
      });
  add("get from the wrong peer", FindingKind::usage, "rank 1, stream 2, task 3", at(1, two, 3, to_peer(2)));
  add("post of Ack to the wrong peer", FindingKind::usage, "rank 1, stream 2, task 1",
      at(1, two, 1, to_peer(2)));
  add("Ack in place of DataSignal: reused notify", FindingKind::notify, "rank 1, stream 2, task 4",
      at(1, two, 4, as_signal(Signal::Ack)));
  add("doubled post", FindingKind::notify, "rank 1, stream 2, task 1", at(1, two, 1, twice));
  add("slice off by one element", FindingKind::conflict, "rank 1, stream 1, task 3",
      at(1, "stream 1", 3, moved(kElement)));
  add("slice beyond the window", FindingKind::bounds, "rank 1, stream 2, task 3",
      at(1, two, 3, moved(kElement)));
  add("remote slice off by one element", FindingKind::contribution, "rank 1, stream 2, task 3",
      at(1, two, 3, remote_moved(kElement)));
  add("get of one element too few", FindingKind::contribution, "bytes 15996..15999 of rank 1's recv",
      at(1, two, 3, shorter()));
  add("get from the wrong window", FindingKind::contribution, "rank 1, stream 2, task 3",
      at(1, two, 3, change([](TaskRequest& r) { r.remote.window = WindowId::ccl_in; })));
  add("get from scratch", FindingKind::usage, "rank 1, stream 2, task 3",
      at(1, two, 3, change([](TaskRequest& r) {
           r.remote = {WindowId::scratch, 0, 0};
           r.local.bytes = 0;
         })));
  add("missing copy of the own block", FindingKind::contribution, "bytes 4000..7999 of rank 1's recv",
      at(1, "main stream", 2, drop));
  add("published block not written", FindingKind::contribution, "rank 2's ccl_out[0, +4000]",
      at(2, "main stream", 1, drop));
  add("published block one element short", FindingKind::contribution, "rank 3's ccl_out[0, +4000]",
      at(3, "main stream", 1, shorter_copy()));
}

void add_ring_all_reduce(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant) {
    list.push_back({fault, "all_reduce ring", kind, names, planted<AllReduce>("ring", std::move(plant))});
  };
  const std::string out = "stream 1";
  const std::string in = "stream 2";
  add("send of the wrong block", FindingKind::conflict, "rank 1, stream 1, task 2",
      at(1, out, 2, moved(-1000)));
  add("receiving into the wrong block", FindingKind::conflict, "rank 1, stream 2, task 3",
      at(1, in, 3, moved(1000)));
  add("recv in place of recv_reduce", FindingKind::contribution, "rank 1, stream 2, task 2",
      at(1, in, 2, as_kind(TaskKind::recv)));
  add("recv_reduce in place of recv: doubled contribution", FindingKind::contribution,
      "rank 1, stream 2, task 5", at(1, in, 5, as_kind(TaskKind::recv_reduce)));
  add("dropped finish_average", FindingKind::contribution, "nobody divided", at(1, "main stream", 2, drop));
  add("average divided twice", FindingKind::contribution, "rank 1, main stream, task 2",
      at(1, "main stream", 2, twice));
  add("recv without send", FindingKind::deadlock, "let rank 1 send", at(1, out, 2, drop));
  add("send without recv", FindingKind::deadlock, "rank 1, stream 1, task 6", at(2, in, 6, drop));
  add("send to the wrong neighbour", FindingKind::deadlock, "rank 1, stream 1, task 2",
      at(1, out, 2, to_peer(0)));
  add("missing copy of the input", FindingKind::contribution,
      "rank 2, stream 2, task 1 (recv_reduce recv[0, +1000] from rank 1)", at(1, "main stream", 1, drop));
  add("send of one element too few", FindingKind::bounds, "rank 2, stream 2, task 2",
      at(1, out, 2, shorter()));
}

void add_reductions(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant) {
    list.push_back(
        {fault, "all_reduce one_shot", kind, names, planted<AllReduce>("one_shot", std::move(plant))});
  };
  const std::string main = "main stream";
  add("two streams receive into one place", FindingKind::conflict, "rank 1, stream 2.2, task 1",
      at(1, "stream 2.2", 1, change([](TaskRequest& r) { r.local.offset = kBlock; })));
  add("scratch beyond what needs() asks for", FindingKind::bounds, "rank 1, stream 2.2, task 1",
      at(1, "stream 2.2", 1, change([](TaskRequest& r) { r.local.offset = 3 * kBlock; })));
  add("order of reduction that differs between ranks", FindingKind::reduction, "rank 2, main stream, task 1",
      at(2, main, 1, operands([](auto&, auto& inputs) { std::reverse(inputs.begin(), inputs.end()); })));
  add("operand left out", FindingKind::contribution, "rank 1, main stream, task 1",
      at(1, main, 1, operands([](auto&, auto& inputs) { inputs.pop_back(); })));
  add("operand taken twice", FindingKind::contribution, "rank 1, main stream, task 1",
      at(1, main, 1, operands([](auto&, auto& inputs) { inputs[1] = inputs[0]; })));
  add("operand off by one element", FindingKind::contribution, "rank 1, main stream, task 1",
      at(1, main, 1, operands([](auto& outputs, auto& inputs) {
           for (auto* list_of : {&outputs, &inputs})
             for (PlacedSlice& place : *list_of) place.slice.bytes -= kElement;
           inputs[0].slice.offset += kElement;
         })));
  add("average forgotten in a reduce", FindingKind::contribution, "nobody divided",
      at(1, main, 1, change([](TaskRequest& r) { r.combine.average_over = 0; })));
  list.push_back({"partial result divided", "all_reduce recursive_doubling", FindingKind::contribution,
                  "rank 1, main stream, task 2",
                  planted<AllReduce>("recursive_doubling", at(1, main, 2, change([](TaskRequest& r) {
                                                                r.combine.average_over = 4;
                                                              })))});
  list.push_back({"operands of one rank's share in another order", "reduce_scatter mesh",
                  FindingKind::reduction, "rank 2, main stream, task 1",
                  planted<ReduceScatter>("mesh", at(2, main, 1, operands([](auto&, auto& inputs) {
                                                      std::reverse(inputs.begin(), inputs.end());
                                                    })))});
  list.push_back({"partner of another round", "all_reduce recursive_doubling", FindingKind::deadlock,
                  "rank 0, stream 1, task 2",
                  planted<AllReduce>("recursive_doubling", [](const TaskPlace& place, TaskRequest& request) {
                    const bool is_there = place.operation == 1 && place.rank == 0 && place.number == 1;
                    if (is_there && request.kind != TaskKind::copy) request.peer = 2;
                    return Fate::keep;
                  })});
}

void add_mapped(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant, bool maps) {
    list.push_back(
        {fault, maps ? "all_reduce direct, mapped" : "all_reduce direct, private", kind, names,
         planted<AllReduce>("direct", std::move(plant), maps ? UserWindows::mapped : UserWindows::staged)});
  };
  const std::string main = "main stream";
  add("missing phase on one rank", FindingKind::conflict, "rank 1, main stream, task 5", at(1, main, 4, drop),
      false);
  add("missing phase on all ranks", FindingKind::conflict, "rank 0, main stream, task 3",
      at(99, main, 4, drop), false);
  add("missing phase before results are read", FindingKind::conflict, "rank 3, main stream, task 5",
      at(99, main, 6, drop), false);
  add("missing last phase", FindingKind::conflict, "while rank 3 leaves the operation", at(99, main, 2, drop),
      true);
  add("result not stored at one peer", FindingKind::contribution, "bytes 1000..1999 of rank 3's recv",
      at(1, main, 1, operands([](auto& outputs, auto&) { outputs.pop_back(); })), true);
  add("result stored in another rank's share", FindingKind::conflict, "rank 1, main stream, task 1",
      at(1, main, 1, operands([](auto& outputs, auto&) {
           for (PlacedSlice& place : outputs) place.slice.offset += 1000;
         })),
      true);
}

void add_rooted(List& list) {
  const std::string main = "main stream";
  list.push_back({"root that leaves one peer out", "broadcast one_shot", FindingKind::deadlock,
                  "rank 2, main stream, task 1", planted<Broadcast>("one_shot", at(0, "stream 2", 1, drop))});
  list.push_back({"DataSignal of the chain dropped", "broadcast ring", FindingKind::deadlock,
                  "rank 2, main stream, task 1", planted<Broadcast>("ring", at(1, main, 2, drop))});
  list.push_back({"last Ack dropped", "broadcast ring", FindingKind::deadlock, "rank 0, main stream, task 4",
                  planted<Broadcast>("ring", at(3, main, 2, drop))});
  list.push_back({"block sent to the wrong peer", "broadcast mesh", FindingKind::usage,
                  "rank 0, stream 1, task 1", planted<Broadcast>("mesh", at(0, "stream 1", 1, to_peer(2)))});
  list.push_back({"post dropped", "barrier one_shot", FindingKind::deadlock, "let rank 1 post it",
                  planted<Barrier>("one_shot", at(1, main, 1, drop))});
  list.push_back({"token on the wrong signal", "barrier ring", FindingKind::deadlock,
                  "rank 2, main stream, task 1",
                  planted<Barrier>("ring", at(1, main, 2, as_signal(Signal::DataSignal)))});
}

void add_puts(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant) {
    list.push_back({fault, "all_gather by put", kind, names, planted_into_puts(std::move(plant))});
  };
  const std::string two = "stream 2";
  add("put without waiting for Ack, in the second operation", FindingKind::conflict,
      "rank 1, stream 2, task 3 of operation 2 in a row", [](const TaskPlace& place, TaskRequest&) {
        const bool is_there = place.operation == 2 && place.rank == 1 && place.stream == "stream 2";
        return is_there && place.number == 2 ? Fate::drop : Fate::keep;
      });
  add("copy before the DataSignal of the put", FindingKind::conflict, "rank 1, stream 2, task 5",
      at(1, two, 4, drop));
  add("put with the wrong signal", FindingKind::notify, "rank 1, stream 2, task 3",
      at(1, two, 3, as_signal(Signal::Ack)));
  add("put to another rank's slot", FindingKind::conflict, "rank 1, stream 2, task 3",
      at(1, two, 3, remote_moved(kBlock)));
  add("put sizes that differ", FindingKind::bounds, "rank 1, stream 2, task 3",
      at(1, two, 3, change([](TaskRequest& r) { r.remote.bytes -= kElement; })));
  add("dropped put", FindingKind::deadlock, "rank 3, stream 2, task 4", at(1, two, 3, drop));
}

/// Results that combine some ranks only, and blocks that are stored at a peer.
void add_scan_and_gather(List& list) {
  const auto add = [&](const char* fault, FindingKind kind, const char* names, Fault plant) {
    list.push_back({fault, "scan mesh", kind, names, planted<Scan>("mesh", std::move(plant))});
  };
  add("a rank too many combined", FindingKind::contribution, "which is no part of it",
      at(2, "main stream", 1, operands([](auto&, auto& inputs) {
           inputs.push_back(inputs.back());
           inputs.back().slice.offset += inputs.back().slice.bytes;
         })));
  add("sum of a lower rank passed on", FindingKind::contribution, "lacks the contribution of rank 2",
      at(3, "main stream", 2, operands([](auto&, auto& inputs) { inputs.pop_back(); })));
  add("divided by all ranks, not by those combined", FindingKind::reduction, "divides by 4 where 2 ranks",
      at(1, "main stream", 5, change([](TaskRequest& r) { r.combine.average_over = 4; })));
  list.push_back({"block stored at a peer's place", "gather direct", FindingKind::conflict, "rank 0's recv",
                  planted<Gather>("direct", at(2, "main stream", 1, operands([](auto& outputs, auto&) {
                                                 outputs.front().slice.offset -= kBlock;
                                               })),
                                  UserWindows::mapped)});
}

}  // namespace

const std::vector<PlantedFault>& planted_faults() {
  static const std::vector<PlantedFault> kTable = [] {
    List list;
    add_mesh_all_gather(list);
    add_ring_all_reduce(list);
    add_reductions(list);
    add_mapped(list);
    add_rooted(list);
    add_puts(list);
    add_scan_and_gather(list);
    return list;
  }();
  return kTable;
}

}  // namespace cohort::test
