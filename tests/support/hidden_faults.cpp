// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/hidden_faults.h>

#include <cohort/tests/support/own_operands.h>
#include <cohort/tests/support/schedules.h>

#include <algorithm>

namespace cohort::test {
namespace {

using check::CheckOptions;
using check::Fate;
using check::Fated;
using check::Fault;
using check::FindingKind;
using check::TaskKind;
using check::TaskPlace;
using check::TaskRequest;
using List = std::vector<HiddenFault>;

constexpr std::size_t kFloat = 4;

/// A task that a fault edits, with operands of its own.
struct Edited {
  TaskRequest& request;
  std::vector<PlacedSlice>& outputs;
  std::vector<PlacedSlice>& inputs;

  template <class Edit>
  void each_slice(Edit edit) const {
    edit(request.local);
    edit(request.remote);
    for (auto* const places : {&outputs, &inputs})
      for (PlacedSlice& place : *places) edit(place.slice);
  }
};
using Edit = std::function<Fate(const CheckOptions&, const TaskPlace&, const Edited&)>;

std::function<Fault(const CheckOptions&)> planting(Edit edit) {
  return [edit](const CheckOptions& options) {
    return [edit, options, own = OwnOperands()](const TaskPlace& place, TaskRequest& request) {
      const Fate fate = own.change(request, [&](auto& outputs, auto& inputs) {
        return edit(options, place, {request, outputs, inputs});
      });
      return Fated(fate);
    };
  };
}

struct Expected {
  CheckOptions shows;
  FindingKind kind;
  const char* names;
  CheckOptions harmless{};
};

template <class Op>
void add(List& list, std::string_view id, const char* fault, const Expected& expected, Edit edit) {
  list.push_back({fault, &library<Op>(id), expected.harmless, expected.shows, expected.kind, expected.names,
                  planting(std::move(edit))});
}

bool is_on_link(const TaskRequest& request) {
  return request.kind >= TaskKind::post && request.kind <= TaskKind::recv_reduce;
}
bool is_user_window(const Slice& slice) {
  return slice.window == WindowId::send || slice.window == WindowId::recv;
}
/// Of a place in a message; an empty one has the first only.
std::size_t modulo(std::size_t at, std::size_t bytes) { return bytes == 0 ? 0 : at % bytes; }

std::size_t rounded_down(const CheckOptions& o) { return o.count / o.ranks * size_bytes(o.type); }
std::size_t rounded_up(const CheckOptions& o) {
  return (o.count + o.ranks - 1) / o.ranks * size_bytes(o.type);
}

void add_numbers_of_ranks(List& list) {
  add<AllGather>(list, "mesh", "peers counted modulo 4",
                 {{.ranks = 5}, FindingKind::usage, "rank 0, stream 4, task 1"},
                 [](auto&, auto&, const Edited& e) {
                   if (is_on_link(e.request)) e.request.peer %= 4;
                   return Fate::keep;
                 });
  add<AllReduce>(list, "recursive_doubling", "ranks beyond the first four left out",
                 {{.ranks = 6}, FindingKind::contribution, "rank 4, main stream, task 3"},
                 [](auto&, auto& place, const Edited& e) {
                   const bool is_beyond = is_on_link(e.request) && (place.rank >= 4 || e.request.peer >= 4);
                   return is_beyond ? Fate::drop : Fate::keep;
                 });
  add<AllReduce>(list, "ring", "six steps whatever the number of ranks",
                 {{.ranks = 5}, FindingKind::contribution, "rank 1, stream 2, task 3"},
                 [](auto&, auto& place, const Edited& e) {
                   return is_on_link(e.request) && place.number > 6 ? Fate::drop : Fate::keep;
                 });
  add<ReduceScatter>(list, "mesh", "scratch for three peers",
                     {{.ranks = 5}, FindingKind::conflict, "rank 0, stream 4.2, task 1"},
                     [](auto& o, auto&, const Edited& e) {
                       const std::size_t block = o.count * size_bytes(o.type);
                       e.each_slice([&](Slice& slice) {
                         if (slice.window == WindowId::scratch)
                           slice.offset = modulo(slice.offset, 3 * block);
                       });
                       return Fate::keep;
                     });
  add<Reduce>(list, "one_shot", "divides by 4",
              {{.ranks = 5}, FindingKind::reduction, "rank 0, main stream, task 1"},
              [](auto&, auto&, const Edited& e) {
                if (e.request.combine.average_over != 0) e.request.combine.average_over = 4;
                return Fate::keep;
              });
  add<AllReduce>(list, "direct", "stores at four ranks",
                 {{.ranks = 5, .user_windows = UserWindows::mapped},
                  FindingKind::contribution,
                  "rank 4's end",
                  {.user_windows = UserWindows::mapped}},
                 [](auto&, auto&, const Edited& e) {
                   if (e.outputs.size() > 4) e.outputs.resize(4);
                   return Fate::keep;
                 });
  add<Barrier>(list, "one_shot", "a table of six tasks",
               {{.ranks = 5}, FindingKind::notify, "rank 2, main stream, task 2"},
               [](auto&, auto& place, const Edited&) { return place.number > 6 ? Fate::drop : Fate::keep; });
  add<Broadcast>(list, "tree", "a tree of height two",
                 {{.ranks = 6}, FindingKind::deadlock, "rank 4, main stream, task 1"},
                 [](auto&, auto& place, const Edited& e) {
                   return e.request.peer >= place.rank + 4 ? Fate::drop : Fate::keep;
                 });
  add<AllGather>(list, "direct", "no phases among an odd number of ranks",
                 {{.ranks = 3}, FindingKind::conflict, "rank 0, main stream, task 2"},
                 [](auto& o, auto&, const Edited& e) {
                   return e.request.kind == TaskKind::phase && o.ranks % 2 == 1 ? Fate::drop : Fate::keep;
                 });
}

Edit shares_rounded_down() {
  return [](auto& o, auto&, const Edited& e) {
    e.each_slice([&](Slice& slice) { slice.bytes = std::min(slice.bytes, rounded_down(o)); });
    return Fate::keep;
  };
}
/// Where shares of scratch, or of the result, would begin if all had the rounded size.
Edit offsets_rounded_down(bool in_scratch) {
  return [in_scratch](auto& o, auto&, const Edited& e) {
    e.each_slice([&](Slice& slice) {
      const bool is_share = o.count != 0 && slice.bytes <= rounded_up(o);
      if ((slice.window == WindowId::scratch) == in_scratch && is_share)
        slice.offset = slice.offset / rounded_up(o) * rounded_down(o);
    });
    return Fate::keep;
  };
}

void add_remainders(List& list) {
  const auto left = [](std::size_t count) { return CheckOptions{.count = count}; };
  add<ReduceScatter>(list, "mesh", "whole vectors of 16 bytes only",
                     {left(1001), FindingKind::contribution, "rank 3's end"},
                     [](auto&, auto&, const Edited& e) {
                       e.each_slice([](Slice& slice) { slice.bytes &= ~std::size_t{15}; });
                       return Fate::keep;
                     });
  add<AllGather>(list, "mesh", "whole vectors of 16 bytes only",
                 {left(1001), FindingKind::contribution, "rank 0's end"}, [](auto&, auto&, const Edited& e) {
                   e.each_slice([](Slice& slice) { slice.bytes &= ~std::size_t{15}; });
                   return Fate::keep;
                 });
  add<Broadcast>(list, "mesh", "remainder left out", {left(1003), FindingKind::contribution, "rank 3's end"},
                 shares_rounded_down());
  add<AllReduce>(list, "direct", "remainder left out",
                 {{.count = 1003, .user_windows = UserWindows::mapped},
                  FindingKind::contribution,
                  "rank 2's end",
                  {.user_windows = UserWindows::mapped}},
                 shares_rounded_down());
  add<Broadcast>(list, "mesh", "blocks begin as if there were no remainder",
                 {left(1002), FindingKind::conflict, "rank 1, stream 3, task 1"},
                 offsets_rounded_down(false));
  add<AllReduce>(list, "mesh", "scratch for even shares",
                 {left(1003), FindingKind::conflict, "rank 0, stream 2.2, task 1"},
                 offsets_rounded_down(true));
  add<AllReduce>(list, "ring", "empty blocks not sent",
                 {left(2), FindingKind::bounds, "rank 0, stream 2, task 1"},
                 [](auto&, auto&, const Edited& e) {
                   const bool is_idle = e.request.kind == TaskKind::send && e.request.local.empty();
                   return is_idle ? Fate::drop : Fate::keep;
                 });
}

Edit peers_as_if_root_were_0(TaskKind kind) {
  return [kind](auto& o, auto&, const Edited& e) {
    if (e.request.kind == kind) e.request.peer = (e.request.peer + o.ranks - o.root) % o.ranks;
    return Fate::keep;
  };
}

void add_roots(List& list) {
  const auto at = [](Rank root) { return CheckOptions{.root = root}; };
  add<Broadcast>(list, "one_shot", "rank 0 asked in place of the root",
                 {at(2), FindingKind::usage, "rank 0, main stream, task 1"},
                 [](auto& o, auto& place, const Edited& e) {
                   if (place.rank != o.root && e.request.peer == o.root) e.request.peer = 0;
                   return Fate::keep;
                 });
  add<Broadcast>(list, "ring", "the last rank closes the ring, wherever it began",
                 {at(2), FindingKind::deadlock, "rank 0, main stream, task 1"},
                 [](auto& o, auto& place, const Edited& e) {
                   const bool closes = e.request.kind == TaskKind::post && e.request.signal == Signal::Ack;
                   return closes && place.rank + 1 != o.ranks ? Fate::drop : Fate::keep;
                 });
  add<Reduce>(list, "tree", "parents as if the root were 0",
              {at(1), FindingKind::deadlock, "rank 0, main stream, task 1"},
              peers_as_if_root_were_0(TaskKind::send));
  add<Broadcast>(list, "tree", "parents as if the root were 0",
                 {at(1), FindingKind::deadlock, "rank 0, main stream, task 1"},
                 peers_as_if_root_were_0(TaskKind::recv));
  add<Reduce>(list, "direct", "shares stored at rank 0",
              {{.root = 1, .user_windows = UserWindows::mapped},
               FindingKind::bounds,
               "rank 3, main stream, task 1",
               {.user_windows = UserWindows::mapped}},
              [](auto&, auto&, const Edited& e) {
                for (PlacedSlice& output : e.outputs) output.rank = 0;
                return Fate::keep;
              });
  add<Reduce>(list, "one_shot", "only rank 0 divides",
              {at(3), FindingKind::contribution, "rank 3, main stream, task 1"},
              [](auto&, auto& place, const Edited& e) {
                if (place.rank != 0) e.request.combine.average_over = 0;
                return Fate::keep;
              });
  add<Broadcast>(list, "mesh", "block 0 sent as the root's own",
                 {at(1), FindingKind::contribution, "rank 0, stream 1, task 1"},
                 [](auto& o, auto& place, const Edited& e) {
                   const bool is_own =
                       place.rank == o.root && e.request.local.offset == rounded_up(o) * o.root;
                   if (is_own && e.request.kind == TaskKind::send) e.request.local.offset = 0;
                   return Fate::keep;
                 });
}

void add_pieces(List& list) {
  const CheckOptions pieces{.piece_bytes = 1600};
  const CheckOptions small_buffers{.buffer_bytes = 2048};
  add<AllReduce>(list, "ring", "every piece taken from the first one's place",
                 {pieces, FindingKind::contribution, "rank 0's end"}, [](auto& o, auto&, const Edited& e) {
                   const std::size_t element = size_bytes(o.type);
                   const std::size_t piece = piece_bytes(o.count * element, element, o.piece_bytes);
                   e.each_slice([&](Slice& slice) {
                     if (is_user_window(slice)) slice.offset = modulo(slice.offset, piece);
                   });
                   return Fate::keep;
                 });
  add<AllGather>(list, "mesh", "Acks awaited for the first piece only",
                 {pieces, FindingKind::conflict, "rank 1, main stream, task 3"},
                 [](auto&, auto& place, const Edited& e) {
                   const bool is_later = place.number > 5 && e.request.kind == TaskKind::wait;
                   return is_later && e.request.signal == Signal::Ack ? Fate::drop : Fate::keep;
                 });
  add<AllGather>(list, "direct", "halves of ccl_out that do not alternate",
                 {small_buffers, FindingKind::conflict, "rank 3, main stream, task 6"},
                 [](auto& o, auto&, const Edited& e) {
                   e.each_slice([&](Slice& slice) {
                     if (slice.window == WindowId::ccl_out) slice.offset %= o.buffer_bytes / 2;
                   });
                   return Fate::keep;
                 });
  add<AllReduce>(list, "direct", "phases of the first two pieces only",
                 {small_buffers, FindingKind::conflict, "rank 2, main stream, task 12"},
                 [](auto&, auto& place, const Edited& e) {
                   return e.request.kind == TaskKind::phase && place.number > 12 ? Fate::drop : Fate::keep;
                 });
  add<Broadcast>(list, "ring", "the first chunk passed on again",
                 {{.count = std::size_t{1} << 17}, FindingKind::contribution, "rank 2, stream 1, task 3"},
                 [](auto& o, auto& place, const Edited& e) {
                   if (place.rank != o.root && e.request.kind == TaskKind::send) e.request.local.offset = 0;
                   return Fate::keep;
                 });
}

/// Before its first task, a rank clears what it will write.
std::function<Fault(const CheckOptions&)> clearing_output(TaskKind first) {
  return [first](const CheckOptions& options) {
    const std::size_t bytes = options.count * size_bytes(options.type);
    return [=, own = OwnOperands()](const TaskPlace& place, TaskRequest& request) {
      Fated fated(Fate::keep);
      if (place.number != 1 || place.stream != "main stream" || request.kind != first) return fated;
      fated.then.push_back(request);
      request = {.kind = TaskKind::copy};
      fated.fate = own.change(request, [&](auto& outputs, auto& inputs) {
        outputs = {{place.rank, {WindowId::recv, 0, bytes}}};
        inputs = {{place.rank, {WindowId::ccl_in, 0, bytes}}};
        return Fate::keep;
      });
      return fated;
    };
  };
}

void add_places(List& list) {
  // To write for nothing is found everywhere, where costs are looked at.
  const CheckOptions apart{.checks_cost = false};
  const CheckOptions in_place{.is_in_place = true, .checks_cost = false};
  CheckOptions mapped = apart;
  mapped.user_windows = UserWindows::mapped;
  CheckOptions mapped_in_place = mapped;
  mapped_in_place.is_in_place = true;
  list.push_back({"output cleared first", &library<AllReduce>("ring"), apart, in_place,
                  FindingKind::contribution, "rank 1, stream 2, task 1", clearing_output(TaskKind::copy)});
  list.push_back({"output cleared first", &library<ReduceScatter>("direct"), mapped, mapped_in_place,
                  FindingKind::contribution, "rank 2, main stream, task 1",
                  clearing_output(TaskKind::reduce)});
  const auto without_copy = [](auto&, auto& place, const Edited& e) {
    const bool is_own = place.stream == "main stream" && e.request.kind == TaskKind::copy &&
                        e.outputs.front().slice.window == WindowId::recv;
    return is_own ? Fate::drop : Fate::keep;
  };
  add<AllReduce>(list, "ring", "as if it were in place: no copy of the input",
                 {{}, FindingKind::contribution, "rank 1, stream 2, task 1", in_place}, without_copy);
  add<AllGather>(list, "mesh", "as if it were in place: no copy of the own block",
                 {{}, FindingKind::contribution, "rank 0's end", in_place}, without_copy);
}

Edit combining(DataType type) {
  return [type](auto&, auto&, const Edited& e) {
    e.request.combine.type = type;
    return Fate::keep;
  };
}
Edit combining(ReduceOp op) {
  return [op](auto&, auto&, const Edited& e) {
    e.request.combine.op = op;
    return Fate::keep;
  };
}
Edit dividing(bool always) {
  return [always](auto& o, auto&, const Edited& e) {
    const bool ends = e.request.kind == TaskKind::reduce || e.request.kind == TaskKind::finish_average;
    if (ends) e.request.combine.average_over = always ? o.ranks : 0;
    return Fate::keep;
  };
}

void add_types_and_operators(List& list) {
  const auto of = [](DataType type) { return CheckOptions{.type = type}; };
  const auto by = [](ReduceOp op) { return CheckOptions{.reduce = op}; };
  const CheckOptions mapped{.user_windows = UserWindows::mapped};
  add<AllReduce>(list, "ring", "combined as float32 whatever the type",
                 {of(DataType::float64), FindingKind::reduction, "rank 0, stream 2, task 1"},
                 combining(DataType::float32));
  add<AllReduce>(list, "one_shot", "combined as float32 whatever the type",
                 {of(DataType::int32), FindingKind::reduction, "rank 3, main stream, task 1"},
                 combining(DataType::float32));
  add<Broadcast>(list, "one_shot", "four bytes an element",
                 {of(DataType::float64), FindingKind::contribution, "rank 1's end"},
                 [](auto& o, auto&, const Edited& e) {
                   e.request.local.bytes = e.request.local.bytes / size_bytes(o.type) * kFloat;
                   return Fate::keep;
                 });
  add<Reduce>(list, "direct", "cut at multiples of four bytes",
              {{.count = 1001, .user_windows = UserWindows::mapped, .type = DataType::float64},
               FindingKind::bounds,
               "rank 3, main stream, task 1",
               mapped},
              [](auto& o, auto&, const Edited& e) {
                const std::size_t all = o.count * size_bytes(o.type);
                const std::size_t share = (all / kFloat + o.ranks - 1) / o.ranks * kFloat;
                if (o.count == 0) return Fate::keep;
                e.each_slice([&](Slice& slice) {
                  slice.offset = slice.offset / rounded_up(o) * share;
                  slice.bytes = std::min(share, all - slice.offset);
                });
                return Fate::keep;
              });
  add<AllReduce>(list, "ring", "sums whatever the operator",
                 {by(ReduceOp::max), FindingKind::reduction, "rank 0, stream 2, task 1"},
                 combining(ReduceOp::sum));
  add<Reduce>(list, "tree", "sums whatever the operator",
              {by(ReduceOp::min), FindingKind::reduction, "rank 0, main stream, task 2"},
              combining(ReduceOp::sum));
  CheckOptions mapped_product = mapped;
  mapped_product.reduce = ReduceOp::prod;
  add<AllReduce>(list, "direct", "sums whatever the operator",
                 {mapped_product, FindingKind::reduction, "rank 3, main stream, task 1", mapped},
                 [](auto&, auto&, const Edited& e) {
                   if (e.request.combine.average_over == 0) e.request.combine.op = ReduceOp::sum;
                   return Fate::keep;
                 });
  add<AllReduce>(list, "ring", "divides whatever the operator",
                 {by(ReduceOp::sum), FindingKind::contribution, "rank 0, main stream, task 2"},
                 dividing(true));
  add<AllReduce>(list, "one_shot", "never divides",
                 {{}, FindingKind::contribution, "rank 3, main stream, task 1", by(ReduceOp::sum)},
                 dividing(false));
}

void add_lengths(List& list) {
  constexpr std::size_t kMask = 0xffffffff;
  add<AllReduce>(list, "ring", "offsets of 32 bits",
                 {{.count = std::size_t{1} << 32}, FindingKind::conflict, "rank 1, stream 2, task 1"},
                 [](auto&, auto&, const Edited& e) {
                   e.each_slice([](Slice& slice) { slice.offset &= kMask; });
                   return Fate::keep;
                 });
  add<AllGather>(list, "direct", "lengths of 32 bits",
                 {{.count = (std::size_t{1} << 30) + 1, .user_windows = UserWindows::mapped},
                  FindingKind::contribution,
                  "rank 2's end",
                  {.user_windows = UserWindows::mapped}},
                 [](auto&, auto&, const Edited& e) {
                   e.each_slice([](Slice& slice) { slice.bytes &= kMask; });
                   return Fate::keep;
                 });
}

}  // namespace

const std::vector<HiddenFault>& hidden_faults() {
  static const std::vector<HiddenFault> kTable = [] {
    List list;
    add_numbers_of_ranks(list);
    add_remainders(list);
    add_roots(list);
    add_pieces(list);
    add_places(list);
    add_types_and_operators(list);
    add_lengths(list);
    return list;
  }();
  return kTable;
}

}  // namespace cohort::test
