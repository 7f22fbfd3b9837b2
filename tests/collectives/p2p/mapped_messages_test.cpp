// SPDX-License-Identifier: Apache-2.0
// Messages between buffers that both ends map: large ones are copied by both.
#include <cohort/cohort.h>
#include <cohort/net/auth/identity.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace cohort::test::mapped_messages_test {
namespace {

using cohort::test::error_of;
using namespace std::chrono_literals;

constexpr std::size_t kPageBytes = 4096;

/// No part of it is like another one that begins elsewhere.
void fill(std::span<std::uint8_t> data, unsigned seed) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>((i + seed) % 251);
}
bool is_filled(std::span<const std::uint8_t> data, unsigned seed) {
  for (std::size_t i = 0; i < data.size(); ++i)
    if (data[i] != static_cast<std::uint8_t>((i + seed) % 251)) return false;
  return true;
}

/// Two ranks that take each other for other processes: they reach what both map, and nothing else.
CommunicatorOptions isolated() {
  CommunicatorOptions options;
  options.is_isolated = true;
  return options;
}

/// Pages that nobody may touch once it has ended; the addresses stay taken.
class Pages : cohort::Immovable {
 public:
  explicit Pages(std::size_t bytes, bool is_populated = false) : bytes_(bytes) {
    memory_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | (is_populated ? MAP_POPULATE : 0), -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
    EXPECT_EQ(::madvise(memory_, bytes, MADV_NOHUGEPAGE), 0);
  }
  ~Pages() {
    ::mprotect(memory_, bytes_, PROT_NONE);
    ::madvise(memory_, bytes_, MADV_DONTNEED);
  }
  [[nodiscard]] std::span<std::uint8_t> span() { return {static_cast<std::uint8_t*>(memory_), bytes_}; }

 private:
  const std::size_t bytes_;
  void* memory_ = nullptr;
};

TEST(MappedMessages, of_sizes_around_those_that_both_ends_copy_arrive_as_they_were_sent) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr std::size_t kMost = 5'000'000;
    SharedBuffer<std::uint8_t> shared = comm.allocate<std::uint8_t>(kMost);
    const std::span<std::uint8_t> all = shared;
    const Rank other = 1 - comm.rank();
    unsigned seed = 0;
    for (const std::size_t size : {std::size_t{40'000}, std::size_t{65'536}, std::size_t{65'537},
                                   std::size_t{200'000}, std::size_t{1} << 20, kMost}) {
      const std::span<std::uint8_t> data = all.first(size);
      ++seed;
      if (comm.rank() == 0) {
        fill(data, seed);
        co_await comm.send(data, other);
        std::ranges::fill(data, std::uint8_t{0});
      }
      co_await comm.recv(data, other);
      EXPECT_TRUE(is_filled(data, seed)) << size;
      if (comm.rank() == 1) co_await comm.send(data, other);
    }
  };
  run_ranks(2, body, isolated());
}

TEST(MappedMessages, are_whole_when_they_are_received_whoever_copied_which_part) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr std::size_t kSize = std::size_t{2} << 20;
    std::vector<std::uint8_t> data(kSize);
    int torn = 0;
    for (int round = 1; round <= 300; ++round) {
      const auto value = static_cast<std::uint8_t>(round);
      if (comm.rank() == 0) {
        std::ranges::fill(data, value);
        co_await comm.send(data, 1);
      } else {
        co_await comm.recv(data, 0);
        // From behind: what was taken last is what might be missing.
        for (std::size_t left = kSize; left > 0; left -= 32 * 1024) torn += data[left - 1] != value;
      }
      co_await comm.barrier();
    }
    EXPECT_EQ(torn, 0);
  };
  run_ranks(2, body);
}

/// Pages that this thread was the first to write to.
long faults_of_thread() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_THREAD, &usage), 0);
  return usage.ru_minflt;
}

TEST(MappedMessages, are_copied_by_the_sender_too_where_a_core_is_free_for_it) {
  constexpr long kPagesOfAPart = (32 * 1024) / kPageBytes;
  std::atomic<bool> is_seen = false;
  bool is_oversubscribed = false;
  auto body = [&](Communicator& comm) -> Task<> {
    constexpr std::size_t kSize = std::size_t{4} << 20;
    std::vector<std::uint8_t> data(kSize, std::uint8_t{1});
    if (comm.rank() == 0) is_oversubscribed = comm.engine().is_oversubscribed();
    for (int round = 0; round < 500 && !is_seen; ++round) {
      Pages fresh(kSize);
      co_await comm.barrier();
      const long before = faults_of_thread();
      if (comm.rank() == 0) co_await comm.send(data, 1);
      if (comm.rank() == 1) co_await comm.recv(fresh.span(), 0);
      if (comm.rank() == 0 && faults_of_thread() - before >= kPagesOfAPart) is_seen = true;
      co_await comm.barrier();
    }
  };
  run_ranks(2, body);
  if (is_oversubscribed) GTEST_SKIP() << "no core for each of two ranks";
  EXPECT_TRUE(is_seen);
}

TEST(MappedMessages, in_both_directions_at_once_and_several_of_each_arrive_as_they_were_sent) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr std::size_t kSize = 700'000;
    constexpr unsigned kEach = 4;
    SharedBuffer<std::uint8_t> out = comm.allocate<std::uint8_t>(kEach * kSize);
    SharedBuffer<std::uint8_t> in = comm.allocate<std::uint8_t>(kEach * kSize);
    const auto nth = [](SharedBuffer<std::uint8_t>& of, unsigned i) {
      return std::span<std::uint8_t>(of).subspan(i * kSize, kSize);
    };
    const Rank other = 1 - comm.rank();
    for (unsigned round = 0; round < 5; ++round) {
      std::vector<Task<>> messages;
      for (unsigned i = 0; i < kEach; ++i) {
        fill(nth(out, i), comm.rank() + 10 * i + 100 * round);
        messages.push_back(comm.send(nth(out, i), other));
        messages.push_back(comm.recv(nth(in, i), other));
      }
      co_await when_all(messages);
      for (unsigned i = 0; i < kEach; ++i)
        EXPECT_TRUE(is_filled(nth(in, i), other + 10 * i + 100 * round)) << i;
    }
  };
  run_ranks(2, body, isolated());
}

TEST(MappedMessages, do_not_wait_for_a_sender_that_computes) {
  std::atomic<bool> has_come = false;
  auto body = [&has_come](Communicator& comm) -> Task<> {
    std::vector<std::uint8_t> data(1'000'000);
    if (comm.rank() == 1) {
      co_await comm.recv(data, 0);
      has_come = true;
      EXPECT_TRUE(is_filled(data, 3));
      co_return;
    }
    fill(data, 3);
    TaskScope scope;
    scope.spawn(comm.send(data, 1));
    co_await comm.engine().let_others_run();  // it is offered
    for (int ms = 0; ms < 20'000 && !has_come; ++ms) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(has_come);
    co_await scope.join();
  };
  run_ranks(2, body);
}

/// Messages of several MiB both ways until one rank gives up amid them. Its buffers, and the other one's, are
/// gone as soon as their calls are.
Task<> exchange_until_one_gives_up(Communicator& comm, Rank quitter, Duration quits_after, unsigned width) {
  constexpr std::size_t kSize = std::size_t{3} << 20;
  const Rank other = 1 - comm.rank();
  std::vector<std::unique_ptr<Pages>> pages;
  for (unsigned i = 0; i < 2 * width; ++i) pages.push_back(std::make_unique<Pages>(kSize, true));
  auto exchange = [&]() -> Task<> {
    for (;;) {
      std::vector<Task<>> messages;
      for (unsigned i = 0; i < width; ++i) {
        messages.push_back(comm.send(pages[i]->span(), other));
        messages.push_back(comm.recv(pages[width + i]->span(), other));
      }
      co_await when_all(messages);
    }
  };
  auto quit = [&]() -> Task<> {
    co_await comm.engine().sleep_for(quits_after);
    throw Error(ErrorKind::InvalidArgument, "enough");
  };
  co_await comm.barrier();
  std::vector<Task<>> both;
  both.push_back(exchange());
  if (comm.rank() == quitter) both.push_back(quit());
  auto together = [&]() -> Task<> { co_await when_all(both); };
  const auto error = co_await error_of(together());
  pages.clear();
  co_await comm.engine().sleep_for(2ms);  // whoever still touches them dies
  throw Error(*error);
}

TEST(MappedMessages, are_touched_by_nobody_once_either_end_has_given_up) {
  const std::uint64_t seed = random_incarnation();
  std::mt19937_64 random(seed);
  for (unsigned round = 0; round < 100; ++round) {
    const Rank quitter = round % 2;
    const std::chrono::microseconds quits_after(200 + random() % 6000);
    auto body = [&](Communicator& comm) -> Task<> {
      co_await exchange_until_one_gives_up(comm, quitter, quits_after, 1 + round / 2 % 3);
    };
    for (const Outcome& outcome : outcomes_of_ranks(2, body))
      EXPECT_TRUE(outcome.error) << "round " << round << " of seed " << seed;
  }
}

/// As long as a receiver needs for 64 MiB: some of these deadlines pass while it copies.
TEST(MappedMessages, whose_time_is_over_while_the_receiver_copies_blame_nobody) {
  bool is_oversubscribed = false;
  bool was_told = false;
  auto body = [&](Communicator& comm) -> Task<> {
    std::vector<std::uint8_t> data(std::size_t{64} << 20);
    co_await comm.barrier();
    if (comm.rank() == 0) is_oversubscribed = comm.engine().is_oversubscribed();
    if (comm.rank() == 1) co_await comm.recv(data, 0);
    if (comm.rank() == 0) co_await comm.send(data, 1).with_deadline(500us);
  };
  for (int attempt = 0; attempt < 20 && !was_told && !is_oversubscribed; ++attempt) {
    const std::optional<Error> error = outcomes_of_ranks(2, body)[0].error;
    const bool has_called =
        error && std::string(error->message()).find("has called it, too") != std::string::npos;
    was_told = has_called && !error->culprit();
  }
  if (is_oversubscribed) GTEST_SKIP() << "no core for each of two ranks";
  EXPECT_TRUE(was_told);
}

}  // namespace
}  // namespace cohort::test::mapped_messages_test
