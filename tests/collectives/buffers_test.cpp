// SPDX-License-Identifier: Apache-2.0
// What a collective takes as a buffer: any contiguous memory, and for moving any trivially copyable values.
#include <cohort/cohort.h>
#include <cohort/tests/support/ranks.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace cohort::buffers_test {
namespace {

void on_every_transport(const RankFunction& body) {
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    test::run_ranks_in_world(3, body, std::move(options));
  }
}

TEST(Buffers, vectors_arrays_spans_and_shared_ones_are_taken_as_they_are) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr std::size_t kCount = 4;
    const auto one = static_cast<float>(comm.rank() + 1);
    std::vector<float> vector(kCount, one);
    std::array<float, kCount> array{};
    const SharedBuffer<float> shared = comm.allocate<float>(kCount);
    float plain[kCount] = {};
    co_await comm.all_reduce(vector, ReduceOp::sum);
    EXPECT_EQ(vector[3], 6.0F);
    co_await comm.all_reduce(vector, array, ReduceOp::sum);
    EXPECT_EQ(array[3], 18.0F);
    co_await comm.all_reduce(array, shared, ReduceOp::max);
    EXPECT_EQ(shared[3], 18.0F);
    co_await comm.all_reduce(shared, plain, ReduceOp::sum);
    EXPECT_EQ(plain[3], 54.0F);
    co_await comm.all_reduce(std::span(plain), ReduceOp::max);
    co_await comm.broadcast(std::span(plain).first(2), 1);
    EXPECT_EQ(plain[3], 54.0F);
  };
  on_every_transport(body);
}

TEST(Buffers, of_peers_hold_whatever_can_be_moved_and_outlive_their_communicator_as_nothing) {
  struct Pair {
    double value;
    int index;
  };
  std::vector<SharedBuffer<Pair>> kept(3);
  std::vector<Registration> registered(3);
  std::vector<std::span<std::byte>> pages(3);
  constexpr std::size_t kPage = 4096;
  for (std::span<std::byte>& page : pages)
    page = {static_cast<std::byte*>(std::aligned_alloc(kPage, kPage)), kPage};
  auto body = [&](Communicator& comm) -> Task<> {
    const Rank rank = comm.rank();
    kept[rank] = comm.allocate<Pair>(5);
    registered[rank] = comm.register_buffer(pages[rank]);
    pages[rank][7] = std::byte{9};
    kept[rank][4] = {.value = 0.5, .index = static_cast<int>(rank)};
    if (rank == 0) co_await comm.send(kept[rank], 1);
    if (rank == 1) co_await comm.recv(kept[rank], 0);
    EXPECT_EQ(kept[rank][4].index, rank == 1 ? 0 : static_cast<int>(rank));
    co_await comm.barrier();
  };
  test::run_ranks(3, body);
  kept.clear();
  registered.clear();
  for (const std::span<std::byte> page : pages) {
    EXPECT_EQ(page[7], std::byte{9});
    std::free(page.data());
  }
}

TEST(Buffers, of_long_and_long_long_have_integers_of_64_bits) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<long> one(2, -1);
    std::vector<long long> other(2, -2);
    std::vector<unsigned long long> unsigned_one(2, 3);
    co_await comm.all_reduce(one, ReduceOp::sum);
    co_await comm.all_reduce(other, ReduceOp::sum);
    co_await comm.all_reduce(unsigned_one, ReduceOp::sum);
    EXPECT_EQ(one[1], -3);
    EXPECT_EQ(other[1], -6);
    EXPECT_EQ(unsigned_one[1], 9U);
  };
  on_every_transport(body);
}

TEST(Buffers, inputs_may_be_const) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<std::int32_t> mine(2, static_cast<std::int32_t>(comm.rank()));
    const std::span<const std::int32_t> view(mine);
    std::vector<std::int32_t> all(2 * comm.size());
    std::array<std::int32_t, 2> part{};
    co_await comm.all_gather(mine, all);
    EXPECT_EQ(all, (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
    co_await comm.all_reduce(view, part, ReduceOp::sum);
    EXPECT_EQ(part[1], 3);
    co_await comm.reduce(view, part, ReduceOp::max, 0);
    EXPECT_EQ(part[1], comm.rank() == 0 ? 2 : 3);
    const std::vector<std::int32_t> blocks(all);
    co_await comm.reduce_scatter(blocks, part, ReduceOp::sum);
    EXPECT_EQ(part[0], 3 * static_cast<std::int32_t>(comm.rank()));
    co_await comm.all_gather(all);
    co_await comm.reduce(part, ReduceOp::sum, 2);
  };
  on_every_transport(body);
}

/// 13 bytes: no multiple of any element.
struct [[gnu::packed]] Odd {
  std::int64_t step = 0;
  std::int32_t rank = 0;
  char letter = ' ';
};
static_assert(sizeof(Odd) == 13);

TEST(Bytes, values_of_any_trivially_copyable_type_move) {
  auto body = [](Communicator& comm) -> Task<> {
    Odd config;
    if (comm.rank() == 1) config = {.step = 77, .rank = 1, .letter = 'x'};
    co_await comm.broadcast_bytes(config, 1);
    EXPECT_EQ(config.letter, 'x');
    config.rank = static_cast<std::int32_t>(comm.rank());
    std::vector<Odd> all(comm.size());
    co_await comm.all_gather_bytes(config, all);
    for (Rank rank = 0; rank < comm.size(); ++rank) {
      EXPECT_EQ(static_cast<Rank>(all[rank].rank), rank);
      EXPECT_EQ(static_cast<std::int64_t>(all[rank].step), 77);
    }
    std::string text = comm.rank() == 2 ? "hello" : "12345";
    co_await comm.broadcast_bytes(text, 2);
    EXPECT_EQ(text, "hello");
    all[comm.rank()].letter = 'y';
    co_await comm.all_gather_bytes(all);
    for (const Odd& one : all) EXPECT_EQ(one.letter, 'y');
    // A block is whole values, also where their bytes would divide evenly.
    std::vector<std::array<std::int32_t, 3>> uneven(comm.size() + 1);
    std::optional<ErrorKind> refusal;
    try {
      co_await comm.all_gather_bytes(uneven);
    } catch (const Error& error) {
      refusal = error.kind();
    }
    EXPECT_EQ(refusal, ErrorKind::InvalidArgument);
  };
  on_every_transport(body);
}

TEST(Bytes, many_odd_values_at_odd_places_arrive) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t count : {std::size_t{1}, std::size_t{4'097}, std::size_t{6'000'001}}) {
      std::vector<char> memory(count + 1, comm.rank() == 0 ? 'a' : 'z');
      const std::span<char> odd = std::span(memory).subspan(1);
      co_await comm.broadcast_bytes(odd, 0);
      EXPECT_EQ(std::ranges::count(odd, 'a'), static_cast<std::ptrdiff_t>(count));
      EXPECT_EQ(memory[0], comm.rank() == 0 ? 'a' : 'z');
      std::vector<char> all(count * comm.size() + 1);
      std::ranges::fill(odd, static_cast<char>('0' + comm.rank()));
      co_await comm.all_gather_bytes(odd, std::span(all).subspan(1));
      for (Rank rank = 0; rank < comm.size(); ++rank) {
        const auto block = std::span(all).subspan(1 + rank * count, count);
        EXPECT_EQ(std::ranges::count(block, '0' + static_cast<char>(rank)),
                  static_cast<std::ptrdiff_t>(count));
      }
    }
  };
  for (const char* transport : {"shm", "tcp"}) {
    CommunicatorOptions options;
    options.transport = transport;
    options.is_isolated = true;
    test::run_ranks(3, body, std::move(options));
  }
}

}  // namespace
}  // namespace cohort::buffers_test
