// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/communicator.h>

#include <cohort/collectives/call/communicator_core.h>
#include <cohort/net/join/join.h>

#include <fmt/format.h>

namespace cohort {
namespace {

[[noreturn, gnu::cold]] void refuse_moved_from(std::string_view call) {
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("{} of a communicator that was moved from; call it where that one is now", call));
}

/// The others hear why if it cannot be made, before the connections to them close.
std::unique_ptr<CommunicatorCore> make_core(Engine& engine, Membership joined,
                                            const CommunicatorOptions& options) {
  auto membership = std::make_unique<Membership>(std::move(joined));
  const auto tell = [&](ErrorKind kind, std::string_view why, std::optional<Rank> culprit) {
    const Error told(kind, fmt::format("{} could not make its part of '{}': {}",
                                       membership->self().describe(), membership->name, why));
    ControlPlane::refuse(*membership, told.with_culprit(culprit.value_or(membership->rank)));
  };
  try {
    return std::make_unique<CommunicatorCore>(engine, membership, options);
  } catch (const Error& error) {
    tell(error.kind(), error.message(), error.culprit());
    throw;
  } catch (const std::exception& error) {
    tell(ErrorKind::ResourceLimit, error.what(), std::nullopt);  // memory, most likely
    throw;
  }
}

Task<> close_and_release(std::unique_ptr<CommunicatorCore> core) { co_await core->close(); }

}  // namespace

Communicator::Communicator(std::unique_ptr<CommunicatorCore> core) noexcept
    : core_(std::move(core)), rank_(core_->membership().rank), size_(core_->membership().size) {}

Communicator::Communicator(Communicator&&) noexcept = default;

Communicator::~Communicator() {
  if (core_ == nullptr) return;
  Engine& engine = core_->engine();
  engine.background().spawn(close_and_release(std::move(core_)));
}

Task<Communicator> Communicator::join(Engine& engine, CommunicatorOptions options) {
  CommunicatorCore::check(options);
  const Duration timeout = options.join.timeout;
  Membership membership = co_await cohort::join(engine, std::move(options.join));
  Communicator communicator(make_core(engine, std::move(membership), options));
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

CommunicatorCore& Communicator::core_for(std::string_view call) const {
  if (core_ == nullptr) [[unlikely]]
    refuse_moved_from(call);
  return *core_;
}

CommunicatorCore& Communicator::core() const noexcept {
  COHORT_ASSERT(core_ != nullptr, "rank {}'s communicator was moved from; ask the one that it is now", rank_);
  return *core_;
}

Task<> Communicator::close() { return core_for("close").close(); }
void Communicator::abort(const std::string& reason) noexcept { core().abort(reason); }

const std::string& Communicator::name() const noexcept { return core().membership().name; }
Engine& Communicator::engine() const noexcept { return core().engine(); }
const std::string& Communicator::transport() const noexcept { return core().transport(); }
const Membership& Communicator::membership() const noexcept { return core().membership(); }
bool Communicator::is_failed() const noexcept { return core().health().is_failed(); }
const Error& Communicator::failure() const noexcept { return core().health().cause(); }
const Reach& Communicator::reach() const noexcept { return core().reach(); }
const AlgorithmTable& Communicator::algorithms() const noexcept { return core().algorithms(); }
SharedHeap& Communicator::heap(std::string_view call) const { return core_for(call).heap(); }

Explanation Communicator::explain(Operator op, DataType type, std::size_t bytes,
                                  std::string_view forced) const {
  return core_for("explain").explain(make_call_of_size(op, type, bytes, size_), forced);
}

Collective Communicator::call(Operator op, const CallArguments& arguments) {
  if (core_ == nullptr) [[unlikely]]
    refuse_moved_from(to_string(op));  // named only then
  return {*core_, op, arguments};
}

Collective Communicator::barrier() { return call(operator_of<Barrier>, {}); }

Collective Communicator::broadcast(DataType type, std::span<std::byte> data, Rank root) {
  return call(operator_of<Broadcast>, {.type = type, .root = root, .out = data});
}

Collective Communicator::all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                    ReduceOp op) {
  return call(operator_of<AllReduce>, {.type = type, .reduce = op, .in = in, .out = out});
}

Collective Communicator::all_gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out) {
  return call(operator_of<AllGather>, {.type = type, .in = in, .out = out});
}

/// Elements that do not divide are refused as an input of that many, once rounded down.
Collective Communicator::all_gather_own_block(detail::Output inout, std::size_t element_bytes) {
  const std::size_t block = inout.bytes.size() / element_bytes / size_ * element_bytes;
  return all_gather(inout.type, inout.bytes.subspan(rank_ * block, block), inout.bytes);
}

Collective Communicator::reduce_scatter(DataType type, std::span<const std::byte> in,
                                        std::span<std::byte> out, ReduceOp op) {
  return call(operator_of<ReduceScatter>, {.type = type, .reduce = op, .in = in, .out = out});
}

Collective Communicator::reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                ReduceOp op, Rank root) {
  return call(operator_of<Reduce>, {.type = type, .reduce = op, .root = root, .in = in, .out = out});
}

}  // namespace cohort
