// SPDX-License-Identifier: Apache-2.0
// What README.md and docs/use/guide.md show is compiled here, and run: text_test.cpp holds text and source
// equal.
#include <cohort/cohort.h>
#include <cohort/engine/system/signals.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace cohort::guide_test {
namespace {

using namespace std::chrono_literals;

/// Ranks as threads, of shared memory and of TCP.
void on_ranks(Rank ranks, const RankFunction& body) {
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    test::run_ranks(ranks, body, std::move(options));
  }
}

// --- buffers

struct Settings {
  double rate = 0;
  std::int32_t batch = 0;
  bool is_verbose = false;
};

Task<> show_buffers(Communicator& comm) {
  std::vector<float> grad(1000, 1.0f);
  co_await comm.all_reduce(grad, ReduceOp::avg);

  const std::array<std::int64_t, 2> mine = {comm.rank(), 42};
  std::vector<std::int64_t> all(mine.size() * comm.size());
  co_await comm.all_gather(mine, all);

  Settings settings;
  if (comm.rank() == 0) settings = {.rate = 0.1, .batch = 32, .is_verbose = true};
  co_await comm.broadcast_bytes(settings, 0);
  EXPECT_TRUE(settings.is_verbose);
  EXPECT_EQ(all[2 * (comm.size() - 1)], static_cast<std::int64_t>(comm.size() - 1));
}

Task<> show_values(Communicator& comm) {
  const auto n = static_cast<std::size_t>(comm.rank());
  double error = 0.5;
  const double worst = co_await comm.all_reduce(error, ReduceOp::max);
  const std::int64_t seed = co_await comm.broadcast(std::int64_t(42), 0);
  const std::size_t first = co_await comm.exclusive_scan(n, ReduceOp::sum);
  EXPECT_EQ(worst, 0.5);
  EXPECT_EQ(seed, 42);
  EXPECT_EQ(first, n / 2);
}

Task<> show_several_tensors(Communicator& comm) {
  std::vector<std::vector<float>> layers = {std::vector<float>(64, 1.0f), std::vector<float>(1 << 20, 1.0f)};
  co_await comm.all_reduce(layers, ReduceOp::avg);

  const std::array<std::span<float>, 2> biases = {layers[0], std::span(layers[1]).first(64)};
  co_await comm.broadcast(biases, 0);
  EXPECT_EQ(layers[1].back(), 1.0f);
}

Task<> show_shared_buffers(Communicator& comm) {
  SharedBuffer<float> weights = comm.allocate<float>(1 << 20);
  std::ranges::fill(weights, 1.0f);
  co_await comm.all_reduce(weights, ReduceOp::sum);
  EXPECT_EQ(weights[0], static_cast<float>(comm.size()));
}

TEST(Guide, buffers) { on_ranks(2, show_buffers); }
TEST(Guide, values) { on_ranks(2, show_values); }
TEST(Guide, several_tensors) { on_ranks(2, show_several_tensors); }
TEST(Guide, shared_buffers) { on_ranks(2, show_shared_buffers); }

// --- several calls at once

Task<> show_several(Communicator& comm) {
  std::vector<float> grad(100, 1.0f);
  std::array<double, 1> loss = {0.5};
  co_await when_all(comm.all_reduce(grad, ReduceOp::sum), comm.all_reduce(loss, ReduceOp::avg));
  EXPECT_EQ(loss[0], 0.5);
}

TEST(Guide, several_calls_at_once) { on_ranks(2, show_several); }

// --- groups

Task<> show_groups(Communicator& comm) {
  const Rank columns = 2;
  std::vector<float> activations(100, 1.0f);
  std::vector<float> grad(100, 1.0f);
  std::optional<Communicator> row = co_await comm.split(static_cast<int>(comm.rank() / columns));
  std::optional<Communicator> column = co_await comm.split(static_cast<int>(comm.rank() % columns));
  co_await when_all(row->all_reduce(activations, ReduceOp::sum), column->all_reduce(grad, ReduceOp::avg));
  EXPECT_EQ(activations[0], 2.0f);
  EXPECT_EQ(grad[0], 1.0f);
}

Task<> show_pair(Communicator& comm) {
  if (comm.rank() < 2) {
    std::vector<Rank> ranks = {1, 0};
    Communicator pair = co_await comm.group(ranks, "pair");
    co_await pair.barrier();
  }
}

TEST(Guide, groups) { on_ranks(4, show_groups); }
TEST(Guide, groups_of_named_ranks) { on_ranks(3, show_pair); }

// --- messages

Task<> show_messages(Communicator& comm) {
  const std::vector<float> border(100, static_cast<float>(comm.rank()));
  std::vector<float> ghost(100);
  const Rank right = (comm.rank() + 1) % comm.size();
  const Rank left = (comm.rank() + comm.size() - 1) % comm.size();
  co_await when_all(comm.send(border, right, 7), comm.recv(ghost, left, 7));
  EXPECT_EQ(ghost[99], static_cast<float>(left));
}

TEST(Guide, messages) { on_ranks(3, show_messages); }

// --- streams

using Layers = std::vector<std::vector<float>>;

void compute_gradient(std::vector<float>& layer) { std::ranges::fill(layer, 2.0f); }

Task<> backward(Communicator& comm, Layers& gradients) {
  Stream compute(comm.engine(), "compute");
  Stream communication(comm.engine(), "communication");
  std::vector<Event> ready(gradients.size());
  for (std::size_t i = gradients.size(); i-- > 0;) {
    compute.compute([&gradients, i] { compute_gradient(gradients[i]); });
    compute.record(ready[i]);
    communication.wait(ready[i]);
    communication.enqueue(comm.all_reduce(gradients[i], ReduceOp::avg));
  }
  auto finish = [](Stream& stream) -> Task<> { co_await stream.synchronize(); };
  co_await when_all(finish(compute), finish(communication));
}

Task<> show_streams(Communicator& comm) {
  Layers gradients(4, std::vector<float>(5000));
  co_await backward(comm, gradients);
  for (const std::vector<float>& layer : gradients) EXPECT_EQ(layer[4999], 2.0f);
}

TEST(Guide, streams_and_events) { on_ranks(2, show_streams); }

// --- scopes

Task<> report(Engine& engine, const int& epoch) {
  for (;;) {
    co_await engine.sleep_for(1s);
    fmt::print("in epoch {}\n", epoch);
  }
}

Task<> train(Communicator& comm, int& epoch) {
  std::vector<float> grad(100, 1.0f);
  for (epoch = 0; epoch < 10; ++epoch) co_await comm.all_reduce(grad, ReduceOp::avg);
}

Task<> train_and_report(Communicator& comm) {
  int epoch = 0;
  TaskScope beside;
  beside.spawn(report(comm.engine(), epoch));
  std::exception_ptr failure;
  try {
    co_await train(comm, epoch);
  } catch (...) {
    failure = std::current_exception();
  }
  beside.cancel();
  co_await beside.join();
  if (failure) std::rethrow_exception(failure);
}

TEST(Guide, scopes) { on_ranks(2, train_and_report); }

// --- deadlines

Task<> show_deadlines(Communicator& comm) {
  int epoch = 0;
  std::vector<float> grad(100, 1.0f);
  co_await comm.all_reduce(grad, ReduceOp::sum).with_deadline(30s);
  co_await with_deadline(5min, train(comm, epoch));
}

TEST(Guide, deadlines) { on_ranks(2, show_deadlines); }

// --- determinism

Task<> show_determinism(Communicator& comm) {
  std::vector<float> grad(100, 1.0f);
  co_await comm.all_reduce(grad, ReduceOp::sum).with_determinism(Determinism::D3);
  EXPECT_EQ(grad[0], 2.0f);
}

TEST(Guide, determinism) {
  on_ranks(2, show_determinism);
  CommunicatorOptions options = CommunicatorOptions::from_environment();
  options.determinism = Determinism::D3;
  test::run_ranks(2, show_determinism, std::move(options));
}

// --- cancelling

Task<> sum_or_give_up(Communicator& comm, std::vector<float>& data, Duration patience) {
  TaskScope scope;
  scope.spawn(comm.all_reduce(data, ReduceOp::sum));
  co_await comm.engine().sleep_for(patience);
  scope.cancel();
  co_await scope.join();  // returns, whether the sum is there or not
  if (comm.is_failed()) throw Error(comm.failure());
}

Task<> show_cancelling(Communicator& comm) {
  std::vector<float> data(100, 1.0f);
  if (comm.rank() == 0) co_await sum_or_give_up(comm, data, 10ms);
  while (!comm.is_failed()) co_await comm.engine().sleep_for(1ms);
  throw Error(comm.failure());
}

TEST(Guide, cancelling) {
  const std::vector<test::Outcome> outcomes = test::outcomes_of_ranks_in_world(2, show_cancelling);
  ASSERT_TRUE(outcomes[0].error && outcomes[1].error);
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error->kind(), ErrorKind::PeerAborted) << outcome.error->what();
    EXPECT_EQ(outcome.error->culprit(), 0U);
  }
}

// --- sockets and signals

Task<> echo(Socket client) {
  std::array<std::byte, 256> buffer{};
  for (;;) {
    const int count = co_await client.receive_some(buffer);
    if (count <= 0) co_return;
    co_await client.send(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
}

Task<> accept_clients(Listener& listener, TaskScope& clients) {
  for (;;) {
    Socket client = co_await listener.accept();
    clients.spawn(echo(std::move(client)));
  }
}

Task<> serve_until_told(Engine& engine, Listener& listener) {
  Signals signals(engine, {ProcessSignal::terminate, ProcessSignal::interrupt});
  TaskScope clients;
  clients.spawn(accept_clients(listener, clients));
  const ProcessSignal signal = co_await signals.next();
  fmt::print("{}: closing\n", signal_name(signal));
  clients.cancel();
  co_await clients.join();
}

Task<bool> is_echoed(Engine& engine, Address service) {
  Socket socket = co_await Socket::connect(engine, service);
  const std::array<std::byte, 2> sent = {std::byte{1}, std::byte{2}};
  std::array<std::byte, 2> got{};
  co_await socket.send(sent);
  const bool came = co_await socket.receive(got);  // all of it; false: the other end is done
  const bool is_same = came && got == sent;
  co_return is_same;
}

Task<bool> serve_and_ask(Engine& engine) {
  Listener listener(engine, Address::parse("127.0.0.1:0"));  // a free port; "0.0.0.0:80", "unix:NAME", ...
  const Address service = listener.local_address();
  TaskScope beside;
  beside.spawn(serve_until_told(engine, listener));
  const bool was_echoed = co_await is_echoed(engine, service);
  ::raise(SIGTERM);
  co_await beside.join();
  co_return was_echoed;
}

TEST(Guide, sockets_and_signals) {
  Engine engine;
  EXPECT_TRUE(engine.run(serve_and_ask(engine)));
}

// --- blocking calls

int blocking_program() {
  Engine engine;
  Communicator comm = engine.run(Communicator::join(engine, CommunicatorOptions::from_environment()));
  std::vector<float> loss(1, 0.5f);
  engine.run(Task<>(comm.all_reduce(loss, ReduceOp::avg)));
  engine.run(comm.close());
  return 0;
}

TEST(Guide, blocking_calls) { EXPECT_EQ(blocking_program(), 0); }

// --- threads

double slow_function(int argument) { return std::sqrt(argument); }

Task<double> compute_elsewhere(Engine& engine) {
  const auto work = [] { return slow_function(16); };
  const double result = co_await engine.offload(work);
  co_return result;
}

Task<> wait_for_another_thread(Engine& engine) {
  Notify arrived;
  std::thread thread([&] { engine.post([&arrived] { arrived.post(); }); });
  co_await arrived.wait();
  thread.join();
}

int threads_as_ranks() {
  return run_threads(4, [](Communicator& comm) -> Task<> { co_await comm.barrier(); });
}

TEST(Guide, threads) {
  Engine engine;
  EXPECT_EQ(engine.run(compute_elsewhere(engine)), 4.0);
  engine.run(wait_for_another_thread(engine));
  EXPECT_EQ(threads_as_ranks(), 0);
}

// --- a foreign loop

int run_in_poll_loop(Engine& engine, Task<> task, int other_descriptor) {
  SteppedRun run(engine, std::move(task));
  int others = 0;
  while (!run.is_over()) {
    std::array<pollfd, 2> ready = {pollfd{run.descriptor(), POLLIN, 0}, pollfd{other_descriptor, POLLIN, 0}};
    poll(ready.data(), ready.size(), run.timeout_ms());
    if (ready[1].revents != 0) ++others;  // whatever the program does with its own descriptors
    run.step();
  }
  run.take();
  return others;
}

TEST(Guide, foreign_loop) {
  Engine engine;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  auto sleep = [&]() -> Task<> { co_await engine.sleep_for(1ms); };
  EXPECT_GT(run_in_poll_loop(engine, sleep(), ends[0]), 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

// --- the way back

Task<> work(Communicator& comm, int attempt);

Task<> work_with_retries(Engine& engine, CommunicatorOptions options) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    options.join.name = fmt::format("training-{}", attempt);  // the same on all ranks
    Communicator comm = co_await Communicator::join(engine, options);
    std::optional<Error> failure;
    try {
      co_await work(comm, attempt);
    } catch (const Error& error) {
      failure = error;
      comm.abort(error.what());
    }
    co_await comm.close();
    if (!failure) co_return;
    fmt::print(stderr, "attempt {}: {}\n", attempt, failure->what());
  }
}

Task<> work(Communicator& comm, int attempt) {
  std::vector<float> data(100, 1.0f);
  co_await comm.barrier();
  if (attempt == 0 && comm.rank() == 1) throw Error(ErrorKind::Internal, "a disk was full");
  co_await comm.all_reduce(data, ReduceOp::sum);
  EXPECT_EQ(data[0], 2.0f);
  EXPECT_EQ(attempt, 1);
}

TEST(Guide, the_way_back) {
  std::vector<std::thread> ranks;
  for (const Rank rank : {0U, 1U})
    ranks.emplace_back([rank] {
      CommunicatorOptions options;
      options.join.rank = rank;
      options.join.size = 2;
      options.join.address = fmt::format("unix:cohort-guide-{}", ::getpid());
      Engine engine;
      engine.run(work_with_retries(engine, options));
    });
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace cohort::guide_test
