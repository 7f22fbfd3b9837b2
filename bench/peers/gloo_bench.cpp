// SPDX-License-Identifier: Apache-2.0
//
// Gloo's collectives under the method of measure.h; starts its own ranks. --transport tcp measures the
// asynchronous API (one epoll thread per rank, as its users run it), tcp-busy the older algorithm classes
// over pairs that poll in the calling thread.

#include <stdlib.h>

#include <condition_variable>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cohort/bench/peers/overlap.h>
#include <cohort/bench/peers/ranks.h>

namespace {

using namespace cohort::peers;
using Context = std::shared_ptr<gloo::Context>;

// Tags tell apart what runs in parallel. The measured operation and the barriers between follow each other,
// but a slow rank may still be in one when a fast one starts the other.
constexpr uint32_t kOperationTag = 1;
constexpr uint32_t kBarrierTag = 2;

void add(void* result, const void* left, const void* right, std::size_t count) {
  auto* sum = static_cast<float*>(result);
  const auto* a = static_cast<const float*>(left);
  const auto* b = static_cast<const float*>(right);
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

/// A full mesh over loopback. `busy` makes its pairs synchronous and polling: then only the older classes may
/// use it.
Context connect(int rank, const Options& options, const std::string& rendezvous, bool busy) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  attributes.ai_family = AF_INET;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(rendezvous);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
  context->setTimeout(std::chrono::seconds(options.timeout_s));
  context->connectFullMesh(store, device);
  for (int peer = 0; busy && peer < options.ranks; ++peer) {
    if (peer != rank) context->getPair(peer)->setSync(true, true);
  }
  return context;
}

void barrier(const Context& context, uint32_t tag) {
  gloo::BarrierOptions options(context);
  options.setTag(tag);
  gloo::barrier(options);
}

void all_reduce(const Context& context, gloo::AllreduceOptions::Algorithm algorithm, std::span<float> in,
                float* out) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(algorithm);
  options.setTag(kOperationTag);
  options.setInput(in.data(), in.size());
  options.setOutput(out, in.size());
  options.setReduceFunction(&add);
  gloo::allreduce(options);
}

/// An object of Gloo's older API, run once per operation.
template <typename Algorithm, typename... Arguments>
std::function<void()> run_of(const Context& context, Arguments&&... arguments) {
  auto algorithm = std::make_shared<Algorithm>(context, std::forward<Arguments>(arguments)...);
  return [algorithm] { algorithm->run(); };
}

std::function<void()> reduce_scatter_in_place(const Context& context, std::span<float> in) {
  const auto ranks = static_cast<std::size_t>(context->size);
  const std::vector<int> counts(ranks, static_cast<int>(in.size() / ranks));
  return run_of<gloo::ReduceScatterHalvingDoubling<float>>(context, std::vector<float*>{in.data()},
                                                           static_cast<int>(in.size()), counts);
}

void reduce(const Context& context, std::span<float> in, std::span<float> out) {
  gloo::ReduceOptions options(context);
  options.setRoot(0);
  options.setTag(kOperationTag);
  options.setInput(in.data(), in.size());
  options.setOutput(out.data(), out.size());
  options.setReduceFunction(&add);
  gloo::reduce(options);
}

/// Rank 1 returns what it received from rank 0.
std::function<void()> ping_pong(const Context& context, std::span<float> in, std::span<float> out) {
  const std::shared_ptr<gloo::transport::UnboundBuffer> source =
      context->createUnboundBuffer(context->rank == 0 ? in.data() : out.data(), in.size_bytes());
  const std::shared_ptr<gloo::transport::UnboundBuffer> target =
      context->createUnboundBuffer(out.data(), out.size_bytes());
  const int other = 1 - context->rank;
  const auto send = [=] {
    source->send(other, kOperationTag);
    source->waitSend();
  };
  const auto receive = [=] {
    target->recv(other, kOperationTag);
    target->waitRecv();
  };
  if (context->rank == 0) {
    return [=] {
      send();
      receive();
    };
  }
  return [=] {
    receive();
    send();
  };
}

/// The ways in which the asynchronous API does `collective`.
std::vector<Point> async_points(const Context& context, Point point) {
  const std::span<float> in = point.in;
  const std::span<float> out = point.out;
  switch (point.collective) {
    case Collective::barrier: point.operation = [=] { barrier(context, kOperationTag); }; return {point};
    case Collective::broadcast:
      point.out = in;
      point.operation = [=] {
        gloo::BroadcastOptions options(context);
        options.setRoot(0);
        options.setTag(kOperationTag);
        options.setOutput(in.data(), in.size());
        gloo::broadcast(options);
      };
      return {point};
    case Collective::all_reduce: {
      Point bcube = point;
      using Algorithm = gloo::AllreduceOptions::Algorithm;
      point.operation = [=] { all_reduce(context, Algorithm::RING, in, out.data()); };
      bcube.operation = [=] { all_reduce(context, Algorithm::BCUBE, in, out.data()); };
      return {point, bcube};
    }
    case Collective::all_gather:
      point.operation = [=] {
        gloo::AllgatherOptions options(context);
        options.setTag(kOperationTag);
        options.setInput(in.data(), in.size());
        options.setOutput(out.data(), out.size());
        gloo::allgather(options);
      };
      return {point};
    case Collective::reduce_scatter:  // the newer API has none
      point.out = in.first(out.size());
      point.operation = reduce_scatter_in_place(context, in);
      return {point};
    case Collective::reduce: point.operation = [=] { reduce(context, in, out); }; return {point};
    case Collective::all_to_all:
      point.operation = [=] {
        gloo::AlltoallOptions options(context);
        options.setTag(kOperationTag);
        options.setInput(in.data(), in.size());
        options.setOutput(out.data(), out.size());
        gloo::alltoall(options);
      };
      return {point};
    case Collective::send_recv: point.operation = ping_pong(context, in, out); return {point};
    default: throw NotMeasured("not measured with Gloo");
  }
  return {};
}

/// Polling pairs send with a blocking write and do not read meanwhile: two ranks that send each other more
/// than their sockets hold wait for ever. Linux lets a receive buffer grow to 32 MiB, of which this much
/// surely fits (widen_sockets).
constexpr std::size_t kLargestExchange = std::size_t{16} << 20;

bool exchanges(std::size_t elements) { return elements * sizeof(float) <= kLargestExchange; }

/// The ways in which the older classes do `collective`; none if all would wait for ever.
std::vector<Point> busy_points(const Context& context, Point point) {
  const std::vector<float*> vectors{point.in.data()};
  const int count = static_cast<int>(point.in.size());
  switch (point.collective) {
    case Collective::barrier: point.operation = run_of<gloo::BarrierAllToAll>(context); return {point};
    case Collective::broadcast:
      point.out = point.in;
      point.operation = run_of<gloo::BroadcastOneToAll<float>>(context, vectors, point.in.size(), 0);
      return {point};
    case Collective::all_reduce: {
      const auto ranks = static_cast<std::size_t>(context->size);
      std::vector<Point> points;
      point.out = point.in;
      if (exchanges(point.in.size() / 2)) {
        point.operation = run_of<gloo::AllreduceHalvingDoubling<float>>(context, vectors, count);
        points.push_back(point);
      }
      // The ring has two chunks per rank, both under way at once.
      if (point.in.size() >= 2 * ranks && exchanges(point.in.size() / ranks)) {
        point.operation = run_of<gloo::AllreduceRingChunked<float>>(context, vectors, count);
        points.push_back(point);
      }
      return points;
    }
    case Collective::all_gather: {
      if (!exchanges(point.in.size())) return {};
      const std::vector<const float*> inputs{point.in.data()};
      point.operation = run_of<gloo::AllgatherRing<float>>(context, inputs, point.out.data(), count);
      return {point};
    }
    case Collective::reduce_scatter:
      if (!exchanges(point.in.size() / 2)) return {};
      point.out = point.in.first(point.out.size());
      point.operation = reduce_scatter_in_place(context, point.in);
      return {point};
    default: throw NotMeasured("Gloo's older classes have none");
  }
  return {};
}

/// Lets the kernel grow the receive buffers of polling pairs by messages that only go one way at a time.
void widen_sockets(const Context& context, std::span<float> values) {
  constexpr int kMessages = 8;
  for (int root = 0; root < context->size; ++root) {
    const auto broadcast = run_of<gloo::BroadcastOneToAll<float>>(context, std::vector<float*>{values.data()},
                                                                  values.size(), root);
    for (int i = 0; i < kMessages; ++i) broadcast();
  }
}

/// A thread that runs one function at a time.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    start({});
    thread_.join();
  }

  /// An empty function ends the thread.
  void start(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    function_ = std::move(function);
    is_busy_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_busy_; });
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_busy_; });
      if (!function_) return;
      lock.unlock();
      function_();
      lock.lock();
      is_busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> function_;
  bool is_busy_ = false;
  std::thread thread_;
};

/// Gloo has no non-blocking form: a second thread waits. Of the asynchronous API: the older classes work in
/// place and would make sums of sums.
void measure_overlaps(const Options& options, Measurement& measurement, const Context& context,
                      const Buffer& in, const Buffer& out) {
  Worker worker;
  for (const std::size_t bytes : options.sizes_bytes) {
    const Shape shape = shape_of(Collective::all_reduce, bytes, options.ranks);
    const Point point{Collective::all_reduce, bytes, {in.data(), shape.in}, {out.data(), shape.out}, {}};
    std::vector<Form> forms;
    for (const Point& way : async_points(context, point)) {
      const auto operation = way.operation;
      forms.push_back({"second thread",
                       [&worker, operation] { worker.start(operation); },
                       {},
                       [&worker] { worker.wait(); }});
    }
    measure_overlap(options, measurement, bytes, point.in, point.out, forms);
  }
}

void measure_all(int rank, const Options& options, Board& board, const std::string& rendezvous) {
  const bool busy = options.transport == "tcp-busy";
  if (!busy && options.transport != "tcp") throw std::invalid_argument("Gloo has tcp and tcp-busy");
  const Context context = connect(rank, options, rendezvous, busy);
  std::function<void()> between = [=] { barrier(context, kBarrierTag); };
  if (busy) between = run_of<gloo::BarrierAllToAll>(context);
  // Ranks of the asynchronous API sleep while they wait. One that arrives at an operation after spinning is
  // soon preempted, and if it then holds a pair's lock, Gloo's own thread polls in vain for the scheduler's
  // whole slice.
  const Waiting waiting = busy ? Waiting::awake : Waiting::asleep;
  Measurement measurement(options, board, {"gloo", rank, options.ranks, waiting, between, {}});
  if (rank == 0) std::filesystem::remove_all(rendezvous);  // all have met: nothing is left if we are killed
  const std::size_t largest = largest_elements(options, options.ranks);
  const Buffer in(largest);
  const Buffer out(largest);
  if (busy) widen_sockets(context, {in.data(), largest});
  if (options.overlap && busy) throw std::invalid_argument("--overlap needs --transport tcp");
  if (options.overlap) return measure_overlaps(options, measurement, context, in, out);
  for_each_point(options, measurement, [&](Collective collective, std::size_t bytes) {
    const Shape shape = shape_of(collective, bytes, options.ranks);
    const Point point{collective, bytes, {in.data(), shape.in}, {out.data(), shape.out}, {}};
    const std::vector<Point> ways = busy ? busy_points(context, point) : async_points(context, point);
    if (ways.empty()) throw NotMeasured("polling pairs would wait for each other at this size");
    measurement.print(point, measurement.measure_best(ways));
    measurement.meet();
  });
}

int run_all(const Options& options) {
  std::string rendezvous = std::filesystem::temp_directory_path() / "peer_gloo_XXXXXX";
  if (mkdtemp(rendezvous.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), rendezvous);
  }
  const auto measure = [&](int rank, Board& board) { measure_all(rank, options, board, rendezvous); };
  const int status = run_ranks("gloo", options, measure);
  std::filesystem::remove_all(rendezvous);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_all(parse_options(std::span(argv, static_cast<std::size_t>(argc))));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n%s", argv[0], error.what(), kUsage);
    return 3;
  }
}
