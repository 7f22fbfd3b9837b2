// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/face_calls.h>

#include <cohort/engine/engine.h>
#include <cohort/engine/mutex.h>
#include <cohort/graph/compression/compressor.h>
#include <cohort/graph/compression/decision.h>
#include <cohort/graph/executor/host_groups.h>
#include <cohort/graph/executor/reductions.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace cohort::torch_face {
namespace {

using bindings::Request;
using bindings::SharedCommunicator;
using Shared = std::shared_ptr<SharedCommunicator>;

graph::CompressionOptions compression_of(const BucketOptions& options) {
  return {.kind = known(graph::parse_compression(options.compression), options.compression),
          .has_error_feedback = options.has_error_feedback,
          .top_ratio = options.top_ratio,
          .momentum = options.momentum,
          .rank = options.rank};
}

std::span<float> floats_of(const Memory& memory) {
  return {static_cast<float*>(memory.data), memory.bytes / sizeof(float)};
}

/// What buckets are averaged over, kept by those under way. Used on the engine.
struct Way {
  Shared all;
  Shared host{};  ///< these three: where the form asks for them
  Shared across{};
  Shared leaders{};
  std::string form = "flat";
  graph::CompressionOptions compression{};
  std::unique_ptr<graph::Compressor> compressor{};
  Mutex turn{};

  [[nodiscard]] Task<> average(const BucketCall& call);
  [[nodiscard]] Task<> average_in_turn(DataType type, const BucketCall& call);
  [[nodiscard]] Task<> average_host_by_host(graph::HostReduction how, std::span<std::byte> data);
  /// Peers wait in other groups than the one in which a bucket has failed.
  void give_up(const std::string& reason) const noexcept;
};

Task<> Way::average(const BucketCall& call) {
  const DataType type = known(parse_data_type(call.type), call.type);
  std::exception_ptr failure;
  std::string reason;
  // Kept until all are told: the next bucket would begin, and not fit what peers wait in.
  std::optional<Mutex::Guard> mine;
  try {
    Mutex::Guard guard = co_await turn.lock();
    mine.emplace(std::move(guard));
    co_await average_in_turn(type, call);
    co_return;
  } catch (const std::exception& error) {
    failure = std::current_exception();
    reason = error.what();
  }
  // A group of a few may have heard of it from a rank that gave up in its turn.
  if (form != "flat" && all->communicator().is_failed())
    failure = std::make_exception_ptr(all->communicator().failure());
  give_up(reason);
  std::rethrow_exception(failure);
}

void Way::give_up(const std::string& reason) const noexcept {
  for (const Shared& group : {all, host, across, leaders})
    if (group != nullptr) group->communicator().abort(reason);
}

Task<> Way::average_in_turn(DataType type, const BucketCall& call) {
  const std::span<std::byte> data = bytes_of(call.data);
  if (call.compresses) {
    const std::span<float> values = floats_of(call.data);
    co_await compressor->reduce(all->communicator(), call.name, values, true);
  } else if (form == "flat") {
    co_await graph::reduce_flat(all->communicator(), type, ReduceOp::avg, data);
  } else {
    const graph::HostReduction how{.type = type, .reduction = ReduceOp::avg, .ranks = all->size()};
    co_await average_host_by_host(how, data);
  }
}

Task<> Way::average_host_by_host(graph::HostReduction how, std::span<std::byte> data) {
  Communicator& of_host = host->communicator();
  if (form == "shares") {
    co_await graph::reduce_to_shares(of_host, how, data);
    co_await graph::reduce_share(of_host, across->communicator(), how, data);
    co_await graph::gather_shares(of_host, how, data);
    co_return;
  }
  co_await graph::reduce_to_leader(of_host, how, data);
  if (leaders) co_await graph::reduce_among_leaders(leaders->communicator(), how, data);
  co_await of_host.broadcast(how.type, data, 0);
}

class JoinedBuckets final : public Buckets {
 public:
  JoinedBuckets(std::shared_ptr<Way> way, const GroupNames& group)
      : way_(std::move(way)), group_(std::make_shared<const GroupNames>(group)) {}

  std::shared_ptr<Pending> start(BucketCall call, std::function<void(const Outcome&)> over) override {
    if (call.compresses && (way_->compressor == nullptr || call.type != "float32"))
      throw std::invalid_argument("cohort: bucket " + call.name +
                                  ": only float32 is compressed, and where compression was asked for");
    auto averaging = [way = way_, call = std::move(call)]() -> Task<> {
      return call.timeout_s > 0 ? with_deadline(duration_of(call.timeout_s), way->average(call))
                                : way->average(call);
    };
    return launch(*way_->all, way_->all->prepare_task(std::move(averaging)), std::move(over), group_);
  }

  double measure_work(bindings::Interrupt* interrupt) override {
    auto us = std::make_shared<double>(0);
    auto measuring = [way = way_, us]() -> Task<> {
      const double measured = co_await graph::measure_work(way->all->communicator(), way->compression);
      *us = measured;
    };
    const std::shared_ptr<Request> request = way_->all->prepare_task(std::move(measuring));
    way_->all->start(request);
    const Outcome outcome = outcome_of([&] { request->wait(interrupt); }, *group_);
    if (!outcome.failure.empty()) throw std::runtime_error(outcome.failure);
    return *us;
  }

  BucketDecision decide(double idle_us, double byte_us, std::size_t elements,
                        double work_us_per_element) override {
    if (way_->compressor == nullptr) return {.pays = false, .text = "not asked for"};
    const graph::Cost cost = graph::Cost::of(graph::LinearCost{.idle_us = idle_us, .byte_us = byte_us});
    const graph::CompressionDecision decision =
        graph::decide(*way_->compressor, cost, elements, way_->all->size(), work_us_per_element);
    return {.pays = decision.pays, .text = decision.text()};
  }

  State state() override { return way_->compressor == nullptr ? State{} : way_->compressor->state(); }
  void restore(State state) override {
    if (way_->compressor != nullptr) way_->compressor->restore(std::move(state));
  }

 private:
  const std::shared_ptr<Way> way_;
  const std::shared_ptr<const GroupNames> group_;
};

/// Where this rank stands, from the engine.
graph::HostPlace place_of(const Shared& comm, bindings::Interrupt* interrupt) {
  auto place = std::make_shared<graph::HostPlace>();
  auto asking = [comm, place]() -> Task<> {
    *place = graph::host_place(comm->communicator());
    co_return;
  };
  const std::shared_ptr<Request> request = comm->prepare_task(std::move(asking));
  comm->start(request);
  request->wait(interrupt);
  return *place;
}

void open_hosts(Way& way, bindings::Interrupt* interrupt) {
  const graph::HostPlace place = place_of(way.all, interrupt);
  if (way.form == "shares" && place.place < 0)
    throw std::invalid_argument(
        "cohort: gradients are to be reduced in shares, and hosts have different numbers of ranks: take form "
        "'leader' or 'flat'");
  way.host = way.all->split(place.host, 0, interrupt);
  if (way.form == "shares")
    way.across = way.all->split(place.place, 0, interrupt);
  else
    way.leaders = way.all->split(place.leader, 0, interrupt);
  for (const Shared& made : {way.host, way.across, way.leaders})
    if (made != nullptr) keep_open(made);
}

}  // namespace

std::shared_ptr<Buckets> make_buckets(const Shared& comm, const BucketOptions& options,
                                      const GroupNames& group, bindings::Interrupt* interrupt) {
  if (options.form != "flat" && options.form != "shares" && options.form != "leader")
    throw std::invalid_argument("cohort: buckets are reduced in form flat, shares or leader, not '" +
                                options.form + "'");
  auto way = std::make_shared<Way>();
  way->all = comm;
  way->form = options.form;
  if (!options.compression.empty()) {
    way->compression = compression_of(options);
    way->compressor = graph::Compressor::make(way->compression);
  }
  if (options.form != "flat") open_hosts(*way, interrupt);
  return std::make_shared<JoinedBuckets>(std::move(way), group);
}

}  // namespace cohort::torch_face
