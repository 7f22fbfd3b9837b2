// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/communicator.h>

#include <fmt/format.h>

namespace cohort {
namespace {

[[noreturn]] void refuse(std::string text) { throw Error(ErrorKind::InvalidArgument, std::move(text)); }

std::size_t count_of(Operator op, DataType type, std::size_t bytes) {
  if (bytes % size_bytes(type) != 0)
    refuse(
        fmt::format("{} of {} bytes, which is no whole number of {}", to_string(op), bytes, to_string(type)));
  return bytes / size_bytes(type);
}

void refuse_uneven(Operator op, std::size_t count, Rank ranks) {
  if (count % ranks == 0) return;
  const std::size_t padded = (count + ranks - 1) / ranks * ranks;
  refuse(fmt::format(
      "{} of {} elements cannot be split evenly over {} ranks; pad the {} with {} neutral elements "
      "to {} on every rank",
      to_string(op), count, ranks, op == Operator::all_gather ? "output" : "input", padded - count, padded));
}

std::byte* writable(std::span<const std::byte> bytes) { return const_cast<std::byte*>(bytes.data()); }

/// The same memory or none in common.
void refuse_partial_overlap(Operator op, std::span<const std::byte> in, std::span<const std::byte> out,
                            std::size_t in_place_at_in, std::size_t in_place_at_out) {
  if (in.empty() || out.empty()) return;
  const bool apart = in.data() + in.size() <= out.data() || out.data() + out.size() <= in.data();
  const bool in_place = in.data() + in_place_at_in == out.data() + in_place_at_out;
  if (!apart && !in_place)
    refuse(
        fmt::format("{}: input and output overlap in part; give the same place (in place) or separate memory",
                    to_string(op)));
}

Task<> close_and_release(std::unique_ptr<CommunicatorCore> core) { co_await core->close(); }

}  // namespace

Communicator::Communicator(std::unique_ptr<CommunicatorCore> core) noexcept : core_(std::move(core)) {}

Communicator::~Communicator() {
  if (core_ == nullptr) return;
  Engine& engine = core_->engine();
  engine.background().spawn(close_and_release(std::move(core_)));
}

Task<Communicator> Communicator::join(Engine& engine, CommunicatorOptions options) {
  const Duration timeout = options.join.timeout;
  PeerTransports::Choice{.kinds = options.transports, .asked = options.transport}
      .check();  // before anybody waits
  Membership membership = co_await cohort::join(engine, std::move(options.join));
  auto core = std::make_unique<CommunicatorCore>(engine, std::move(membership), options);
  Communicator communicator(std::move(core));
  CancelScope* around = co_await current_scope();
  std::optional<Error> failure;
  try {
    Task<> establishing = with_deadline(timeout, communicator.core_->establish());
    co_await establishing;
  } catch (const Error& error) {
    const bool is_own_deadline =
        error.kind() == ErrorKind::DeadlineExceeded && (around == nullptr || !around->is_cancelled());
    failure = is_own_deadline ? communicator.core_->silence() : error;
  }
  if (failure) {
    communicator.core_->give_up(*failure);
    throw Error(*failure);
  }
  co_return communicator;
}

Task<> Communicator::close() { return core_->close(); }

Collective Communicator::make(Call call) {
  call.algorithm = core_->select(call);
  return Collective(*core_, call);
}

Explanation Communicator::explain(Operator op, DataType type, std::size_t bytes,
                                  std::optional<AlgorithmId> forced) const {
  Call call;
  call.op = op;
  call.forced = forced;
  if (op == Operator::barrier) return core_->explain(call);
  call.type = type;
  call.count = count_of(op, type, bytes);
  call.send_bytes = call.recv_bytes = bytes;
  if (op == Operator::all_gather || op == Operator::reduce_scatter) refuse_uneven(op, call.count, size());
  if (op == Operator::all_gather) {
    call.count /= size();
    call.send_bytes /= size();
  }
  if (op == Operator::reduce_scatter) call.recv_bytes /= size();
  return core_->explain(call);
}

Collective Communicator::barrier() { return make(Call{}); }

Collective Communicator::broadcast(DataType type, std::span<std::byte> data, Rank root) {
  if (root >= size())
    refuse(fmt::format("broadcast from rank {}, but the ranks are 0 to {}", root, size() - 1));
  Call call;
  call.op = Operator::broadcast;
  call.type = type;
  call.root = root;
  call.count = count_of(call.op, type, data.size());
  call.send = call.recv = data.data();
  call.send_bytes = call.recv_bytes = data.size();
  return make(call);
}

Collective Communicator::all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                    ReduceOp op) {
  Call call;
  call.op = Operator::all_reduce;
  if (in.size() != out.size())
    refuse(fmt::format("all_reduce with {} bytes of input and {} of output; both have the same size",
                       in.size(), out.size()));
  refuse_partial_overlap(call.op, in, out, 0, 0);
  call.type = type;
  call.reduce = op;
  call.count = count_of(call.op, type, in.size());
  call.send = writable(in);
  call.recv = out.data();
  call.send_bytes = call.recv_bytes = in.size();
  return make(call);
}

Collective Communicator::all_gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out) {
  Call call;
  call.op = Operator::all_gather;
  if (in.size() * size() != out.size())
    refuse(fmt::format("all_gather of {} bytes from each of {} ranks needs {} bytes of output, not {}",
                       in.size(), size(), in.size() * size(), out.size()));
  refuse_partial_overlap(call.op, in, out, 0, rank() * in.size());
  call.type = type;
  call.count = count_of(call.op, type, in.size());
  call.send = writable(in);
  call.recv = out.data();
  call.send_bytes = in.size();
  call.recv_bytes = out.size();
  return make(call);
}

Collective Communicator::reduce_scatter(DataType type, std::span<const std::byte> in,
                                        std::span<std::byte> out, ReduceOp op) {
  Call call;
  call.op = Operator::reduce_scatter;
  const std::size_t count = count_of(call.op, type, in.size());
  refuse_uneven(call.op, count, size());
  if (in.size() != out.size() * size())
    refuse(fmt::format("reduce_scatter of {} bytes over {} ranks needs {} bytes of output, not {}", in.size(),
                       size(), in.size() / size(), out.size()));
  refuse_partial_overlap(call.op, in, out, rank() * out.size(), 0);
  call.type = type;
  call.reduce = op;
  call.count = count;
  call.send = writable(in);
  call.recv = out.data();
  call.send_bytes = in.size();
  call.recv_bytes = out.size();
  return make(call);
}

}  // namespace cohort
