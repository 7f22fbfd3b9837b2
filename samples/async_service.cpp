// SPDX-License-Identifier: Apache-2.0
// A service that answers requests on loopback while it takes part in collectives, on one engine and one
// thread.
//   build/release/bin/cohort run -n 2 -- build/release/bin/async_service --seconds 2
//
// Each rank serves lines of text: "stats" answers with how far it has come; anything else is echoed. A client
// coroutine beside it asks all the time and reports how long the answers took.
#include <cohort/cohort.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

constexpr std::chrono::milliseconds kPause{1};

struct State {
  cohort::Rank rank = 0;
  std::uint64_t steps = 0;
  double model_value = 0;
  std::vector<double> answer_times_us;
  std::vector<double> delays_us;  // of a timer
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Lines from a socket, with one receive for as many bytes as are there.
class Lines {
 public:
  explicit Lines(cohort::Socket& socket) : socket_(socket) {}

  /// One line without its end, or nothing when the other end is done. Lines are short: longer ones end the
  /// connection.
  cohort::Task<std::string> next() {
    while (unread_.size() < kLongest) {
      const std::size_t end = unread_.find('\n');
      if (end != std::string::npos) {
        const std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        co_return line;
      }
      const auto into = std::as_writable_bytes(std::span(chunk_));
      const int came = co_await socket_.receive_some(into);
      if (came <= 0) co_return std::string();
      unread_.append(chunk_.data(), static_cast<std::size_t>(came));
    }
    co_return std::string();
  }

 private:
  static constexpr std::size_t kLongest = 256;
  cohort::Socket& socket_;
  std::string unread_;
  std::array<char, kLongest> chunk_{};
};

std::string answer(const State& state, const std::string& request) {
  if (request != "stats") return fmt::format("echo {}\n", request);
  return fmt::format("rank {} has done {} steps, value {}\n", state.rank, state.steps, state.model_value);
}

cohort::Task<> serve_client(cohort::Socket socket, const State& state) {
  Lines lines(socket);
  for (;;) {
    const std::string request = co_await lines.next();
    if (request.empty()) co_return;
    const std::string reply = answer(state, request);
    co_await socket.send(bytes_of(reply));
  }
}

cohort::Task<> serve(cohort::Listener& listener, cohort::TaskScope& clients, const State& state) {
  for (;;) {
    cohort::Socket socket = co_await listener.accept();
    clients.spawn(serve_client(std::move(socket), state));
  }
}

/// Asks every millisecond; what it measures is what a user of the service sees.
cohort::Task<> ask(cohort::Engine& engine, cohort::Address service, State& state) {
  cohort::Socket socket = co_await cohort::Socket::connect(engine, service);
  Lines lines(socket);
  const std::string request = "stats\n";
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    co_await socket.send(bytes_of(request));
    const std::string reply = co_await lines.next();
    if (reply.empty()) co_return;
    const auto end = std::chrono::steady_clock::now();
    co_await engine.sleep_for(kPause);
    state.answer_times_us.push_back(Microseconds(end - begin).count());
    state.delays_us.push_back(Microseconds(std::chrono::steady_clock::now() - end - kPause).count());
  }
}

/// The work of the job: every rank adds its part, all see the sum; rank 0 decides when it is enough.
cohort::Task<> train(cohort::Communicator& comm, State& state, double seconds) {
  std::vector<double> gradient(64 * 1024);
  const auto begin = std::chrono::steady_clock::now();
  std::array<std::int32_t, 1> goes_on = {1};
  while (goes_on[0] != 0) {
    std::fill(gradient.begin(), gradient.end(), 1.0);
    co_await comm.all_reduce(std::span(gradient), cohort::ReduceOp::sum);
    state.model_value += gradient[0];
    ++state.steps;
    goes_on[0] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds ? 1 : 0;
    co_await comm.broadcast(std::span<std::int32_t>(goes_on), 0);
  }
}

/// Of values in any order; 0 if there are none.
double percentile(std::vector<double> values, std::size_t percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, values.size() * percent / 100)];
}

void report(const State& state) {
  const std::vector<double>& answers = state.answer_times_us;
  fmt::print(
      "rank {}: {} collective steps while answering {} requests; answers took {:.0f} us in the median, "
      "{:.0f} us at p99; timers came {:.0f} us late in the median, {:.0f} us at p99\n",
      state.rank, state.steps, answers.size(), percentile(answers, 50), percentile(answers, 99),
      percentile(state.delays_us, 50), percentile(state.delays_us, 99));
}

cohort::Task<> serve_and_train(cohort::Communicator& comm, double seconds) {
  State state;
  state.rank = comm.rank();
  cohort::Listener listener(comm.engine(), cohort::Address::parse("127.0.0.1:0"));
  const cohort::Address address = listener.local_address();
  fmt::print("rank {} serves at {}\n", comm.rank(), address.to_string());
  cohort::TaskScope service;
  cohort::TaskScope clients(&service.cancel_scope());
  service.spawn(serve(listener, clients, state));
  service.spawn(ask(comm.engine(), address, state));
  std::exception_ptr failure;
  try {
    co_await train(comm, state, seconds);
  } catch (...) {
    failure = std::current_exception();
  }
  service.cancel();
  co_await clients.join();
  co_await service.join();
  if (failure) std::rethrow_exception(failure);
  report(state);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Serves requests and takes part in collectives on one engine");
  double seconds = 2;
  app.add_option("--seconds", seconds, "How long to work")->check(CLI::Range(0.0, 3600.0));
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // where it serves is told at once, through a pipe too
  return cohort::run([seconds](cohort::Communicator& comm) { return serve_and_train(comm, seconds); });
}
