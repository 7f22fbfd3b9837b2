// SPDX-License-Identifier: Apache-2.0
// The collectives. Elements that are only moved are bytes to cohort, so that each rank may describe them in
// its own way.
#include <cohort/bindings/mpi/prepared.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort_mpi/calls.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cohort::mpi {
namespace {

using bindings::CollectiveCall;
using Sizes = std::vector<std::size_t>;

bool is_in_place(const void* buffer) { return buffer == abi::kInPlace; }

std::size_t sum_before(const Sizes& sizes, std::size_t end) {
  return std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(end), std::size_t{0});
}

CollectiveCall moving(Operator op, std::span<const std::byte> in, std::span<std::byte> out, Rank root = 0) {
  CollectiveCall call{op};
  call.arguments.root = root;
  call.arguments.in = in;
  call.arguments.out = out;
  return call;
}

void check_same_size(std::size_t send, std::size_t recv) {
  if (send != recv)
    fail(abi::kErrTruncate, fmt::format("this rank gives {} bytes and gets {} of itself", send, recv));
}

/// What each rank gives to each and gets of each, in bytes, of which each knows its own.
void exchange(Prepared& prepared, std::span<const std::byte> in, const Sizes& gives, std::span<std::byte> out,
              const Sizes& gets) {
  CollectiveCall call = moving(operator_of<AllToAllVc>, in, out);
  call.arguments.counts = gives;
  call.arguments.recv_counts = gets;
  call.counts = CollectiveCall::Counts::of_rank;
  prepared.call(call);
}

Sizes& zeros(Prepared& prepared) {
  Sizes& sizes = prepared.numbers();
  sizes.resize(prepared.size());
  return sizes;
}

/// Whether this rank is the root, whose buffer alone may be MPI_IN_PLACE.
bool is_root_with(const void* buffer, const Prepared& prepared, Rank root) {
  const bool is_root = root == prepared.rank();
  if (is_in_place(buffer) && !is_root) fail(abi::kErrBuffer, "MPI_IN_PLACE is for the root alone");
  return is_root;
}

/// The same block of an output as an input: it lies there already.
std::span<const std::byte> block_of(std::span<std::byte> all, Rank rank, Rank ranks) {
  const std::size_t block = all.size() / ranks;
  return all.subspan(rank * block, block);
}

/// With the gaps within pairs, which are elements to cohort.
std::size_t bytes_to_combine(Number count, const Datatype& type) {
  (void)bytes_of(count, type);
  return static_cast<std::size_t>(count * type.extent);
}

Prepared combine(Operator op, const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op by,
                 MPI_Comm comm, Rank root = 0, bool receives = true) {
  Prepared prepared(comm);
  const Reduction reduction = reduction_of(by, datatype);
  const void* const from = is_in_place(send) ? recv : send;
  const std::size_t bytes = bytes_to_combine(count, *datatype_of(datatype));
  CallArguments arguments{.type = reduction.type, .reduce = reduction.op, .root = root};
  arguments.in = {static_cast<const std::byte*>(from), bytes};
  if (receives) arguments.out = {static_cast<std::byte*>(recv), bytes};
  if (reduction.function == nullptr) {
    prepared.call(CollectiveCall{op, arguments});
    return prepared;
  }
  prepared.keep(reduction.function);
  prepared.call(FunctionCall{.op = op, .arguments = arguments, .function = reduction.function.get()});
  return prepared;
}

}  // namespace

Prepared barrier(MPI_Comm comm) {
  Prepared prepared(comm);
  prepared.call(CollectiveCall{operator_of<Barrier>});
  return prepared;
}

Prepared bcast(void* buffer, Number count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  Prepared prepared(comm);
  const Rank from = prepared.root(root);
  const std::span<std::byte> data = from == prepared.rank() ? prepared.both(buffer, count, datatype)
                                                            : prepared.output(buffer, count, datatype);
  prepared.call(moving(operator_of<Broadcast>, {}, data, from));
  return prepared;
}

Prepared allreduce(const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op op,
                   MPI_Comm comm) {
  return combine(operator_of<AllReduce>, send, recv, count, datatype, op, comm);
}

Prepared reduce(const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op op, int root,
                MPI_Comm comm) {
  const Prepared asked(comm);
  const Rank to = asked.root(root);
  const bool is_root = is_root_with(send, asked, to);
  return combine(operator_of<Reduce>, send, recv, count, datatype, op, comm, to, is_root);
}

Prepared scan(const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return combine(operator_of<Scan>, send, recv, count, datatype, op, comm);
}
Prepared exscan(const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  return combine(operator_of<ExclusiveScan>, send, recv, count, datatype, op, comm);
}

namespace {

/// Blocks of a combined vector that is made whole first: what a function combines in blocks that differ.
Prepared combine_all_and_cut(const void* from, void* recv, const Sizes& sizes, const Reduction& reduction,
                             MPI_Comm comm) {
  Prepared prepared(comm);
  const std::size_t first = sum_before(sizes, prepared.rank());
  const std::size_t own = sizes[prepared.rank()];
  const std::span<std::byte> all = prepared.room(sum_before(sizes, sizes.size()));
  CallArguments arguments{.type = reduction.type, .reduce = reduction.op};
  arguments.in = {static_cast<const std::byte*>(from), all.size()};
  arguments.out = all;
  prepared.keep(reduction.function);
  prepared.call(FunctionCall{
      .op = operator_of<AllReduce>, .arguments = arguments, .function = reduction.function.get()});
  prepared.when_over([=](const bindings::Request&) {
    if (own != 0) std::memcpy(recv, all.data() + first, own);
  });
  return prepared;
}

Prepared scatter_combined(const void* send, void* recv, const Sizes& elements, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm) {
  Prepared prepared(comm);
  const Reduction reduction = reduction_of(op, datatype);
  const auto element = static_cast<std::size_t>(datatype_of(datatype)->extent);
  Sizes& counts = prepared.numbers();
  counts = elements;
  Sizes bytes;
  for (const std::size_t count : elements) bytes.push_back(count * element);
  const auto* const from = static_cast<const std::byte*>(is_in_place(send) ? recv : send);
  if (reduction.function != nullptr) return combine_all_and_cut(from, recv, bytes, reduction, comm);
  std::span<std::byte> out(static_cast<std::byte*>(recv), bytes[prepared.rank()]);
  if (is_in_place(send)) {  // whose result is the first block of its buffer, and not the own one
    const std::span<std::byte> made = prepared.room(out.size());
    prepared.when_over([=](const bindings::Request&) {
      if (!made.empty()) std::memcpy(recv, made.data(), made.size());
    });
    out = made;
  }
  CollectiveCall call{operator_of<ReduceScatterV>};
  call.arguments.type = reduction.type;
  call.arguments.reduce = reduction.op;
  call.arguments.in = {from, sum_before(bytes, bytes.size())};
  call.arguments.out = out;
  call.arguments.counts = counts;
  call.counts = CollectiveCall::Counts::needed;
  const bool is_even = std::ranges::adjacent_find(counts, std::ranges::not_equal_to()) == counts.end();
  if (is_even) {
    call.op = operator_of<ReduceScatter>;
    call.arguments.counts = {};
    call.counts = CollectiveCall::Counts::optional;
  }
  prepared.call(call);
  return prepared;
}

std::size_t elements_of(Number count) {
  if (count < 0) fail(abi::kErrCount, fmt::format("a count of {}", count));
  return static_cast<std::size_t>(count);
}

}  // namespace

Prepared reduce_scatter_block(const void* send, void* recv, Number count, MPI_Datatype datatype, MPI_Op op,
                              MPI_Comm comm) {
  const Sizes elements(Prepared(comm).size(), elements_of(count));
  return scatter_combined(send, recv, elements, datatype, op, comm);
}

Prepared reduce_scatter(const void* send, void* recv, Numbers counts, MPI_Datatype datatype, MPI_Op op,
                        MPI_Comm comm) {
  Sizes elements;
  for (Rank rank = 0; rank < Prepared(comm).size(); ++rank) elements.push_back(elements_of(counts[rank]));
  return scatter_combined(send, recv, elements, datatype, op, comm);
}

Prepared allgather(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Number recv_count,
                   MPI_Datatype recv_type, MPI_Comm comm) {
  Prepared prepared(comm);
  const Number all = recv_count * prepared.comm()->size();
  if (is_in_place(send)) {
    const std::span<std::byte> out = prepared.both(recv, all, recv_type);
    prepared.call(moving(operator_of<AllGather>, block_of(out, prepared.rank(), prepared.size()), out));
  } else {
    const std::span<const std::byte> in = prepared.input(send, send_count, send_type);
    prepared.call(moving(operator_of<AllGather>, in, prepared.output(recv, all, recv_type)));
  }
  return prepared;
}

Prepared gather(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Number recv_count,
                MPI_Datatype recv_type, int root, MPI_Comm comm) {
  Prepared prepared(comm);
  const Rank to = prepared.root(root);
  const bool is_root = is_root_with(send, prepared, to);
  const Number all = recv_count * prepared.comm()->size();
  std::span<std::byte> out;
  std::span<const std::byte> in;
  if (is_root && is_in_place(send)) {
    out = prepared.both(recv, all, recv_type);
    in = block_of(out, to, prepared.size());
  } else {
    in = prepared.input(send, send_count, send_type);
    if (is_root) out = prepared.output(recv, all, recv_type);
  }
  prepared.call(moving(operator_of<Gather>, in, out, to));
  return prepared;
}

Prepared scatter(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Number recv_count,
                 MPI_Datatype recv_type, int root, MPI_Comm comm) {
  Prepared prepared(comm);
  const Rank from = prepared.root(root);
  const bool is_root = is_root_with(recv, prepared, from);
  std::span<const std::byte> in;
  if (is_root) in = prepared.input(send, send_count * prepared.comm()->size(), send_type);
  std::span<std::byte> out;
  if (is_in_place(recv))
    out = prepared.room(in.size() / prepared.size());
  else
    out = prepared.output(recv, recv_count, recv_type);
  prepared.call(moving(operator_of<Scatter>, in, out, from));
  return prepared;
}

Prepared alltoall(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Number recv_count,
                  MPI_Datatype recv_type, MPI_Comm comm) {
  Prepared prepared(comm);
  const Number ranks = prepared.comm()->size();
  std::span<const std::byte> in;
  if (is_in_place(send)) {
    const std::span<std::byte> copy = prepared.room(bytes_of(recv_count * ranks, *datatype_of(recv_type)));
    datatype_of(recv_type)->pack(recv, recv_count * ranks, copy.data());
    in = copy;
  } else {
    in = prepared.input(send, send_count * ranks, send_type);
  }
  prepared.call(moving(operator_of<AllToAll>, in, prepared.output(recv, recv_count * ranks, recv_type)));
  return prepared;
}

Prepared allgatherv(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Numbers counts,
                    Numbers places, MPI_Datatype recv_type, MPI_Comm comm) {
  Prepared prepared(comm);
  const Prepared::Blocks blocks{recv, counts, places, &recv_type};
  Sizes& sizes = prepared.numbers();
  std::span<const std::byte> in;
  std::span<std::byte> out;
  if (is_in_place(send)) {
    out = prepared.both(blocks, sizes);
    in = out.subspan(sum_before(sizes, prepared.rank()), sizes[prepared.rank()]);
  } else {
    in = prepared.input(send, send_count, send_type);
    out = prepared.output(blocks, sizes);
    check_same_size(in.size(), sizes[prepared.rank()]);
  }
  CollectiveCall call = moving(operator_of<AllGatherV>, in, out);
  call.arguments.counts = sizes;
  call.counts = CollectiveCall::Counts::needed;
  prepared.call(call);
  return prepared;
}

/// The root alone knows how much each rank gives.
Prepared gatherv(const void* send, Number send_count, MPI_Datatype send_type, void* recv, Numbers counts,
                 Numbers places, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  Prepared prepared(comm);
  const Rank to = prepared.root(root);
  const bool is_root = is_root_with(send, prepared, to);
  Sizes& gives = zeros(prepared);
  Sizes& gets = prepared.numbers();
  const Prepared::Blocks blocks{recv, counts, places, &recv_type};
  std::span<std::byte> out;
  std::span<const std::byte> in;
  if (is_root && is_in_place(send)) {
    out = prepared.both(blocks, gets);
    const std::span<std::byte> copy = prepared.room(gets[to]);
    if (!copy.empty()) std::memcpy(copy.data(), out.data() + sum_before(gets, to), copy.size());
    in = copy;
  } else {
    in = prepared.input(send, send_count, send_type);
    if (is_root) out = prepared.output(blocks, gets);
  }
  gets.resize(prepared.size());
  gives[to] = in.size();
  exchange(prepared, in, gives, out, gets);
  return prepared;
}

Prepared scatterv(const void* send, Numbers counts, Numbers places, MPI_Datatype send_type, void* recv,
                  Number recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm) {
  Prepared prepared(comm);
  const Rank from = prepared.root(root);
  const bool is_root = is_root_with(recv, prepared, from);
  Sizes& gives = prepared.numbers();
  Sizes& gets = zeros(prepared);
  std::span<const std::byte> in;
  if (is_root)
    in = prepared.input(Prepared::Blocks{const_cast<void*>(send), counts, places, &send_type}, gives);
  gives.resize(prepared.size());
  const std::span<std::byte> out =
      is_in_place(recv) ? prepared.room(gives[from]) : prepared.output(recv, recv_count, recv_type);
  gets[from] = out.size();
  exchange(prepared, in, gives, out, gets);
  return prepared;
}

namespace {

Prepared exchange_blocks(bool in_place, Prepared::Blocks send, const Prepared::Blocks& recv, MPI_Comm comm) {
  Prepared prepared(comm);
  Sizes& gives = prepared.numbers();
  Sizes& gets = prepared.numbers();
  std::span<const std::byte> in;
  if (in_place) {
    const std::span<const std::byte> there = prepared.input(recv, gives);
    const std::span<std::byte> copy = prepared.room(there.size());
    if (!there.empty()) std::memcpy(copy.data(), there.data(), there.size());
    in = copy;
  } else {
    in = prepared.input(send, gives);
  }
  exchange(prepared, in, gives, prepared.output(recv, gets), gets);
  return prepared;
}

}  // namespace

Prepared alltoallv(const void* send, Numbers send_counts, Numbers send_places, MPI_Datatype send_type,
                   void* recv, Numbers recv_counts, Numbers recv_places, MPI_Datatype recv_type,
                   MPI_Comm comm) {
  return exchange_blocks(is_in_place(send), {const_cast<void*>(send), send_counts, send_places, &send_type},
                         {recv, recv_counts, recv_places, &recv_type}, comm);
}

Prepared alltoallw(const void* send, Numbers send_counts, Numbers send_places, const MPI_Datatype* send_types,
                   void* recv, Numbers recv_counts, Numbers recv_places, const MPI_Datatype* recv_types,
                   MPI_Comm comm) {
  return exchange_blocks(is_in_place(send),
                         {const_cast<void*>(send), send_counts, send_places, send_types, true},
                         {recv, recv_counts, recv_places, recv_types, true}, comm);
}

}  // namespace cohort::mpi
