// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/call.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

namespace cohort::bindings {

void AlgorithmName::assign(std::string_view name) {
  if (name.size() > kMostLetters)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("an algorithm's name of {} letters, '{}'; give one of at most {}", name.size(),
                            name, kMostLetters));
  name.copy(letters_.data(), name.size());
  size_ = static_cast<std::uint8_t>(name.size());
}

namespace {

template <class Collective>
void apply(const CallSettings& settings, Collective& collective) {
  if (settings.timeout > Duration::zero()) (void)std::move(collective).with_deadline(settings.timeout);
  if (!settings.algorithm.empty()) (void)std::move(collective).with_algorithm(settings.algorithm);
}

/// By the function of Communicator, which refuses what it would refuse there.
Collective call_with_counts(Communicator& comm, Operator op, const CallArguments& of, bool are_of_rank) {
  const DataType type = of.type.type;
  if (are_of_rank) return comm.all_to_all_v(type, of.in, of.counts, of.out, of.recv_counts);
  if (op == operator_of<AllGatherV>) return comm.all_gather_v(type, of.in, of.out, of.counts);
  if (op == operator_of<ReduceScatterV>)
    return comm.reduce_scatter_v(type, of.in, of.out, of.counts, of.reduce);
  if (op == operator_of<GatherV>) return comm.gather_v(type, of.in, of.out, of.counts, of.root);
  if (op == operator_of<ScatterV>) return comm.scatter_v(type, of.in, of.out, of.counts, of.root);
  return comm.all_to_all_vc(type, of.in, of.out, of.counts);
}

Collective call_collective(Communicator& comm, const CollectiveCall& call) {
  if (call.counts == CollectiveCall::Counts::optional) return comm.call(call.op, call.arguments);
  return call_with_counts(comm, call.op, call.arguments, call.counts == CollectiveCall::Counts::of_rank);
}

Task<> perform_collective(Communicator& comm, const CollectiveCall& call, const CallSettings& settings) {
  Collective collective = call_collective(comm, call);
  apply(settings, collective);
  co_await std::move(collective);
}

TensorList list_of(DataType type, const std::vector<std::span<std::byte>>& tensors) {
  return {.type = type,
          .size = tensors.size(),
          .first = tensors.data(),
          .bytes_of = [](const void* first, std::size_t index) {
            return static_cast<const std::span<std::byte>*>(first)[index];
          }};
}

TensorArguments arguments_of(const TensorsCall& call) {
  TensorArguments arguments;
  arguments.out = list_of(call.type, call.out);
  if (!call.in.empty()) arguments.in = list_of(call.type, call.in);
  arguments.is_own_block = call.in.empty() && call.op == operator_of<AllGather>;
  if (call.in.empty() && !arguments.is_own_block && call.op != operator_of<Broadcast>)
    arguments.in = arguments.out;
  arguments.reduce = call.reduce;
  arguments.root = call.root;
  return arguments;
}

Task<> perform_tensors(Communicator& comm, const TensorsCall& call, const CallSettings& settings) {
  const TensorArguments arguments = arguments_of(call);
  TensorCollective collective = comm.call_on_tensors(call.op, arguments);
  apply(settings, collective);
  co_await std::move(collective);
}

template <class Result>
void apply_time(const CallSettings& settings, Transfer<Result>& transfer) {
  if (settings.timeout > Duration::zero()) (void)std::move(transfer).with_deadline(settings.timeout);
}

void refuse_algorithm(const CallSettings& settings, std::string_view call) {
  if (settings.algorithm.empty()) return;
  throw Error(ErrorKind::InvalidArgument, fmt::format("{} has no algorithm to choose, but '{}' is asked for",
                                                      call, std::string_view(settings.algorithm)));
}

Task<> perform_message(Communicator& comm, const MessageCall& call, const CallSettings& settings,
                       Rank& from) {
  refuse_algorithm(settings, "a message");
  from = call.peer;
  if (call.direction == MessageCall::Direction::recv_any) {
    Transfer<Rank> receiving = comm.recv_any(call.data, call.tag);
    apply_time(settings, receiving);
    from = co_await std::move(receiving);
    co_return;
  }
  const bool is_send = call.direction == MessageCall::Direction::send;
  Transfer<void> transfer =
      is_send ? comm.send(call.data, call.peer, call.tag) : comm.recv(call.data, call.peer, call.tag);
  apply_time(settings, transfer);
  co_await std::move(transfer);
}

Task<> perform_request(Communicator& comm, const MessageRequest& request, const CallSettings& settings,
                       Envelope& envelope) {
  refuse_algorithm(settings, "a message");
  Transfer<Envelope> transfer = comm.call_message(request);
  apply_time(settings, transfer);
  envelope = co_await std::move(transfer);
}

Task<> perform_by_function(Communicator& comm, const FunctionCall& call, const CallSettings& settings) {
  FunctionCollective collective = comm.call_by_function(call);
  apply(settings, collective);
  co_await std::move(collective);
}

}  // namespace

Task<> perform(Communicator& comm, const AnyCall& call, const CallSettings& settings, Envelope& envelope) {
  if (const auto* const collective = std::get_if<CollectiveCall>(&call))
    return perform_collective(comm, *collective, settings);
  if (const auto* const request = std::get_if<MessageRequest>(&call))
    return perform_request(comm, *request, settings, envelope);
  if (const auto* const tensors = std::get_if<TensorsCall>(&call))
    return perform_tensors(comm, *tensors, settings);
  if (const auto* const by_function = std::get_if<FunctionCall>(&call))
    return perform_by_function(comm, *by_function, settings);
  return perform_message(comm, std::get<MessageCall>(call), settings, envelope.from);
}

}  // namespace cohort::bindings
