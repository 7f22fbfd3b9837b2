// SPDX-License-Identifier: Apache-2.0
// Collectives and messages.
#include <cohort/bindings/c/handles.h>
#include <cohort/collectives/schedules/operators/operator.h>

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace cohort::bindings::c {
namespace {

static_assert(COHORT_FLOAT32 == static_cast<int>(DataType::float32) &&
              COHORT_FLOAT8_E5M2 == static_cast<int>(DataType::float8_e5m2) &&
              COHORT_INT64 == static_cast<int>(DataType::int64) &&
              COHORT_UINT64 == static_cast<int>(DataType::uint64) &&
              COHORT_BYTE == static_cast<int>(DataType::byte) && kDataTypeCount == COHORT_BYTE + 1);
static_assert(COHORT_SUM == static_cast<int>(ReduceOp::sum) &&
              COHORT_PROD == static_cast<int>(ReduceOp::prod) &&
              COHORT_SCALED_SUM == static_cast<int>(ReduceOp::scaled_sum) &&
              COHORT_BIT_AND == static_cast<int>(ReduceOp::bit_and) &&
              COHORT_LOGICAL_XOR == static_cast<int>(ReduceOp::logical_xor) &&
              kReduceOps.size() == COHORT_LOGICAL_XOR + 1);

using Numbers = std::vector<std::size_t>;

/// What a function was called with, in the interface's terms.
struct Asked {
  const char* function;
  Operator op;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  cohort_type type = COHORT_BYTE;
  cohort_op reduce = COHORT_SUM;
  Rank root = 0;
  Numbers counts{};  ///< where blocks differ
  Numbers recv_counts{};
};

DataType type_of(const char* function, cohort_type type) {
  if (cohort_type_bytes(type) == 0)
    refuse(fmt::format("{}: {} is no type of elements; give one of COHORT_FLOAT32 to COHORT_BYTE", function,
                       type));
  return static_cast<DataType>(type);
}

Combination combination_of(const char* function, cohort_op op, const cohort_how* how) {
  if (op < COHORT_SUM || op > COHORT_LOGICAL_XOR)
    refuse(fmt::format("{}: {} is no reduction; give one of COHORT_SUM to COHORT_LOGICAL_XOR", function, op));
  if (op == COHORT_SCALED_SUM) return scaled_sum(given(how, function, "how, which has the factor").factor);
  return static_cast<ReduceOp>(op);
}

CallSettings settings_of(const char* function, const cohort_how* how) {
  CallSettings settings;
  if (how == nullptr) return settings;
  if (how->bytes != sizeof(cohort_how))
    refuse(fmt::format("{}: how->bytes is {}, not sizeof(cohort_how), which is {}", function, how->bytes,
                       sizeof(cohort_how)));
  if (how->timeout_ns < 0)
    refuse(fmt::format("{}: how->timeout_ns is {}; give nanoseconds, or 0 for the communicator's", function,
                       how->timeout_ns));
  settings.timeout = Duration(how->timeout_ns);
  if (how->algorithm != nullptr) settings.algorithm = how->algorithm;
  return settings;
}

/// As large as no memory is where it does not fit, so that it is refused.
std::size_t times(std::size_t count, std::size_t bytes) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  return count > kMost / bytes ? kMost : count * bytes;
}

std::size_t sum_of(const Numbers& counts) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  std::size_t sum = 0;
  for (const std::size_t count : counts) sum = count > kMost - sum ? kMost : sum + count;
  return sum;
}

/// Elements that this rank gives and gets. Counts whose sums are beyond all memory are refused here.
Extent extent_of(const Asked& asked, Rank rank, Rank ranks) {
  if (!asked.recv_counts.empty()) return {sum_of(asked.counts), sum_of(asked.recv_counts)};
  if (sum_of(asked.counts) == std::numeric_limits<std::size_t>::max())
    refuse(fmt::format("{}: the counts add up to more than any memory holds", asked.function));
  if (asked.counts.empty() && asked.op->counts == Counts::one) {
    const Extent unit = asked.op->extent({.count = 1, .ranks = ranks, .root = asked.root}, rank);
    return {unit.send == 0 ? 0 : times(asked.count, unit.send),
            unit.recv == 0 ? 0 : times(asked.count, unit.recv)};
  }
  return asked.op->extent({.ranks = ranks, .root = asked.root, .counts = asked.counts}, rank);
}

/// Waits for the call, or starts it. What `kept` holds the call refers to.
cohort_status finish(const char* function, cohort_comm& comm, AnyCall call, const cohort_how* how,
                     cohort_request** request, std::shared_ptr<const void> kept, Rank* from = nullptr) {
  CallSettings settings = settings_of(function, how);
  if (request == nullptr) {
    const Rank sender = comm.comm->call(call, settings);
    if (from != nullptr) *from = sender;
    return COHORT_OK;
  }
  auto started = std::make_unique<cohort_request>(cohort_request{
      comm.session, comm.comm->prepare(std::move(call), std::move(settings), std::move(kept))});
  comm.comm->start(started->request);
  *request = started.release();
  return COHORT_OK;
}

void clear(cohort_request** request) noexcept {
  if (request != nullptr) *request = nullptr;
}

cohort_status call(Asked asked, cohort_comm* comm, const cohort_how* how, cohort_request** request) {
  clear(request);
  return guarded([&] {
    cohort_comm& at = given(comm, asked.function, "comm");
    const Rank ranks = at.comm->size();
    if (asked.op->has_root && asked.root >= ranks)
      refuse(fmt::format("{} with root rank {}, but the ranks are 0 to {}", asked.function, asked.root,
                         ranks - 1));
    CollectiveCall made{asked.op};
    CallArguments& arguments = made.arguments;
    arguments.root = asked.root;
    if (asked.op->combines) arguments.reduce = combination_of(asked.function, asked.reduce, how);
    std::shared_ptr<std::pair<Numbers, Numbers>> counts;
    if (asked.op->has_data) {
      arguments.type = type_of(asked.function, asked.type);
      const std::size_t element = size_bytes(arguments.type);
      const Extent extent = extent_of(asked, at.comm->rank(), ranks);
      if (!asked.op->has_one_buffer)
        arguments.in = {static_cast<const std::byte*>(asked.in), times(extent.send, element)};
      arguments.out = {static_cast<std::byte*>(asked.out), times(extent.recv, element)};
    }
    if (!asked.counts.empty()) {
      counts = std::make_shared<std::pair<Numbers, Numbers>>(std::move(asked.counts),
                                                             std::move(asked.recv_counts));
      arguments.counts = counts->first;
      arguments.recv_counts = counts->second;
    }
    return finish(asked.function, at, made, how, request, std::move(counts));
  });
}

/// The same with `many` counts, read once it is known that there are such.
cohort_status call_with_counts(Asked asked, cohort_comm* comm, const size_t* counts, const cohort_how* how,
                               cohort_request** request) {
  clear(request);
  const cohort_status status = guarded([&] {
    const std::size_t many = how_many(asked.op->counts, given(comm, asked.function, "comm").comm->size());
    const std::size_t* const first = &given(counts, asked.function, "counts");
    asked.counts.assign(first, first + many);
    return COHORT_OK;
  });
  return status == COHORT_OK ? call(std::move(asked), comm, how, request) : status;
}

cohort_status message(const char* function, MessageCall::Direction direction, cohort_comm* comm, void* data,
                      std::size_t bytes, Rank peer, std::int32_t tag, const cohort_how* how,
                      cohort_request** request, Rank* from = nullptr) {
  clear(request);
  return guarded([&] {
    cohort_comm& at = given(comm, function, "comm");
    if (bytes != 0) (void)given(static_cast<char*>(data), function, "data");
    const MessageCall made{direction, peer, tag, {static_cast<std::byte*>(data), bytes}};
    return finish(function, at, made, how, request, nullptr, from);
  });
}

void append(const char* function, const char* name, const cohort_tensor* tensors, std::size_t count,
            DataType type, std::vector<std::span<std::byte>>& to) {
  if (count == 0) return;
  const cohort_tensor* const first = &given(tensors, function, name);
  for (const cohort_tensor& tensor : std::span(first, count))
    to.emplace_back(static_cast<std::byte*>(tensor.data), times(tensor.count, size_bytes(type)));
}

}  // namespace
}  // namespace cohort::bindings::c

using namespace cohort::bindings::c;
using namespace cohort;
using bindings::MessageCall;

size_t cohort_type_bytes(cohort_type type) {
  return type < 0 || type > COHORT_BYTE ? 0 : size_bytes(static_cast<DataType>(type));
}

cohort_status cohort_barrier(cohort_comm* comm, const cohort_how* how, cohort_request** request) {
  return call({.function = __func__, .op = operator_of<Barrier>}, comm, how, request);
}

cohort_status cohort_broadcast(cohort_comm* comm, void* data, size_t count, cohort_type type, uint32_t root,
                               const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<Broadcast>, nullptr, data, count, type, COHORT_SUM, root}, comm, how,
              request);
}

cohort_status cohort_all_reduce(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                cohort_op op, const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<AllReduce>, in, out, count, type, op}, comm, how, request);
}

cohort_status cohort_reduce(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                            cohort_op op, uint32_t root, const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<Reduce>, in, out, count, type, op, root}, comm, how, request);
}

cohort_status cohort_scan(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                          cohort_op op, const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<Scan>, in, out, count, type, op}, comm, how, request);
}

cohort_status cohort_exclusive_scan(cohort_comm* comm, const void* in, void* out, size_t count,
                                    cohort_type type, cohort_op op, const cohort_how* how,
                                    cohort_request** request) {
  return call({__func__, operator_of<ExclusiveScan>, in, out, count, type, op}, comm, how, request);
}

cohort_status cohort_all_gather(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<AllGather>, in, out, count, type}, comm, how, request);
}

cohort_status cohort_reduce_scatter(cohort_comm* comm, const void* in, void* out, size_t count,
                                    cohort_type type, cohort_op op, const cohort_how* how,
                                    cohort_request** request) {
  return call({__func__, operator_of<ReduceScatter>, in, out, count, type, op}, comm, how, request);
}

cohort_status cohort_gather(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                            uint32_t root, const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<Gather>, in, out, count, type, COHORT_SUM, root}, comm, how, request);
}

cohort_status cohort_scatter(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                             uint32_t root, const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<Scatter>, in, out, count, type, COHORT_SUM, root}, comm, how, request);
}

cohort_status cohort_all_to_all(cohort_comm* comm, const void* in, void* out, size_t count, cohort_type type,
                                const cohort_how* how, cohort_request** request) {
  return call({__func__, operator_of<AllToAll>, in, out, count, type}, comm, how, request);
}

cohort_status cohort_all_gather_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                                  cohort_type type, const cohort_how* how, cohort_request** request) {
  return call_with_counts({__func__, operator_of<AllGatherV>, in, out, 0, type}, comm, counts, how, request);
}

cohort_status cohort_reduce_scatter_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                                      cohort_type type, cohort_op op, const cohort_how* how,
                                      cohort_request** request) {
  return call_with_counts({__func__, operator_of<ReduceScatterV>, in, out, 0, type, op}, comm, counts, how,
                          request);
}

cohort_status cohort_gather_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                              cohort_type type, uint32_t root, const cohort_how* how,
                              cohort_request** request) {
  return call_with_counts({__func__, operator_of<GatherV>, in, out, 0, type, COHORT_SUM, root}, comm, counts,
                          how, request);
}

cohort_status cohort_scatter_v(cohort_comm* comm, const void* in, void* out, const size_t* counts,
                               cohort_type type, uint32_t root, const cohort_how* how,
                               cohort_request** request) {
  return call_with_counts({__func__, operator_of<ScatterV>, in, out, 0, type, COHORT_SUM, root}, comm, counts,
                          how, request);
}

cohort_status cohort_all_to_all_v(cohort_comm* comm, const void* in, const size_t* send_counts, void* out,
                                  const size_t* recv_counts, cohort_type type, const cohort_how* how,
                                  cohort_request** request) {
  clear(request);
  Asked asked{__func__, operator_of<AllToAllVc>, in, out, 0, type};
  const cohort_status status = guarded([&] {
    const Rank ranks = given(comm, asked.function, "comm").comm->size();
    const std::size_t* const send = &given(send_counts, asked.function, "send_counts");
    const std::size_t* const recv = &given(recv_counts, asked.function, "recv_counts");
    asked.counts.assign(send, send + ranks);
    asked.recv_counts.assign(recv, recv + ranks);
    return COHORT_OK;
  });
  return status == COHORT_OK ? call(std::move(asked), comm, how, request) : status;
}

cohort_status cohort_all_to_all_vc(cohort_comm* comm, const void* in, void* out, const size_t* matrix,
                                   cohort_type type, const cohort_how* how, cohort_request** request) {
  return call_with_counts({__func__, operator_of<AllToAllVc>, in, out, 0, type}, comm, matrix, how, request);
}

cohort_status cohort_call_on_tensors(cohort_comm* comm, const char* operator_name, const cohort_tensor* in,
                                     const cohort_tensor* out, size_t tensors, cohort_type type, cohort_op op,
                                     uint32_t root, const cohort_how* how, cohort_request** request) {
  clear(request);
  const char* const function = __func__;
  return guarded([&] {
    cohort_comm& at = given(comm, function, "comm");
    const std::string_view name = &given(operator_name, function, "operator_name");
    const auto known = parse_operator(name);
    if (!known) refuse(fmt::format("{}: '{}' is no operator; give \"all_reduce\", for one", function, name));
    bindings::TensorsCall made{.op = *known, .type = type_of(function, type), .root = root};
    if (made.op->combines) made.reduce = combination_of(function, op, how);
    const bool gets = made.op != operator_of<Reduce> || at.comm->rank() == root;
    const bool has_input = in != nullptr && made.op != operator_of<Broadcast>;
    if (has_input) append(function, "in", in, tensors, made.type, made.in);
    if (gets || !has_input) append(function, "out", out, tensors, made.type, made.out);
    return finish(function, at, std::move(made), how, request, nullptr);
  });
}

cohort_status cohort_send(cohort_comm* comm, const void* data, size_t bytes, uint32_t to, int32_t tag,
                          const cohort_how* how, cohort_request** request) {
  return message(__func__, MessageCall::Direction::send, comm, const_cast<void*>(data), bytes, to, tag, how,
                 request);
}

cohort_status cohort_recv(cohort_comm* comm, void* data, size_t bytes, uint32_t from, int32_t tag,
                          const cohort_how* how, cohort_request** request) {
  return message(__func__, MessageCall::Direction::recv, comm, data, bytes, from, tag, how, request);
}

cohort_status cohort_recv_any(cohort_comm* comm, void* data, size_t bytes, int32_t tag, uint32_t* from,
                              const cohort_how* how, cohort_request** request) {
  return message(__func__, MessageCall::Direction::recv_any, comm, data, bytes, 0, tag, how, request, from);
}
