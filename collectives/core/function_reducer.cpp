// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/function_reducer.h>

#include <cohort/collectives/memory/reduction/copy.h>
#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

/// Elements are combined so many bytes at a time; a function of the program's may take ten times as long as
/// a copy, and is looked after as if it did.
constexpr std::size_t kBytesAtOnce = std::size_t{8} << 10;
constexpr std::size_t kCopiesPerByte = 10;

Call move_of(Operator op, const std::byte* in, std::size_t in_bytes, std::byte* out, std::size_t out_bytes,
             Rank rank, Rank ranks, Rank root = 0) {
  CallArguments arguments{.type = DataType::byte};
  arguments.root = root;
  arguments.in = {in, in_bytes};
  arguments.out = {out, out_bytes};
  return make_call(op, arguments, rank, ranks);
}

}  // namespace

void FunctionReducer::check(const FunctionCall& call, std::string_view algorithm) {
  const ElementFunction* const function = call.function;
  const bool is_whole = function != nullptr && function->combine != nullptr &&
                        function->type_name != nullptr && function->element_bytes > 0 &&
                        function->element_bytes <= kMostElementBytes;
  if (!is_whole)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{} by a FunctionReduction that has no function; make it by reduction<T>(f)",
                            to_string(call.op)));
  if (!algorithm.empty())
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("{} by a function of the program's has no algorithm to choose: it is made of calls "
                    "that move bytes; force theirs for the communicator (COHORT_ALGO)",
                    to_string(call.op)));
}

Call FunctionReducer::whole_of(const FunctionCall& call, Rank rank, Rank ranks) {
  return make_call_on_elements(call.op, call.arguments, call.function->element_bytes, rank, ranks);
}

std::size_t FunctionReducer::most_per_rank() const noexcept {
  const std::size_t element = function_->element_bytes;
  return std::max(element, kPieceBytes / ranks_ / element * element);
}

Task<> FunctionReducer::run(const Call& whole, const ElementFunction& function) {
  whole_ = &whole;
  function_ = &function;
  blocks_ = got_.room_for(std::min(most_per_rank(), whole.message_bytes()) * ranks_);
  if (whole.op == operator_of<AllReduce>) return all_reduce();
  if (whole.op == operator_of<Reduce>) return reduce();
  if (whole.op == operator_of<ReduceScatter>) return reduce_scatter();
  return scan();
}

Task<> FunctionReducer::gather_all(const std::byte* in, std::byte* out, std::size_t bytes) {
  Call call = move_of(operator_of<AllGather>, in, bytes, out, bytes * ranks_, rank_, ranks_);
  co_await move_(call);
}

Task<> FunctionReducer::gather_at_root(const std::byte* in, std::byte* out, std::size_t bytes) {
  Call call = move_of(operator_of<Gather>, in, bytes, out, bytes * ranks_, rank_, ranks_, whole_->root);
  co_await move_(call);
}

Task<> FunctionReducer::exchange_blocks(const std::byte* in, std::byte* out, std::size_t bytes) {
  Call call = move_of(operator_of<AllToAll>, in, bytes * ranks_, out, bytes * ranks_, rank_, ranks_);
  co_await move_(call);
}

namespace {

/// Of what a program's function throws, an Error of another meaning included.
Error thrown_by_function(Rank rank, std::string_view why) {
  return Error(
             ErrorKind::Internal,
             fmt::format("the program's function that combines elements threw on rank {}: {}; look there for "
                         "what it was given",
                         rank, why))
      .with_culprit(rank);
}

}  // namespace

void FunctionReducer::combine_some(std::byte* left, const std::byte* right, std::size_t count) const {
  try {
    function_->combine(*function_, left, right, count);
  } catch (const std::exception& error) {
    throw thrown_by_function(rank_, error.what());
  } catch (...) {
    throw thrown_by_function(rank_, "something that is no std::exception");
  }
}

Task<> FunctionReducer::combine(std::size_t block_bytes, Rank ranks) {
  const std::size_t element = function_->element_bytes;
  const std::size_t at_once = std::max(element, kBytesAtOnce / element * element);
  for (std::size_t at = 0; at < block_bytes; at += at_once) {
    const std::size_t bytes = std::min(at_once, block_bytes - at);
    for (Rank from = 1; from < ranks; ++from) {
      if (!engine_.pace().may_do(kCopiesPerByte * bytes)) co_await engine_.let_others_run();
      combine_some(blocks_ + at, blocks_ + from * block_bytes + at, bytes / element);
    }
  }
}

Task<> FunctionReducer::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to == from || bytes == 0) co_return;
  if (!engine_.pace().may_do(bytes)) co_await engine_.let_others_run();
  cohort::copy(to, from, bytes, Stores::cached);
}

/// An in-place input is read before its results are written, piece by piece.
Task<> FunctionReducer::all_reduce() {
  const std::size_t element = function_->element_bytes;
  const std::size_t size = whole_->message_bytes();
  std::size_t at = 0;
  do {
    const std::size_t left = size - at;
    const std::size_t share = std::min(most_per_rank(), left / element / ranks_ * element);
    const bool is_shared = ranks_ > 2 && share >= kLeastShareBytes;
    const std::size_t bytes = is_shared ? share : std::min(most_per_rank(), left);
    const std::byte* const in = whole_->send + at;
    std::byte* const out = whole_->recv + at;
    if (is_shared)
      co_await exchange_blocks(in, blocks_, bytes);
    else
      co_await gather_all(in, blocks_, bytes);
    co_await combine(bytes, ranks_);
    if (is_shared)
      co_await gather_all(blocks_, out, bytes);
    else
      co_await copy(out, blocks_, bytes);
    at += is_shared ? bytes * ranks_ : bytes;
  } while (at < size);
}

Task<> FunctionReducer::reduce() {
  const std::size_t size = whole_->message_bytes();
  const bool is_root = rank_ == whole_->root;
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(most_per_rank(), size - at);
    co_await gather_at_root(whole_->send + at, blocks_, bytes);
    if (is_root) {
      co_await combine(bytes, ranks_);
      co_await copy(whole_->recv + at, blocks_, bytes);
    }
    at += bytes;
  } while (at < size);
}

/// Pieces of all blocks are packed side by side, unless one piece has all.
Task<> FunctionReducer::reduce_scatter() {
  const std::size_t size = whole_->message_bytes();
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(most_per_rank(), size - at);
    const std::byte* in = whole_->send;
    if (bytes != size) {
      std::byte* const packed = packed_.room_for(most_per_rank() * ranks_);
      for (Rank block = 0; block < ranks_; ++block)
        co_await copy(packed + block * bytes, whole_->send + block * size + at, bytes);
      in = packed;
    }
    co_await exchange_blocks(in, blocks_, bytes);
    co_await combine(bytes, ranks_);
    co_await copy(whole_->recv + at, blocks_, bytes);
    at += bytes;
  } while (at < size);
}

/// An exclusive one leaves out the own elements, and rank 0's output.
Task<> FunctionReducer::scan() {
  const std::size_t size = whole_->message_bytes();
  const Rank combined = whole_->op == operator_of<ExclusiveScan> ? rank_ : rank_ + 1;
  std::size_t at = 0;
  do {
    const std::size_t bytes = std::min(most_per_rank(), size - at);
    co_await gather_all(whole_->send + at, blocks_, bytes);
    co_await combine(bytes, combined);
    if (combined > 0) co_await copy(whole_->recv + at, blocks_, bytes);
    at += bytes;
  } while (at < size);
}

}  // namespace cohort
