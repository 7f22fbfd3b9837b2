// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/communicator.h>

#include <cohort/collectives/core/communicator_core.h>
#include <cohort/collectives/grouping.h>
#include <cohort/collectives/job/resolved_options.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/log.h>
#include <cohort/net/join/join.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>

namespace cohort {
namespace {

[[noreturn, gnu::cold]] void refuse_moved_from(std::string_view call) {
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("{} of a communicator that was moved from; call it where that one is now", call));
}

/// The others hear why if it cannot be made, before the connections to them close.
std::shared_ptr<CommunicatorCore> make_core(Engine& engine, Membership joined,
                                            const CommunicatorOptions& options) {
  auto membership = std::make_unique<Membership>(std::move(joined));
  const auto tell = [&](ErrorKind kind, std::string_view why, std::optional<Rank> culprit) {
    const Error told(kind, fmt::format("{} could not make its part of '{}': {}",
                                       membership->self().describe(), membership->name, why));
    ControlPlane::refuse(*membership, told.with_culprit(culprit.value_or(membership->rank)));
  };
  try {
    return CommunicatorCore::create(engine, membership, options);
  } catch (const Error& error) {
    tell(error.kind(), error.message(), error.culprit());
    throw;
  } catch (const std::exception& error) {
    tell(ErrorKind::ResourceLimit, error.what(), std::nullopt);  // memory, most likely
    throw;
  }
}

/// Why it is not ready for calls in time, if it is not; the others hear of it.
Task<std::optional<Error>> failure_to_establish(CommunicatorCore& core, Duration timeout) {
  CancelScope* around = co_await current_scope();
  std::optional<Error> failure;
  try {
    Task<> establishing = with_deadline(timeout, core.establish(timeout));
    co_await establishing;
    co_return std::nullopt;
  } catch (...) {
    failure = as_error(std::current_exception());
  }
  const bool is_cancelled = around != nullptr && around->is_cancelled();
  if (failure->kind() == ErrorKind::DeadlineExceeded && !is_cancelled) {
    const Error why = co_await core.silence();
    failure = why;
  }
  co_await core.give_up(*failure);
  co_return failure;
}

Task<> close_and_release(std::shared_ptr<CommunicatorCore> core) {
  try {
    co_await core->close();
  } catch (const std::exception& error) {
    log(LogLevel::error, "rank {}: {}", core->membership().rank, error.what());
  }
}

}  // namespace

Communicator::Communicator(std::shared_ptr<CommunicatorCore> handle) noexcept
    : core_(std::move(handle)), rank_(core_->membership().rank), size_(core_->membership().size) {}

Communicator::Communicator(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

std::shared_ptr<CommunicatorCore> Communicator::handle_of(std::shared_ptr<CommunicatorCore> core) {
  CommunicatorCore* const inside = core.get();
  return {inside, [core = std::move(core)](CommunicatorCore*) mutable {
            Engine& engine = core->engine();
            engine.background().spawn(close_and_release(std::move(core)));
          }};
}

Task<Communicator> Communicator::join(Engine& engine, CommunicatorOptions options) {
  const Duration timeout = options.join.timeout;
  std::uint64_t fabric = 0;
  keep_fault(options.join.fault, [&] {
    if (options.join.fault) return;
    CommunicatorCore::check(options);
    fabric = transports_of(options).fabric(engine);
  });
  Membership membership = co_await cohort::join(engine, std::move(options.join), fabric);
  Communicator communicator(handle_of(make_core(engine, std::move(membership), options)));
  const std::optional<Error> failure = co_await failure_to_establish(*communicator.core_, timeout);
  if (failure) throw Error(*failure);
  co_return communicator;
}

Task<Communicator> Communicator::open(Communicator communicator, std::shared_ptr<CommunicatorCore> parent) {
  communicator.core_->set_handle(communicator.core_);
  CommunicatorCore& of = *communicator.core_;
  const std::optional<Error> failure = co_await failure_to_establish(of, of.timeout());
  if (failure) throw named_in(*parent, *failure, of);
  co_return communicator;
}

Task<Communicator> Communicator::make_group(std::shared_ptr<CommunicatorCore> parent, std::vector<Rank> ranks,
                                            std::string name) {
  std::shared_ptr<CommunicatorCore> core =
      co_await cohort::make_group(parent, std::move(ranks), std::move(name));
  Communicator communicator(handle_of(std::move(core)));
  co_return co_await open(std::move(communicator), std::move(parent));
}

Task<std::optional<Communicator>> Communicator::make_split(std::shared_ptr<CommunicatorCore> parent,
                                                           int color, int key) {
  std::shared_ptr<CommunicatorCore> core = co_await split_group(parent, color, key);
  if (core == nullptr) co_return std::nullopt;
  Communicator communicator(handle_of(std::move(core)));
  co_return co_await open(std::move(communicator), std::move(parent));
}

Task<std::optional<Communicator>> Communicator::split(int color, int key) {
  (void)core_for("split");
  return make_split(core_, color, key);
}

Task<Communicator> Communicator::group(std::vector<Rank> ranks, std::string name) {
  (void)core_for("group");
  return make_group(core_, std::move(ranks), std::move(name));
}

std::optional<Communicator> Communicator::find_group(std::string_view name) const {
  const GroupTable::Group* const group = core().job().groups().find(name_in(core(), name));
  if (group == nullptr) return std::nullopt;
  std::shared_ptr<CommunicatorCore> handle = group->handle.lock();
  if (handle == nullptr) return std::nullopt;
  return Communicator(std::move(handle));
}

Rank Communicator::world_rank(Rank rank) const {
  if (rank >= size_)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("rank {} of '{}', but the ranks are 0 to {}", rank, name(), size_ - 1));
  return core().world_rank(rank);
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
const Reach& Communicator::reach() const noexcept { return core().choices().reach(); }
const AlgorithmTable& Communicator::algorithms() const noexcept { return core().choices().algorithms(); }
const std::shared_ptr<SharedHeap>& Communicator::heap(std::string_view call) const {
  return core_for(call).job().heap();
}

Explanation Communicator::explain(Operator op, DataType type, std::size_t bytes, std::string_view forced,
                                  std::optional<Determinism> determinism) const {
  const CommunicatorCore& core = core_for("explain");
  Call call = make_call_of_size(op, type, bytes, size_);
  call.ask_for(determinism.value_or(core.choices().determinism()));
  return core.explain(call, forced);
}

bool Communicator::takes_blocks_apart(Operator op, DataType type, std::size_t bytes) const {
  const CommunicatorCore& core = core_for("takes_blocks_apart");
  return core.choices().select(make_call_of_size(op, type, bytes, size_), {}).keeps_to_blocks();
}

Collective Communicator::call(Operator op, const CallArguments& arguments) {
  if (core_ == nullptr) [[unlikely]]
    refuse_moved_from(to_string(op));  // named only then
  return {*core_, op, arguments};
}

TensorCollective Communicator::call_on_tensors(Operator op, const TensorArguments& arguments) {
  return {core_for(to_string(op)), {.op = op, .arguments = arguments}};
}

FunctionCollective Communicator::call_by_function(const FunctionCall& call) {
  return {core_for(to_string(call.op)), call};
}

Transfer<Envelope> Communicator::call_message(const MessageRequest& request) {
  return {core_for(request.sends ? "send" : "recv"), request};
}

std::optional<Envelope> Communicator::look_now(const MessageRequest& probe) {
  return core_for("probe").look_now(probe);
}

Transfer<void> Communicator::send_bytes(std::span<const std::byte> data, Rank to, std::int32_t tag) {
  return {core_for("send"), true, to, tag, const_cast<std::byte*>(data.data()), data.size()};
}

Transfer<void> Communicator::recv_bytes(std::span<std::byte> data, Rank from, std::int32_t tag) {
  return {core_for("recv"), false, from, tag, data.data(), data.size()};
}

Transfer<Rank> Communicator::recv_any_bytes(std::span<std::byte> data, std::int32_t tag) {
  return {core_for("recv_any"), false, MessageRequest::kAnybody, tag, data.data(), data.size()};
}

Collective Communicator::barrier() { return call(operator_of<Barrier>, {.type = DataType::byte}); }

Collective Communicator::broadcast(DataType type, std::span<std::byte> data, Rank root) {
  return call(operator_of<Broadcast>, {.type = type, .root = root, .out = data});
}

Collective Communicator::all_reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                    Combination op) {
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
                                        std::span<std::byte> out, Combination op) {
  return call(operator_of<ReduceScatter>, {.type = type, .reduce = op, .in = in, .out = out});
}

Collective Communicator::reduce(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                Combination op, Rank root) {
  return call(operator_of<Reduce>, {.type = type, .reduce = op, .root = root, .in = in, .out = out});
}

Collective Communicator::gather(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                Rank root) {
  return call(operator_of<Gather>, {.type = type, .root = root, .in = in, .out = out});
}

Collective Communicator::scatter(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                 Rank root) {
  return call(operator_of<Scatter>, {.type = type, .root = root, .in = in, .out = out});
}

Collective Communicator::all_to_all(DataType type, std::span<const std::byte> in, std::span<std::byte> out) {
  return call(operator_of<AllToAll>, {.type = type, .in = in, .out = out});
}

Collective Communicator::call_with_counts(Operator op, const CallArguments& arguments) {
  if (arguments.counts.empty())
    throw Error(ErrorKind::InvalidArgument, fmt::format("{} over {} ranks without counts; give {}",
                                                        to_string(op), size_, how_many(op->counts, size_)));
  return call(op, arguments);
}

Collective Communicator::all_gather_v(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                      std::span<const std::size_t> counts) {
  return call_with_counts(operator_of<AllGatherV>, {.type = type, .in = in, .out = out, .counts = counts});
}

Collective Communicator::reduce_scatter_v(DataType type, std::span<const std::byte> in,
                                          std::span<std::byte> out, std::span<const std::size_t> counts,
                                          Combination op) {
  return call_with_counts(operator_of<ReduceScatterV>,
                          {.type = type, .reduce = op, .in = in, .out = out, .counts = counts});
}

Collective Communicator::gather_v(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                  std::span<const std::size_t> counts, Rank root) {
  return call_with_counts(operator_of<GatherV>,
                          {.type = type, .root = root, .in = in, .out = out, .counts = counts});
}

Collective Communicator::scatter_v(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                   std::span<const std::size_t> counts, Rank root) {
  return call_with_counts(operator_of<ScatterV>,
                          {.type = type, .root = root, .in = in, .out = out, .counts = counts});
}

Collective Communicator::all_to_all_vc(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                                       std::span<const std::size_t> matrix) {
  return call_with_counts(operator_of<AllToAllVc>, {.type = type, .in = in, .out = out, .counts = matrix});
}

Collective Communicator::all_to_all_v(DataType type, std::span<const std::byte> in,
                                      std::span<const std::size_t> send_counts, std::span<std::byte> out,
                                      std::span<const std::size_t> recv_counts) {
  if (recv_counts.size() != size_)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("all_to_all_v over {} ranks with {} counts of what this rank gets; give {}",
                            size_, recv_counts.size(), size_));
  const CallArguments arguments{
      .type = type, .in = in, .out = out, .counts = send_counts, .recv_counts = recv_counts};
  return call(operator_of<AllToAllVc>, arguments);
}

Collective Communicator::scan(DataType type, std::span<const std::byte> in, std::span<std::byte> out,
                              Combination op) {
  return call(operator_of<Scan>, {.type = type, .reduce = op, .in = in, .out = out});
}

Collective Communicator::exclusive_scan(DataType type, std::span<const std::byte> in,
                                        std::span<std::byte> out, Combination op) {
  return call(operator_of<ExclusiveScan>, {.type = type, .reduce = op, .in = in, .out = out});
}

}  // namespace cohort
