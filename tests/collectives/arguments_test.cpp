// SPDX-License-Identifier: Apache-2.0
// Arguments that no rank can mean are refused where the call is made, by the name of the call, and nothing is
// touched.
#include <cohort/cohort.h>
#include <cohort/collectives/selection/explanation.h>
#include <cohort/tests/support/ranks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <vector>

namespace cohort::arguments_test {
namespace {

using testing::HasSubstr;

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

/// Runs it on a communicator of one rank, and of two.
void on_communicators(const RankFunction& body) {
  for (const Rank ranks : {1U, 2U}) test::run_ranks_in_world(ranks, body);
}

void expect_refusal(const std::function<void()>& call, ErrorKind kind,
                    const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "was accepted; expected was: " << words.front();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

void expect_invalid(const std::function<void()>& call, const std::vector<std::string>& words) {
  expect_refusal(call, ErrorKind::InvalidArgument, words);
}

TEST(Allocating, counts_that_no_memory_has_are_refused_and_leave_the_heap_as_it_was) {
  auto body = [](Communicator& comm) -> Task<> {
    const SharedBuffer<float> before = comm.allocate<float>(1000);
    const auto negative = static_cast<std::size_t>(-1);
    for (const std::size_t count : {negative, negative - 1023, kMost / 4, kMost / 4 + 1, kMost / 2 + 1,
                                    (std::size_t{1} << 62) + 1024, std::size_t{1} << 61})
      expect_invalid([&] { (void)comm.allocate<float>(count); },
                     {"allocate", std::to_string(count), "elements of 4 bytes"});
    expect_refusal([&] { (void)comm.allocate<float>(std::size_t{1} << 60); }, ErrorKind::ResourceLimit,
                   {"COHORT_HEAPSIZE", "heap of 4294967296"});
    const SharedBuffer<double> after = comm.allocate<double>(1000);
    EXPECT_GE(reinterpret_cast<const char*>(after.data()) - reinterpret_cast<const char*>(before.data()),
              static_cast<std::ptrdiff_t>(4000));
    std::ranges::fill(before, 1.0F);
    std::ranges::fill(after, 2.0);
    EXPECT_EQ(before[999], 1.0F);
    co_await comm.all_reduce(before, ReduceOp::max);
  };
  on_communicators(body);
}

TEST(Arguments, buffers_of_sizes_that_no_memory_has_are_refused) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(8);
    for (const std::size_t count : {kMost, kMost / 4, (std::size_t{1} << 62) + 1024, std::size_t{1} << 60}) {
      const std::span<float> absurd(data.data(), count);
      const std::vector<std::string> words = {"bytes, more than any memory has"};
      expect_invalid([&] { (void)comm.all_reduce(absurd, ReduceOp::sum); }, words);
      expect_invalid([&] { (void)comm.broadcast(absurd, 0); }, words);
      expect_invalid([&] { (void)comm.all_gather(absurd, data); }, words);
      expect_invalid([&] { (void)comm.reduce_scatter(absurd, data, ReduceOp::sum); }, words);
      expect_invalid([&] { (void)comm.reduce(absurd, ReduceOp::sum, 0); }, words);
      expect_invalid([&] { (void)comm.broadcast_bytes(absurd, 0); }, words);
    }
    co_await comm.barrier();
  };
  on_communicators(body);
}

TEST(Arguments, null_memory_with_a_size_is_refused_and_without_one_accepted) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::span<float> null(static_cast<float*>(nullptr), 1024);
    std::vector<float> data(1024 * comm.size(), 1.0F);
    const std::span<float> part = std::span(data).first(1024);
    expect_invalid([&] { (void)comm.all_reduce(null, part, ReduceOp::sum); },
                   {"all_reduce: the input of 4096 bytes is null"});
    expect_invalid([&] { (void)comm.all_reduce(part, null, ReduceOp::sum); },
                   {"all_reduce: the output of 4096 bytes is null"});
    expect_invalid([&] { (void)comm.broadcast(null, 0); }, {"broadcast: the buffer of 4096 bytes is null"});
    expect_invalid([&] { (void)comm.all_gather(null, data); }, {"all_gather: the input"});
    expect_invalid([&] { (void)comm.reduce_scatter(data, null, ReduceOp::sum); },
                   {"reduce_scatter: the output"});
    expect_invalid([&] { (void)comm.reduce(null, part, ReduceOp::sum, 0); }, {"reduce: the input"});
    const std::span<float> nothing;
    co_await comm.all_reduce(nothing, ReduceOp::sum);
    co_await comm.broadcast(nothing, 0);
    co_await comm.all_gather(nothing, nothing);
    co_await comm.all_reduce(part, ReduceOp::sum);
    EXPECT_EQ(part.back(), static_cast<float>(comm.size()));
  };
  on_communicators(body);
}

/// A buffer of that many floats, one byte off.
std::span<std::byte> misaligned(std::vector<float>& memory) {
  return std::as_writable_bytes(std::span(memory)).subspan(1, (memory.size() - 1) * sizeof(float));
}

TEST(Arguments, buffers_that_elements_cannot_lie_in_are_refused_also_when_large) {
  auto body = [](Communicator& comm) -> Task<> {
    for (const std::size_t count : {std::size_t{8}, std::size_t{1} << 20}) {
      std::vector<float> memory(count + 1, 1.0F);
      std::vector<float> aligned(count);
      const std::span<std::byte> off = misaligned(memory);
      const std::span<std::byte> straight = std::as_writable_bytes(std::span(aligned));
      expect_invalid([&] { (void)comm.all_reduce(DataType::float32, off, straight, ReduceOp::sum); },
                     {"all_reduce: the input at 0x", "is not aligned to its elements, float32 of 4 bytes"});
      expect_invalid([&] { (void)comm.all_reduce(DataType::float32, straight, off, ReduceOp::sum); },
                     {"all_reduce: the output at 0x"});
      expect_invalid([&] { (void)comm.broadcast(DataType::float32, off, 0); }, {"broadcast: the buffer at"});
      const std::span<std::byte> half = straight.subspan(4).first(straight.size() - 8);
      expect_invalid([&] { (void)comm.broadcast(DataType::int64, half.first(half.size() / 8 * 8), 0); },
                     {"int64 of 8 bytes"});
      EXPECT_EQ(memory.front(), 1.0F);
      EXPECT_EQ(memory.back(), 1.0F);
    }
    co_await comm.barrier();
  };
  on_communicators(body);
}

TEST(Arguments, an_output_that_only_the_root_needs_may_be_null_or_odd_elsewhere) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> in(16, 1.0F);
    std::vector<float> memory(17);
    const std::span<std::byte> odd = misaligned(memory);
    const std::span<std::byte> out =
        comm.rank() == 0 ? std::as_writable_bytes(std::span(memory).first(16)) : odd;
    co_await comm.reduce(DataType::float32, std::as_bytes(std::span(in)), out, ReduceOp::sum, 0);
    EXPECT_EQ(memory.front(), comm.rank() == 0 ? static_cast<float>(comm.size()) : 0.0F);
  };
  on_communicators(body);
}

TEST(Arguments, bytes_are_not_combined) {
  auto body = [](Communicator& comm) -> Task<> {
    std::array<std::byte, 4> data{};
    expect_invalid([&] { (void)comm.all_reduce(DataType::byte, data, data, ReduceOp::sum); },
                   {"all_reduce of bytes", "give float32, float64, float16, ", "uint32 or uint64"});
    co_await comm.barrier();
  };
  on_communicators(body);
}

TEST(Arguments, a_reduction_that_does_not_apply_names_the_types_that_it_is_for) {
  auto body = [](Communicator& comm) -> Task<> {
    std::vector<float> data(4);
    std::vector<bfloat16> small(4 * comm.size());
    const std::string integers = "give int8, int16, int32, int64, uint8, uint16, uint32 or uint64";
    expect_invalid([&] { (void)comm.all_reduce(data, ReduceOp::bit_and); },
                   {"all_reduce: bit_and does not combine float32", integers});
    expect_invalid([&] { (void)comm.reduce(data, ReduceOp::logical_or, 0); },
                   {"reduce: logical_or does not combine float32", integers});
    expect_invalid([&] { (void)comm.reduce_scatter(small, std::span(small).first(4), ReduceOp::bit_xor); },
                   {"reduce_scatter: bit_xor does not combine bfloat16", integers});
    expect_invalid([&] { (void)comm.all_reduce(data, static_cast<ReduceOp>(200)); }, {"unknown"});
    co_await comm.barrier();
  };
  on_communicators(body);
}

TEST(MovedFrom, every_call_names_itself_and_the_communicator_goes_on_where_it_is_now) {
  auto body = [](Communicator& comm) -> Task<> {
    Communicator now = std::move(comm);
    std::vector<float> data(8, 1.0F);
    const std::string why = " of a communicator that was moved from";
    expect_invalid([&] { (void)comm.barrier(); }, {"barrier" + why});
    expect_invalid([&] { (void)comm.all_reduce(data, ReduceOp::sum); }, {"all_reduce" + why});
    expect_invalid([&] { (void)comm.broadcast(data, 0); }, {"broadcast" + why});
    expect_invalid([&] { (void)comm.allocate<float>(8); }, {"allocate" + why});
    expect_invalid([&] { (void)comm.register_buffer(std::span(data)); }, {"register_buffer" + why});
    expect_invalid([&] { (void)comm.explain(operator_of<Barrier>, DataType::float32, 0); },
                   {"explain" + why});
    expect_invalid([&] { (void)comm.close(); }, {"close" + why});
    EXPECT_EQ(comm.rank(), now.rank());
    EXPECT_EQ(comm.size(), now.size());
    co_await now.all_reduce(data, ReduceOp::sum);
    EXPECT_EQ(data[7], static_cast<float>(now.size()));
    co_await now.close();
  };
  auto main = [&](Engine& engine) -> Task<> {
    Communicator comm = co_await Communicator::join(engine, CommunicatorOptions());
    co_await body(comm);
  };
  Engine engine;
  engine.run(main(engine));
}

TEST(MovedFromDeathTest, what_cannot_throw_asserts) {
  auto body = [](Engine& engine) -> Task<> {
    Communicator comm = co_await Communicator::join(engine, CommunicatorOptions());
    const Communicator now = std::move(comm);
    EXPECT_DEATH((void)comm.name(), "rank 0's communicator was moved from");
    EXPECT_DEATH((void)comm.is_failed(), "was moved from");
    EXPECT_DEATH(comm.abort("because"), "was moved from");
  };
  Engine engine;
  engine.run(body(engine));
}

/// What goes from one rank to another, or nothing.
std::size_t count_between(Rank from, Rank to) { return (from * 3 + to * 5) % 4 * 100; }

TEST(Counts, all_to_all_v_moves_what_each_rank_says_by_itself) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<std::size_t> none;
    std::vector<std::size_t> given;
    std::vector<std::size_t> taken;
    std::vector<std::int64_t> in;
    std::vector<std::int64_t> expected;
    for (Rank peer = 0; peer < comm.size(); ++peer) {
      given.push_back(count_between(comm.rank(), peer));
      taken.push_back(count_between(peer, comm.rank()));
      in.insert(in.end(), given.back(), static_cast<std::int64_t>(comm.rank() * 100 + peer));
      expected.insert(expected.end(), taken.back(), static_cast<std::int64_t>(peer * 100 + comm.rank()));
    }
    std::vector<std::int64_t> out(expected.size(), -1);
    co_await comm.all_to_all_v(in, given, out, taken);
    EXPECT_EQ(out, expected);
    std::fill(out.begin(), out.end(), -1);
    Collective again = comm.all_to_all_v(in, given, out, taken).with_algorithm("pairwise");
    co_await std::move(again);
    EXPECT_EQ(out, expected);
    taken.back() += 1;
    EXPECT_THROW((void)comm.all_to_all_v(in, given, out, taken), Error);
    EXPECT_THROW((void)comm.all_to_all_v(in, given, out, none), Error);
  };
  for (const Rank ranks : {1U, 2U, 5U}) {
    for (const char* const transport : {"shm", "tcp"}) {
      CommunicatorOptions options;
      options.transport = transport;
      test::run_ranks(ranks, body, options);
    }
  }
}

TEST(Buffers, only_the_root_of_gather_and_scatter_needs_both_buffers_and_they_may_be_one) {
  auto body = [](Communicator& comm) -> Task<> {
    constexpr Rank kRoot = 1;
    constexpr std::size_t kBlock = 100;
    std::vector<float> all(comm.rank() == kRoot ? kBlock * comm.size() : 0);
    std::vector<float> own(kBlock, static_cast<float>(comm.rank()));
    std::span<float> block(own);
    if (comm.rank() == kRoot) {
      block = std::span(all).subspan(kRoot * kBlock, kBlock);
      std::copy(own.begin(), own.end(), block.begin());
    }
    co_await comm.gather(std::span<const float>(block), std::span<float>(all), kRoot);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i / kBlock));
    for (float& value : all) value += 10;
    co_await comm.scatter(std::span<const float>(all), block, kRoot);
    for (const float value : block) EXPECT_EQ(value, static_cast<float>(comm.rank() + 10));
  };
  test::run_ranks(3, body);
}

TEST(Counts, those_that_do_not_fit_ranks_or_buffers_are_refused_at_the_call) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<float> in(3);
    std::vector<float> out(8);
    const std::vector<std::size_t> none;
    const std::vector<std::size_t> one = {3};
    const std::vector<std::size_t> right = {3, 3};
    const std::vector<std::size_t> below_zero = {3, ~std::size_t{0} - 4};
    const std::vector<std::size_t> matrix(4, 1);
    expect_invalid([&] { (void)comm.all_gather_v(in, out, none); },
                   {"all_gather_v over 2 ranks without counts"});
    expect_invalid([&] { (void)comm.all_gather_v(in, out, one); }, {"with 1 counts; give 2"});
    expect_invalid([&] { (void)comm.all_gather_v(in, out, right); },
                   {"mean 12 bytes of input and 24 of output"});
    expect_invalid([&] { (void)comm.gather_v(in, out, below_zero, 0); }, {"more than any memory has"});
    expect_invalid([&] { (void)comm.scatter_v(in, out, right, 2); }, {"the ranks are 0 to 1"});
    expect_invalid([&] { (void)comm.all_to_all_vc(in, out, right); }, {"with 2 counts; give 4"});
    expect_invalid([&] { (void)comm.all_to_all_vc(in, out, matrix); },
                   {"mean 8 bytes of input and 8 of output"});
    expect_invalid([&] { (void)comm.all_to_all(out, out); }, {"it is never done in place"});
    co_await comm.barrier();
  };
  test::run_ranks(2, body);
}

TEST(Buffers, the_first_rank_of_an_exclusive_scan_keeps_its_output) {
  auto body = [](Communicator& comm) -> Task<> {
    const std::vector<std::int32_t> in(5, static_cast<std::int32_t>(comm.rank() + 1));
    std::vector<std::int32_t> out(5, -7);
    co_await comm.exclusive_scan(in, out, ReduceOp::sum);
    const std::int32_t expected[] = {-7, 1, 3, 6};
    for (const std::int32_t value : out) EXPECT_EQ(value, expected[comm.rank()]);
  };
  test::run_ranks(4, body);
}

}  // namespace
}  // namespace cohort::arguments_test
