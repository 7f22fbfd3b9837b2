// SPDX-License-Identifier: Apache-2.0
//
// Two ranks, each an engine on a thread of its own, over TCP loopback or over the RDMA device of this host:
// what one exchange costs through a link, or through the stream below it.
#include <cohort/engine/engine.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/framed/framed_link.h>
#include <cohort/net/tcp/socket_stream.h>
#include <cohort/net/verbs/verbs_stream.h>
#include <cohort/net/verbs/verbs_transport.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace cohort {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{64} << 20;

/// One collective that never ends.
class BenchHost final : public LinkOwner {
 public:
  BenchHost() : memory_(std::make_unique<std::byte[]>(2 * kWindowBytes)) {
    state_.sequence = 1;
    state_.is_running = true;
    state_.windows.bind(WindowId::send, memory_.get(), kWindowBytes);
    state_.windows.bind(WindowId::recv, memory_.get() + kWindowBytes, kWindowBytes);
  }
  [[nodiscard]] const RunningOperation& running() const noexcept override { return state_; }
  void link_failed(Rank, const Error& error) noexcept override {
    if (!is_over && received() == std::byte{0}) give_up(error.what());
  }
  void mismatch(Rank, std::uint64_t, const Signature&) noexcept override { give_up("mismatch"); }

  /// From then on the peer may close; rank 1 is told so by what it receives.
  bool is_over = false;

  [[nodiscard]] std::span<std::byte> memory() noexcept { return {memory_.get(), 2 * kWindowBytes}; }
  [[nodiscard]] std::byte& first_byte() noexcept { return memory_[0]; }
  [[nodiscard]] std::byte received() const noexcept { return memory_[kWindowBytes]; }

 private:
  [[noreturn]] static void give_up(const char* why) noexcept {
    std::fprintf(stderr, "the link failed: %s\n", why);
    std::abort();
  }

  std::unique_ptr<std::byte[]> memory_;
  RunningOperation state_;
};

Slice out(std::size_t bytes) { return {WindowId::send, 0, bytes}; }
Slice in(std::size_t bytes) { return {WindowId::recv, 0, bytes}; }

Task<> send(Link& link, Slice slice) { co_await link.send(slice); }
Task<> recv(Link& link, Slice slice) { co_await link.recv(slice); }
Task<> recv_reduce(Link& link, Slice slice, Reducer reducer) { co_await link.recv_reduce(slice, reducer); }

void add_floats(const Reducer&, std::byte* inout, const std::byte* in, std::size_t bytes) noexcept {
  auto* const sum = reinterpret_cast<float*>(inout);
  const auto* const more = reinterpret_cast<const float*>(in);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) sum[i] += more[i];
}

/// Which bytes move in one measured step. `stream`: many messages one way, in equal shares over the lanes,
/// then one without bytes back on each. `round_trip`: there, then back.
enum class Step : int { exchange, exchange_reduce, one_way, stream, round_trip };

/// What is measured; both ends know it.
struct Load {
  Step step{};
  std::size_t bytes = 0;
  Lane lanes = 1;
  int in_flight = 1;  ///< messages of a stream that are under way on each lane

  /// Of both directions, but for one_way, stream and round_trip.
  [[nodiscard]] int messages() const {
    if (step == Step::stream) return in_flight == 1 ? 32 : 4 * in_flight;
    return step == Step::one_way || step == Step::round_trip ? 1 : 2;
  }
};

using Links = std::vector<std::unique_ptr<framed::FramedLink>>;

/// So many messages one way, one after the other, from and to that part of the windows.
Task<> one_by_one(Link& link, int messages, std::size_t bytes, int part, bool is_first) {
  const std::size_t at = static_cast<std::size_t>(part) * bytes;
  const Slice from(WindowId::send, at, bytes);
  const Slice to(WindowId::recv, at, bytes);
  for (int i = 0; i < messages; ++i) {
    if (is_first)
      co_await link.send(from);
    else
      co_await link.recv(to);
  }
}

/// So many messages one way, of which so many are under way, and that they have come.
Task<> one_way(Link& link, int messages, int in_flight, std::size_t bytes, bool is_first) {
  if (in_flight == 1) {
    co_await one_by_one(link, messages, bytes, 0, is_first);
  } else {
    TaskScope window;
    for (int i = 0; i < in_flight; ++i)
      window.spawn(one_by_one(link, messages / in_flight, bytes, i, is_first));
    co_await window.join();
  }
  if (is_first)
    co_await link.recv(in(0));
  else
    co_await link.send(out(0));
}

Task<> exchange(const Links& links, Load load, bool is_first) {
  Link& link = *links.front();
  const std::size_t bytes = load.bytes;
  if (load.step == Step::round_trip) {
    if (is_first) co_await link.send(out(bytes));
    co_await link.recv(in(bytes));
    if (!is_first) co_await link.send(out(bytes));
  } else if (load.step == Step::exchange) {
    co_await when_all(send(link, out(bytes)), recv(link, in(bytes)));
  } else if (load.step == Step::exchange_reduce) {
    const Reducer reducer{.fold = add_floats, .element_bytes = sizeof(float)};
    co_await when_all(send(link, out(bytes)), recv_reduce(link, in(bytes), reducer));
  } else if (links.size() == 1) {
    co_await one_way(link, load.messages(), load.in_flight, bytes, is_first);
  } else {
    const int share = load.messages() / static_cast<int>(links.size());
    TaskScope lanes;
    for (const auto& lane : links) lanes.spawn(one_way(*lane, share, load.in_flight, bytes, is_first));
    co_await lanes.join();
  }
}

/// Each rank on a core of its own, if there are that many.
void bind(Rank self) {
  static const std::vector<unsigned> processors = affinity::usable_processors();
  affinity::bind_thread(processors[self % processors.size()]);
}

/// What a link runs on: a connection over TCP, or what was agreed on over one.
class TcpPath {
 public:
  TcpPath(std::span<std::byte>, Rank) {}
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> open(Engine&, Socket socket) {
    co_return std::make_unique<tcp::SocketStream>(std::move(socket));
  }
  void start(TaskScope&, Engine&) {}
};

class VerbsPath {
 public:
  /// Of this memory nothing is copied: its owner declares it.
  VerbsPath(std::span<std::byte> memory, Rank peer)
      : device_(verbs::open_device_of_this_host()), peer_(peer) {
    if (!memory.empty()) device_->regions().declare(memory);
  }
  [[nodiscard]] Task<std::unique_ptr<framed::ByteStream>> open(Engine& engine, Socket socket) {
    auto stream = std::make_unique<verbs::VerbsStream>(engine, *device_, peer_);
    co_await verbs::agree(*stream, socket);
    co_return stream;
  }
  void start(TaskScope& services, Engine& engine) { services.spawn(device_->watch_completions(engine)); }

 private:
  const std::unique_ptr<verbs::Device> device_;
  const Rank peer_;
};

/// One rank: its engine, its links, one for each lane, and what serves them while a task runs.
template <class AnyPath>
class Side {
 public:
  template <class Connect>
  Side(Rank self, Lane lanes, Connect& connect) : path_(host_.memory(), 1 - self) {
    bind(self);
    auto open = [&]() -> Task<std::unique_ptr<framed::ByteStream>> {
      Socket socket = co_await connect(engine_);
      co_return co_await path_.open(engine_, std::move(socket));
    };
    for (Lane lane = 0; lane < lanes; ++lane)
      links_.push_back(std::make_unique<framed::FramedLink>(engine_, engine_.run(open()), host_, self,
                                                            1 - self, lane, "bench"));
  }

  /// Runs body(links, host) with the links served.
  template <class Body>
  void run(Body& body) {
    auto whole = [&]() -> Task<> {
      TaskScope services;
      TaskScope watches;
      path_.start(watches, engine_);
      for (const auto& link : links_) services.spawn(link->serve());
      co_await body(links_, host_);
      for (const auto& link : links_) co_await link->until_sent();
      for (const auto& link : links_) link->shutdown();
      co_await services.join();
      watches.cancel();
      co_await watches.join();
    };
    engine_.run(whole());
  }

 private:
  Engine engine_;
  BenchHost host_;
  AnyPath path_;
  Links links_;
};

/// Connects the first rank with another one, which it starts.
class Meeting {
 public:
  ~Meeting() {
    if (peer_.joinable()) peer_.join();
  }
  /// `serve(address)`: the other rank, in a thread of its own, which is started once.
  template <class Serve>
  [[nodiscard]] Task<Socket> accept(Engine& engine, Serve serve) {
    if (!listener_) {
      listener_.emplace(engine, Address::parse("127.0.0.1:0"));
      peer_ = std::thread(serve, listener_->local_address());
    }
    co_return co_await listener_->accept();
  }
  /// Before its engine ends.
  void close() { listener_.reset(); }

 private:
  std::optional<Listener> listener_;
  std::thread peer_;
};

/// How long steps took.
class Times {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Times(benchmark::State& state) : state_(state) {}

  void add(Clock::time_point start) {
    const std::chrono::duration<double> took = Clock::now() - start;
    state_.SetIterationTime(took.count());
    times_us_.push_back(took.count() * 1e6);
  }
  /// `bytes`: that moved in a step.
  void report(double bytes) {
    std::sort(times_us_.begin(), times_us_.end());
    const double median_us = times_us_[times_us_.size() / 2];
    state_.counters["min_us"] = times_us_.front();
    state_.counters["p10_us"] = times_us_[times_us_.size() / 10];
    state_.counters["median_us"] = median_us;
    state_.counters["GB/s"] = bytes / median_us / 1e3;
  }

 private:
  benchmark::State& state_;
  std::vector<double> times_us_;
};

/// The other rank: does a step whenever it is told to go on.
template <class AnyPath>
void serve_peer(Address address, Load load) {
  auto connect = [&](Engine& engine) { return Socket::connect(engine, address); };
  Side<AnyPath> side(1, load.lanes, connect);
  auto body = [&](const Links& links, BenchHost& host) -> Task<> {
    for (;;) {
      co_await exchange(links, load, false);
      if (host.received() != std::byte{0}) break;
    }
  };
  side.run(body);
}

template <class AnyPath>
void link(benchmark::State& state) {
  const Load load{.step = static_cast<Step>(state.range(0)),
                  .bytes = static_cast<std::size_t>(state.range(1)),
                  .lanes = static_cast<Lane>(state.range(2)),
                  .in_flight = static_cast<int>(state.range(3))};
  Meeting meeting;
  auto accept = [&](Engine& engine) {
    return meeting.accept(engine, [load](Address address) { serve_peer<AnyPath>(address, load); });
  };
  Side<AnyPath> side(0, load.lanes, accept);
  meeting.close();
  Times times(state);
  auto body = [&](const Links& links, BenchHost& host) -> Task<> {
    for ([[maybe_unused]] auto iteration : state) {
      const auto start = Times::Clock::now();
      co_await exchange(links, load, true);
      times.add(start);
    }
    host.first_byte() = std::byte{1};  // the last one
    host.is_over = true;
    co_await exchange(links, load, true);
  };
  side.run(body);
  times.report(load.messages() * static_cast<double>(load.bytes));
}

/// One end of a stream, with nothing on it.
template <class AnyPath>
struct StreamEnd {
  template <class Connect>
  StreamEnd(Rank self, Connect& connect) : path({}, 1 - self) {
    bind(self);
    auto open = [&]() -> Task<> {
      Socket socket = co_await connect(engine);
      stream = co_await path.open(engine, std::move(socket));
    };
    engine.run(open());
  }
  /// All of it, as fast as the stream takes or brings it.
  void send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) bytes = bytes.subspan(moved(stream->try_send_some(bytes, {})));
  }
  void receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) bytes = bytes.subspan(moved(stream->try_receive_some(bytes)));
  }

  Engine engine;
  AnyPath path;
  std::unique_ptr<framed::ByteStream> stream;

 private:
  static std::size_t moved(int result) {
    if (result > 0) return static_cast<std::size_t>(result);
    if (result == -EAGAIN) return 0;
    std::fprintf(stderr, "the stream ended: %d\n", result);
    std::abort();
  }
};

/// Until the first byte says that it was the last time.
template <class AnyPath>
void answer(Address address, std::size_t bytes) {
  auto connect = [&](Engine& engine) { return Socket::connect(engine, address); };
  StreamEnd<AnyPath> end(1, connect);
  std::vector<std::byte> block(bytes);
  while (block[0] == std::byte{0}) {
    end.receive(block);
    end.send(block);
  }
}

/// So many bytes there and back, by who does nothing else, as perftest's programs measure: no frame, no
/// coroutine.
template <class AnyPath>
void stream_round_trip(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Meeting meeting;
  auto accept = [&](Engine& engine) {
    return meeting.accept(engine, [bytes](Address address) { answer<AnyPath>(address, bytes); });
  };
  StreamEnd<AnyPath> end(0, accept);
  meeting.close();
  std::vector<std::byte> block(bytes);
  Times times(state);
  for ([[maybe_unused]] auto iteration : state) {
    const auto start = Times::Clock::now();
    end.send(block);
    end.receive(block);
    times.add(start);
  }
  block[0] = std::byte{1};
  end.send(block);
  end.receive(block);
  times.report(static_cast<double>(bytes));
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"step", "bytes", "lanes", "in_flight"})->UseManualTime();
  for (const std::int64_t bytes : {8, 4096, 32768, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20}) {
    for (const Step step :
         {Step::exchange, Step::exchange_reduce, Step::one_way, Step::stream, Step::round_trip})
      bench->Args({static_cast<std::int64_t>(step), bytes, 1, 1});
    constexpr auto kStream = static_cast<std::int64_t>(Step::stream);
    for (const int lanes : {4, 16}) bench->Args({kStream, bytes, lanes, 1});
    for (const int in_flight : {2, 4, 16, 128})
      if (static_cast<std::size_t>(bytes * in_flight) <= kWindowBytes)
        bench->Args({kStream, bytes, 1, in_flight});
  }
}

void tcp_link(benchmark::State& state) { link<TcpPath>(state); }
BENCHMARK(tcp_link)->Apply(sizes);

/// Whether there is a device; else the benchmark is skipped.
bool has_device(benchmark::State& state) {
  const verbs::Choice& choice = verbs::port_of_this_host();
  if (!choice.port) state.SkipWithError(choice.why_not.c_str());
  return choice.port.has_value();
}

void verbs_link(benchmark::State& state) {
  if (has_device(state)) link<VerbsPath>(state);
}
BENCHMARK(verbs_link)->Apply(sizes);

void stream_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgName("bytes")->UseManualTime()->Arg(8)->Arg(4096);
}

void tcp_stream(benchmark::State& state) { stream_round_trip<TcpPath>(state); }
BENCHMARK(tcp_stream)->Apply(stream_sizes);

void verbs_stream(benchmark::State& state) {
  if (has_device(state)) stream_round_trip<VerbsPath>(state);
}
BENCHMARK(verbs_stream)->Apply(stream_sizes);

}  // namespace
}  // namespace cohort
