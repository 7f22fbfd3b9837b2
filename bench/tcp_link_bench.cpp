// SPDX-License-Identifier: Apache-2.0
//
// Two ranks over TCP loopback, each an engine on a thread of its own: what one exchange costs through a link.
#include <cohort/engine/engine.h>
#include <cohort/engine/system/affinity.h>
#include <cohort/engine/when_all.h>
#include <cohort/net/tcp/tcp_link.h>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace cohort {
namespace {

constexpr std::size_t kWindowBytes = std::size_t{64} << 20;
constexpr std::size_t kControlBytes = 8;

/// One collective that never ends.
class BenchHost final : public LinkHost {
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

/// Which bytes move in one measured step.
enum class Step : int { exchange, exchange_reduce, one_way };

Task<> exchange(Link& link, Step step, std::size_t bytes, bool is_first) {
  if (step == Step::exchange) {
    co_await when_all(send(link, out(bytes)), recv(link, in(bytes)));
  } else if (step == Step::exchange_reduce) {
    const Reducer reducer{.fold = add_floats, .element_bytes = sizeof(float)};
    co_await when_all(send(link, out(bytes)), recv_reduce(link, in(bytes), reducer));
  } else if (is_first) {
    co_await link.send(out(bytes));
    co_await link.recv(in(0));
  } else {
    co_await link.recv(in(bytes));
    co_await link.send(out(0));
  }
}

/// Each rank on a core of its own, if there are that many.
void bind(Rank self) {
  static const std::vector<unsigned> processors = affinity::usable_processors();
  affinity::bind_thread(processors[self % processors.size()]);
}

/// One rank: its engine, its link, and what serves it while a task runs.
class Side {
 public:
  template <class Connect>
  Side(Rank self, Connect& connect) {
    bind(self);
    Socket socket = engine_.run(connect(engine_));
    link_.emplace(engine_, std::move(socket), host_, self, 1 - self, Lane{0});
  }

  /// Runs body(link, host) with the link served.
  template <class Body>
  void run(Body& body) {
    auto whole = [&]() -> Task<> {
      TaskScope services;
      services.spawn(link_->serve());
      co_await body(*link_, host_);
      link_->shutdown();
      co_await services.join();
    };
    engine_.run(whole());
  }

 private:
  Engine engine_;
  BenchHost host_;
  std::optional<tcp::TcpLink> link_;
};

/// The other rank: does a step whenever it is told to go on.
void serve_peer(Address address, Step step, std::size_t bytes) {
  auto connect = [&](Engine& engine) { return Socket::connect(engine, address); };
  Side side(1, connect);
  auto body = [&](Link& link, BenchHost& host) -> Task<> {
    for (;;) {
      co_await exchange(link, step, bytes, false);
      if (host.received() != std::byte{0}) break;
    }
  };
  side.run(body);
}

void tcp_link(benchmark::State& state) {
  const auto step = static_cast<Step>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  std::thread peer;
  auto accept = [&](Engine& engine) -> Task<Socket> {
    Listener listener(engine, Address::parse("127.0.0.1:0"));
    peer = std::thread(serve_peer, listener.local_address(), step, bytes);
    co_return co_await listener.accept();
  };
  Side side(0, accept);
  std::vector<double> times_us;
  auto body = [&](Link& link, BenchHost& host) -> Task<> {
    using Clock = std::chrono::steady_clock;
    for ([[maybe_unused]] auto iteration : state) {
      const auto start = Clock::now();
      co_await exchange(link, step, bytes, true);
      const std::chrono::duration<double> took = Clock::now() - start;
      state.SetIterationTime(took.count());
      times_us.push_back(took.count() * 1e6);
    }
    host.first_byte() = std::byte{1};  // the last one
    host.is_over = true;
    co_await exchange(link, step, bytes, true);
  };
  side.run(body);
  peer.join();
  std::sort(times_us.begin(), times_us.end());
  const double median_us = times_us[times_us.size() / 2];
  const double directions = step == Step::one_way ? 1 : 2;
  state.counters["min_us"] = times_us.front();
  state.counters["median_us"] = median_us;
  state.counters["GB/s"] = directions * static_cast<double>(bytes) / median_us / 1e3;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"step", "bytes"})->UseManualTime();
  for (const std::int64_t bytes : {8, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
    for (const Step step : {Step::exchange, Step::exchange_reduce, Step::one_way})
      bench->Args({static_cast<std::int64_t>(step), bytes});
}
BENCHMARK(tcp_link)->Apply(sizes);

}  // namespace
}  // namespace cohort
