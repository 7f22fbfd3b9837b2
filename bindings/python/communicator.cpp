// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/communicator.h>

#include <cohort/bindings/python/cast.h>
#include <cohort/bindings/python/failure.h>
#include <cohort/bindings/python/layout.h>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace cohort::python {

using bindings::AnyCall;
using bindings::CallSettings;
using bindings::CollectiveCall;
using bindings::MessageCall;
using bindings::TensorsCall;

namespace {

bool is_list(const py::object& object) {
  return PyList_Check(object.ptr()) != 0 || PyTuple_Check(object.ptr()) != 0;
}

std::optional<DataType> type_asked_for(const CallOptions& options) {
  if (options.dtype.is_none()) return std::nullopt;
  const std::string name = py::str(options.dtype);
  const auto type = parse_data_type(name.starts_with("torch.") ? name.substr(6) : name);
  if (!type) throw py::value_error(fmt::format("dtype='{}' is not known; give {}", name, known_types()));
  return type;
}

CallSettings settings_of(std::string_view name, const CallOptions& options) {
  CallSettings settings;
  if (!options.timeout.is_none())
    settings.timeout =
        duration_of(cast_or_refuse<double>(options.timeout, name, "timeout", "seconds, a number"), "timeout");
  if (!options.algorithm.is_none())
    settings.algorithm = cast_or_refuse<std::string>(options.algorithm, name, "algorithm", "a name");
  return settings;
}

/// Of a small call before the one that was asked for.
CallSettings settings_of_question(std::string_view name, const CallOptions& options) {
  CallSettings settings = settings_of(name, options);
  settings.algorithm.clear();
  return settings;
}

std::string given_of(const std::vector<Tensor>& tensors) {
  return tensors.empty() ? std::string() : tensors.front().describe();
}

/// Ranks that are told how many rows each brings do not ask: those that are and those that are not make
/// different calls.
CallFailure failure_of(const Error& error, const std::string& name, std::string given) {
  const bool asks = name == "all_gather" || name == "gather";
  if (!asks || !error.is_of_bytes()) return {error, name, std::move(given)};  // a question is of bytes
  const std::string explained = fmt::format(
      "{}; give `sizes`, `out` and `async_op` of {} on all ranks or on none", error.message(), name);
  return {error.with_message(explained), name, std::move(given)};
}

void place(CallArguments& arguments, const Tensor& in, const Tensor& out) {
  arguments.type = in.type();
  arguments.in = in.bytes();
  arguments.out = out.bytes();
}

}  // namespace

py::object PyCommunicator::wait_for(const std::string& name, const AnyCall& call,
                                    const CallSettings& settings, const std::vector<Tensor>& tensors,
                                    const py::object& result) {
  Rank from = 0;
  try {
    wait_without_lock([&](bindings::Interrupt* interrupt) { from = comm_->call(call, settings, interrupt); });
  } catch (const Error& error) {
    throw failure_of(error, name, given_of(tensors));
  }
  const bool is_recv = std::holds_alternative<MessageCall>(call) &&
                       std::get<MessageCall>(call).direction != MessageCall::Direction::send;
  return is_recv ? py::object(py::int_(from)) : result;
}

/// Waits for the call, or starts it and gives the request.
py::object PyCommunicator::finish(std::string_view name, AnyCall call, const CallOptions& options,
                                  const py::object& result, std::vector<Tensor> tensors, Counts counts,
                                  Counts other_counts) {
  auto* const collective = std::get_if<CollectiveCall>(&call);
  CallSettings settings = settings_of(name, options);
  if (!options.is_async) {
    if (collective != nullptr) {
      collective->arguments.counts = counts;
      collective->arguments.recv_counts = other_counts;
    }
    return wait_for(std::string(name), call, settings, tensors, result);
  }
  // Counts live as long as the request.
  auto kept = std::make_shared<std::pair<Counts, Counts>>(std::move(counts), std::move(other_counts));
  if (collective != nullptr) {
    collective->arguments.counts = kept->first;
    collective->arguments.recv_counts = kept->second;
  }
  const auto request = comm_->prepare(std::move(call), std::move(settings), std::move(kept));
  std::string given = given_of(tensors);
  const auto started =
      std::make_shared<PyRequest>(request, std::string(name), std::move(given), std::move(tensors), result);
  PyRequest::drop_finished();
  started->keep();
  {
    const Unlocked unlocked;
    comm_->start(request);
  }
  return py::cast(started);
}

void PyCommunicator::check_root(std::string_view name, Rank root) const {
  if (root >= comm_->size())
    throw CallFailure(
        Error(ErrorKind::InvalidArgument,
              fmt::format("{} with root rank {}, but the ranks are 0 to {}", name, root, comm_->size() - 1)),
        std::string(name), {});
}

py::object PyCommunicator::barrier(const CallOptions& options) {
  return finish("barrier", CollectiveCall{operator_of<Barrier>}, options, py::none(), {});
}

py::object PyCommunicator::broadcast(const py::object& tensor, Rank root, const CallOptions& options) {
  check_root("broadcast", root);
  if (is_list(tensor))
    return call_on_list(operator_of<Broadcast>, tensor, py::none(), py::none(), root, options);
  std::vector<Tensor> tensors;
  tensors.emplace_back(tensor, "broadcast", "tensor", comm_->rank() != root, type_asked_for(options));
  CollectiveCall call{operator_of<Broadcast>};
  call.arguments.type = tensors[0].type();
  call.arguments.out = tensors[0].bytes();
  call.arguments.root = root;
  return finish("broadcast", call, options, tensor, std::move(tensors));
}

py::object PyCommunicator::combine(Operator op, const py::object& tensor, const py::object& reduction,
                                   const py::object& out, const CallOptions& options) {
  if (op == operator_of<AllReduce> && is_list(tensor))
    return call_on_list(op, tensor, reduction, out, 0, options);
  const std::string_view name = to_string(op);
  const auto type = type_asked_for(options);
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const bool is_in_place = out.is(tensor) && !out.is_none();
  const Tensor& in = tensors.emplace_back(tensor, name, is_in_place ? "out" : "tensor", is_in_place, type);
  const py::object result = out.is_none() ? in.make_like(in.shape()) : out;
  const Tensor& to = is_in_place ? in : tensors.emplace_back(result, name, "out", true, type);
  in.check_same_type(to, name);
  CollectiveCall call{op};
  call.arguments.reduce = combination_of(reduction, in, name);
  place(call.arguments, in, to);
  // The first rank has nothing before it: what it gets should not be what was in memory.
  const bool gets_nothing = op == operator_of<ExclusiveScan> && comm_->rank() == 0 && out.is_none();
  if (gets_nothing) std::memset(to.bytes().data(), 0, to.bytes().size());
  return finish(name, call, options, result, std::move(tensors));
}

py::object PyCommunicator::reduce(const py::object& tensor, const py::object& reduction, Rank root,
                                  const py::object& out, const CallOptions& options) {
  check_root("reduce", root);
  if (is_list(tensor)) return call_on_list(operator_of<Reduce>, tensor, reduction, out, root, options);
  const auto type = type_asked_for(options);
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const Tensor& in = tensors.emplace_back(tensor, "reduce", "tensor", false, type);
  CollectiveCall call{operator_of<Reduce>};
  call.arguments.reduce = combination_of(reduction, in, "reduce");
  call.arguments.root = root;
  call.arguments.type = in.type();
  call.arguments.in = in.bytes();
  py::object result = py::none();
  if (comm_->rank() == root) {
    result = out.is_none() ? in.make_like(in.shape()) : out;
    const Tensor& to = tensors.emplace_back(result, "reduce", "out", true, type);
    in.check_same_type(to, "reduce");
    call.arguments.out = to.bytes();
  }
  return finish("reduce", call, options, result, std::move(tensors));
}

std::vector<std::size_t> PyCommunicator::sizes_of(std::string_view name, const py::object& sizes,
                                                  const char* parameter) const {
  auto rows =
      cast_or_refuse<std::vector<std::size_t>>(sizes, name, parameter, "a list of the rows of each rank");
  if (rows.size() != comm_->size())
    throw py::value_error(fmt::format("{}: {} has {} numbers; give the rows of each of the {} ranks", name,
                                      parameter, rows.size(), comm_->size()));
  return rows;
}

/// Blocking: all ranks tell each other what they bring, and find the same fault in it.
std::vector<std::size_t> PyCommunicator::ask_rows(std::string_view name, const Tensor& tensor,
                                                  const CallOptions& options) {
  const CallSettings settings = settings_of_question(name, options);
  const TensorLayout mine = layout_of(tensor);
  std::vector<TensorLayout> all(comm_->size());
  CollectiveCall call{operator_of<AllGather>};
  call.arguments.type = DataType::byte;
  call.arguments.in = std::as_bytes(std::span(&mine, 1));
  call.arguments.out = std::as_writable_bytes(std::span(all));
  try {
    wait_without_lock([&](bindings::Interrupt* interrupt) { comm_->call(call, settings, interrupt); });
    check_rows_fit(name, comm_->name(), all);
  } catch (const Error& error) {
    throw failure_of(error, std::string(name), tensor.describe());
  }
  std::vector<std::size_t> rows;
  for (const TensorLayout& layout : all) rows.push_back(layout.rows());
  return rows;
}

std::vector<std::size_t> PyCommunicator::rows_of_all(std::string_view name, const Tensor& tensor,
                                                     const py::object& out, const py::object& sizes,
                                                     const CallOptions& options) {
  if (!sizes.is_none()) {
    auto rows = sizes_of(name, sizes);
    if (rows[comm_->rank()] != tensor.rows())
      throw py::value_error(fmt::format("{}: sizes says {} rows for rank {}, which gives {}", name,
                                        rows[comm_->rank()], comm_->rank(), tensor.rows()));
    return rows;
  }
  // Where the result's place is given, or nobody waits, all bring the same; else it is a mismatch.
  if (!out.is_none() || options.is_async) return std::vector<std::size_t>(comm_->size(), tensor.rows());
  return ask_rows(name, tensor, options);
}

py::object PyCommunicator::all_gather(const py::object& tensor, const py::object& out,
                                      const py::object& sizes, const CallOptions& options) {
  if (is_list(tensor)) return call_on_list(operator_of<AllGather>, tensor, py::none(), out, 0, options);
  const auto type = type_asked_for(options);
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const Tensor& in = tensors.emplace_back(tensor, "all_gather", "tensor", false, type);
  std::vector<std::size_t> rows = rows_of_all("all_gather", in, out, sizes, options);
  const bool is_even = std::ranges::all_of(rows, [&](std::size_t one) { return one == rows.front(); });
  const std::size_t total = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
  const py::object result = out.is_none() ? in.make_with_rows(total) : out;
  const Tensor& to = tensors.emplace_back(result, "all_gather", "out", true, type);
  in.check_same_type(to, "all_gather");
  CollectiveCall call{is_even ? operator_of<AllGather> : operator_of<AllGatherV>};
  place(call.arguments, in, to);
  Counts counts = is_even ? Counts{} : in_elements(rows, in.row_elements());
  return finish("all_gather", call, options, result, std::move(tensors), std::move(counts));
}

py::object PyCommunicator::reduce_scatter(const py::object& tensor, const py::object& reduction,
                                          const py::object& out, const py::object& sizes, bool is_uneven,
                                          const CallOptions& options) {
  if (is_list(tensor)) return call_on_list(operator_of<ReduceScatter>, tensor, reduction, out, 0, options);
  const auto type = type_asked_for(options);
  const Rank ranks = comm_->size();
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const Tensor& in = tensors.emplace_back(tensor, "reduce_scatter", "tensor", false, type);
  const bool is_even = sizes.is_none() && in.rows() % ranks == 0;
  if (!is_even && sizes.is_none() && !is_uneven)
    throw CallFailure(uneven_rows("reduce_scatter", in, ranks), "reduce_scatter", in.describe());
  const std::vector<std::size_t> rows =
      sizes.is_none() ? split_rows(in.rows(), ranks) : sizes_of("reduce_scatter", sizes);
  const py::object result = out.is_none() ? in.make_with_rows(rows[comm_->rank()]) : out;
  const Tensor& to = tensors.emplace_back(result, "reduce_scatter", "out", true, type);
  in.check_same_type(to, "reduce_scatter");
  CollectiveCall call{is_even ? operator_of<ReduceScatter> : operator_of<ReduceScatterV>};
  call.arguments.reduce = combination_of(reduction, in, "reduce_scatter");
  place(call.arguments, in, to);
  Counts counts = is_even ? Counts{} : in_elements(rows, in.row_elements());
  return finish("reduce_scatter", call, options, result, std::move(tensors), std::move(counts));
}

py::object PyCommunicator::gather(const py::object& tensor, Rank root, const py::object& out,
                                  const py::object& sizes, const CallOptions& options) {
  check_root("gather", root);
  const auto type = type_asked_for(options);
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const Tensor& in = tensors.emplace_back(tensor, "gather", "tensor", false, type);
  // Not by `out`: that is the root's alone, and what the others do must be the same.
  std::vector<std::size_t> rows = rows_of_all("gather", in, py::none(), sizes, options);
  const bool is_even = std::ranges::all_of(rows, [&](std::size_t one) { return one == rows.front(); });
  CollectiveCall call{is_even ? operator_of<Gather> : operator_of<GatherV>};
  call.arguments.root = root;
  call.arguments.type = in.type();
  call.arguments.in = in.bytes();
  py::object result = py::none();
  if (comm_->rank() == root) {
    const std::size_t total = std::accumulate(rows.begin(), rows.end(), std::size_t{0});
    result = out.is_none() ? in.make_with_rows(total) : out;
    const Tensor& to = tensors.emplace_back(result, "gather", "out", true, type);
    in.check_same_type(to, "gather");
    call.arguments.out = to.bytes();
  }
  Counts counts = is_even ? Counts{} : in_elements(rows, in.row_elements());
  return finish("gather", call, options, result, std::move(tensors), std::move(counts));
}

/// What this rank gets of a scatter, where it has not said where to: as the root tells all.
Tensor PyCommunicator::make_scattered(const Tensor* from, Rank root, const CallOptions& options) {
  const CallSettings settings = settings_of_question("scatter", options);
  TensorLayout layout = from == nullptr ? TensorLayout() : layout_of(*from);
  CollectiveCall call{operator_of<Broadcast>};
  call.arguments.type = DataType::byte;
  call.arguments.root = root;
  call.arguments.out = std::as_writable_bytes(std::span(&layout, 1));
  try {
    wait_without_lock([&](bindings::Interrupt* interrupt) { comm_->call(call, settings, interrupt); });
  } catch (const Error& error) {
    throw CallFailure(error, "scatter", from == nullptr ? std::string() : from->describe());
  }
  if (layout.rows() % comm_->size() != 0)
    throw CallFailure(uneven_rows("scatter", layout, comm_->size()), "scatter", {});
  const py::object place = make_by_layout(layout, layout.rows() / comm_->size());
  // numpy's own arrays have no bfloat16: what lies in them is what the root says.
  std::optional<DataType> type;
  if (layout.type == static_cast<std::uint8_t>(DataType::bfloat16)) type = DataType::bfloat16;
  return {place, "scatter", "out", true, type};
}

py::object PyCommunicator::scatter(const py::object& tensor, Rank root, const py::object& out,
                                   const py::object& sizes, const CallOptions& options) {
  check_root("scatter", root);
  const auto type = type_asked_for(options);
  const bool is_root = comm_->rank() == root;
  if (is_root && tensor.is_none())
    throw py::type_error("scatter: the root gives the tensor that is scattered, and `tensor` is None");
  if (out.is_none() && (options.is_async || !sizes.is_none()))
    throw py::type_error("scatter: give `out` on every rank, with async_op or sizes");
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  if (is_root) tensors.emplace_back(tensor, "scatter", "tensor", false, type);
  tensors.push_back(out.is_none() ? make_scattered(is_root ? &tensors[0] : nullptr, root, options)
                                  : Tensor(out, "scatter", "out", true, type));
  const Tensor& to = tensors.back();
  CollectiveCall call{sizes.is_none() ? operator_of<Scatter> : operator_of<ScatterV>};
  call.arguments.root = root;
  call.arguments.type = to.type();
  call.arguments.out = to.bytes();
  if (is_root) {
    tensors[0].check_same_type(to, "scatter");
    call.arguments.in = tensors[0].bytes();
  }
  Counts counts = sizes.is_none() ? Counts{} : in_elements(sizes_of("scatter", sizes), to.row_elements());
  const py::object result = to.object();
  return finish("scatter", call, options, result, std::move(tensors), std::move(counts));
}

py::object PyCommunicator::all_to_all(const py::object& tensor, const py::object& out,
                                      const py::object& send_sizes, const py::object& recv_sizes,
                                      const CallOptions& options) {
  const auto type = type_asked_for(options);
  const Rank ranks = comm_->size();
  if (send_sizes.is_none() != recv_sizes.is_none())
    throw py::type_error("all_to_all: give both send_sizes and recv_sizes, or neither");
  const bool is_even = send_sizes.is_none();
  std::vector<Tensor> tensors;
  tensors.reserve(2);
  const Tensor& in = tensors.emplace_back(tensor, "all_to_all", "tensor", false, type);
  if (is_even && in.rows() % ranks != 0)
    throw CallFailure(uneven_rows("all_to_all", in, ranks), "all_to_all", in.describe());
  Counts to_each;
  Counts of_each;
  std::size_t rows = in.rows();
  if (!is_even) {
    const std::vector<std::size_t> gets = sizes_of("all_to_all", recv_sizes, "recv_sizes");
    rows = std::accumulate(gets.begin(), gets.end(), std::size_t{0});
    to_each = in_elements(sizes_of("all_to_all", send_sizes, "send_sizes"), in.row_elements());
    of_each = in_elements(gets, in.row_elements());
  }
  const py::object result = out.is_none() ? in.make_with_rows(rows) : out;
  const Tensor& to = tensors.emplace_back(result, "all_to_all", "out", true, type);
  in.check_same_type(to, "all_to_all");
  CollectiveCall call{is_even ? operator_of<AllToAll> : operator_of<AllToAllVc>};
  place(call.arguments, in, to);
  return finish("all_to_all", call, options, result, std::move(tensors), std::move(to_each),
                std::move(of_each));
}

py::object PyCommunicator::call_on_list(Operator op, const py::object& tensors, const py::object& reduction,
                                        const py::object& out, Rank root, const CallOptions& options) {
  const std::string_view name = to_string(op);
  const auto type = type_asked_for(options);
  const bool is_in_place = op == operator_of<Broadcast>;
  const bool gets = op != operator_of<Reduce> || comm_->rank() == root;
  TensorsCall call{.op = op, .root = root};
  std::vector<Tensor> all;
  py::list results;
  const py::list given(tensors);
  const py::list places = out.is_none() || !gets ? py::list() : py::list(out);
  if (!out.is_none() && gets && places.size() != given.size())
    throw py::value_error(fmt::format("{}: {} tensors and {} places for results; give as many", name,
                                      given.size(), places.size()));
  all.reserve(2 * given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_written = is_in_place && comm_->rank() != root;
    const Tensor& in = all.emplace_back(py::object(given[i]), name, "tensors", is_written, type, i);
    if (i == 0) call.type = in.type();
    if (!in.is_of_type_of(all.front()))
      throw py::type_error(fmt::format("{}: tensor {} has {}, the first one {}; give one type", name, i,
                                       in.type_name(), all.front().type_name()));
    if (is_in_place) {
      call.out.push_back(in.bytes());
      continue;
    }
    if (i == 0 && !reduction.is_none()) call.reduce = combination_of(reduction, in, name);
    call.in.push_back(in.bytes());
    if (!gets) continue;
    py::object result = out.is_none() ? make_result_of(op, in, comm_->size()) : py::object(places[i]);
    const Tensor& to = all.emplace_back(result, name, "out", true, type, i);
    in.check_same_type(to, name);
    call.out.push_back(to.bytes());
    results.append(std::move(result));
  }
  const py::object result = is_in_place ? tensors : gets ? py::object(results) : py::none();
  return finish(name, std::move(call), options, result, std::move(all));
}

py::object PyCommunicator::send(const py::object& tensor, Rank to, std::int32_t tag,
                                const CallOptions& options) {
  std::vector<Tensor> tensors;
  tensors.emplace_back(tensor, "send", "tensor", false);
  const MessageCall call{MessageCall::Direction::send, to, tag, tensors[0].bytes()};
  return finish("send", call, options, py::none(), std::move(tensors));
}

py::object PyCommunicator::recv(const py::object& tensor, const py::object& source, std::int32_t tag,
                                const CallOptions& options) {
  std::vector<Tensor> tensors;
  tensors.emplace_back(tensor, "recv", "tensor", true);
  MessageCall call{MessageCall::Direction::recv_any, 0, tag, tensors[0].bytes()};
  if (!source.is_none()) {
    call.direction = MessageCall::Direction::recv;
    call.peer = cast_or_refuse<Rank>(source, "recv", "source", "a rank, or None for anybody");
  }
  return finish("recv", call, options, py::none(), std::move(tensors));
}

std::optional<PyCommunicator> PyCommunicator::split(int color, int key) {
  std::shared_ptr<bindings::SharedCommunicator> made;
  wait_without_lock([&](bindings::Interrupt* interrupt) { made = comm_->split(color, key, interrupt); });
  if (made == nullptr) return std::nullopt;
  return PyCommunicator(std::move(made));
}

PyCommunicator PyCommunicator::group(std::vector<Rank> ranks, std::string name) {
  std::shared_ptr<bindings::SharedCommunicator> made;
  wait_without_lock([&](bindings::Interrupt* interrupt) {
    made = comm_->group(std::move(ranks), std::move(name), interrupt);
  });
  return PyCommunicator(std::move(made));
}

std::shared_ptr<std::byte> PyCommunicator::allocate(std::size_t bytes) {
  const Unlocked unlocked;
  return comm_->allocate(bytes);
}

std::string PyCommunicator::explain(const std::string& op, const std::string& type, std::size_t bytes) {
  const auto known_op = parse_operator(op);
  if (!known_op) throw py::value_error(fmt::format("'{}' is no operator", op));
  const auto known_type = parse_data_type(type);
  if (!known_type) throw py::value_error(fmt::format("'{}' is no type; give {}", type, known_types()));
  const Unlocked unlocked;
  return comm_->explain(*known_op, *known_type, bytes);
}

py::object PyCommunicator::failure() {
  std::optional<Error> failure;
  {
    const Unlocked unlocked;
    failure = comm_->failure();
  }
  return failure ? exception_of(*failure, {}, {}) : py::none();
}

void PyCommunicator::close() {
  wait_without_lock([this](bindings::Interrupt* interrupt) { comm_->close(interrupt); });
}

void PyCommunicator::abort(const std::string& reason) {
  const Unlocked unlocked;
  comm_->abort(reason);
}

}  // namespace cohort::python
