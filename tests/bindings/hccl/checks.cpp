// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/bindings/hccl/checks.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

namespace hccl_checks {
namespace {

using Floats = std::vector<float>;
using Numbers = std::vector<int32_t>;
using Counts = std::vector<uint64_t>;

constexpr uint64_t kCount = 3000;  // more than travels with the meeting of ranks

/// Element i of what a rank gives.
int32_t given_by(uint32_t rank, uint64_t i) { return static_cast<int32_t>(1000 * (rank + 1) + i % 7); }

Numbers of_rank(uint32_t rank, uint64_t count) {
  Numbers numbers(count);
  for (uint64_t i = 0; i < count; ++i) numbers[i] = given_by(rank, i);
  return numbers;
}

}  // namespace

Checker::Checker(HcclComm comm, aclrtStream stream) : comm_(comm), stream_(stream) {
  code("HcclGetRankId", HCCL_SUCCESS, HcclGetRankId(comm, &rank_));
  code("HcclGetRankSize", HCCL_SUCCESS, HcclGetRankSize(comm, &ranks_));
}

void Checker::expect(bool is_so, const char* what, const std::string& detail) {
  if (!is_so) problems_ += "rank " + std::to_string(rank_) + ": " + what + ": " + detail + "\n";
}

void Checker::done(const char* what, HcclResult result) {
  const char* text = result == HCCL_SUCCESS ? nullptr : aclGetRecentErrMsg();
  expect(result == HCCL_SUCCESS, what,
         "code " + std::to_string(result) + " " + (text == nullptr ? "" : text));
  const aclError ended = aclrtSynchronizeStream(stream_);
  text = ended == ACL_SUCCESS ? nullptr : aclGetRecentErrMsg();
  expect(ended == ACL_SUCCESS, what,
         "stream's code " + std::to_string(ended) + " " + (text == nullptr ? "" : text));
}

void Checker::code(const char* what, int expected, int got) {
  expect(expected == got, what, "code " + std::to_string(got) + " in place of " + std::to_string(expected));
}

template <class T>
void Checker::equal(const char* what, const std::vector<T>& expected, const std::vector<T>& got) {
  if (expected.size() != got.size()) return expect(false, what, "another size");
  const auto [want, have] = std::mismatch(expected.begin(), expected.end(), got.begin());
  if (want == expected.end()) return;
  expect(false, what,
         "element " + std::to_string(want - expected.begin()) + " is " + std::to_string(*have) +
             " in place of " + std::to_string(*want));
}

void Checker::all_calls() {
  reductions();
  blocks();
  blocks_that_differ();
  types();
  done("HcclBarrier", HcclBarrier(comm_, stream_));
}

void Checker::reductions() {
  Numbers mine = of_rank(rank_, kCount);
  Numbers sum(kCount), largest(kCount), smallest(kCount), got(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) sum[i] += given_by(rank, i);
    largest[i] = given_by(ranks_ - 1, i);
    smallest[i] = given_by(0, i);
  }
  const auto reduce = [&](const char* what, HcclReduceOp op, const Numbers& expected) {
    done(what, HcclAllReduce(mine.data(), got.data(), kCount, HCCL_DATA_TYPE_INT32, op, comm_, stream_));
    equal(what, expected, got);
  };
  reduce("HcclAllReduce sum", HCCL_REDUCE_SUM, sum);
  reduce("HcclAllReduce max", HCCL_REDUCE_MAX, largest);
  reduce("HcclAllReduce min", HCCL_REDUCE_MIN, smallest);
  Numbers factors(5, 2);
  done("HcclAllReduce prod", HcclAllReduce(factors.data(), factors.data(), 5, HCCL_DATA_TYPE_INT32,
                                           HCCL_REDUCE_PROD, comm_, stream_));
  equal("HcclAllReduce prod", Numbers(5, 1 << ranks_), factors);
  const uint32_t root = ranks_ - 1;
  Numbers at_root(kCount, -1);
  done("HcclReduce", HcclReduce(mine.data(), rank_ == root ? at_root.data() : nullptr, kCount,
                                HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, root, comm_, stream_));
  equal("HcclReduce", rank_ == root ? sum : Numbers(kCount, -1), at_root);
  Numbers own_block(kCount, 0), blocks(kCount * ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    for (uint64_t i = 0; i < kCount; ++i)
      blocks[rank * kCount + i] = given_by(rank_, i) + static_cast<int32_t>(rank);
  for (uint64_t i = 0; i < kCount; ++i) sum[i] += static_cast<int32_t>(rank_ * ranks_);
  done("HcclReduceScatter", HcclReduceScatter(blocks.data(), own_block.data(), kCount, HCCL_DATA_TYPE_INT32,
                                              HCCL_REDUCE_SUM, comm_, stream_));
  equal("HcclReduceScatter", sum, own_block);
}

void Checker::blocks() {
  Numbers mine = of_rank(rank_, kCount);
  Numbers all, got(kCount * ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const Numbers block = of_rank(rank, kCount);
    all.insert(all.end(), block.begin(), block.end());
  }
  done("HcclAllGather", HcclAllGather(mine.data(), got.data(), kCount, HCCL_DATA_TYPE_INT32, comm_, stream_));
  equal("HcclAllGather", all, got);
  Numbers cast = rank_ == 0 ? mine : Numbers(kCount);
  done("HcclBroadcast", HcclBroadcast(cast.data(), kCount, HCCL_DATA_TYPE_INT32, 0, comm_, stream_));
  equal("HcclBroadcast", of_rank(0, kCount), cast);
  Numbers scattered(kCount);
  done("HcclScatter", HcclScatter(rank_ == 0 ? all.data() : nullptr, scattered.data(), kCount,
                                  HCCL_DATA_TYPE_INT32, 0, comm_, stream_));
  equal("HcclScatter", of_rank(rank_, kCount), scattered);
  Numbers out(kCount * ranks_), expected(kCount * ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    for (uint64_t i = 0; i < kCount; ++i) {
      out[rank * kCount + i] = given_by(rank_, i) + static_cast<int32_t>(rank);
      expected[rank * kCount + i] = given_by(rank, i) + static_cast<int32_t>(rank_);
    }
  done("HcclAlltoAll", HcclAlltoAll(out.data(), kCount, HCCL_DATA_TYPE_INT32, got.data(), kCount,
                                    HCCL_DATA_TYPE_INT32, comm_, stream_));
  equal("HcclAlltoAll", expected, got);
  std::fill(got.begin(), got.end(), 0);
  done("HcclAlltoAll of two types", HcclAlltoAll(out.data(), kCount, HCCL_DATA_TYPE_INT32, got.data(),
                                                 2 * kCount, HCCL_DATA_TYPE_INT16, comm_, stream_));
  equal("HcclAlltoAll of two types", expected, got);
}

/// Rank r gives r + 1 elements to each, and blocks lie two apart, from the last rank to the first.
void Checker::blocks_that_differ() {
  Counts counts(ranks_), at(ranks_), ones(ranks_, rank_ + 1), ones_at(ranks_), matrix;
  uint64_t end = 0;
  for (uint32_t rank = ranks_; rank-- > 0;) {
    counts[rank] = rank + 1;
    at[rank] = end;
    end += rank + 3;
  }
  Numbers got(end, -1), expected(end, -1), mine = of_rank(rank_, rank_ + 1);
  for (uint32_t rank = 0; rank < ranks_; ++rank)
    for (uint64_t i = 0; i <= rank; ++i) expected[at[rank] + i] = given_by(rank, i);
  done("HcclAllGatherV", HcclAllGatherV(mine.data(), rank_ + 1, got.data(), counts.data(), at.data(),
                                        HCCL_DATA_TYPE_INT32, comm_, stream_));
  equal("HcclAllGatherV", expected, got);
  Numbers parts(end, 1), sum(rank_ + 1);
  done("HcclReduceScatterV", HcclReduceScatterV(parts.data(), counts.data(), at.data(), sum.data(), rank_ + 1,
                                                HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm_, stream_));
  equal("HcclReduceScatterV", Numbers(rank_ + 1, static_cast<int32_t>(ranks_)), sum);
  Numbers out(ranks_ * (rank_ + 1));
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    ones_at[rank] = rank * (rank_ + 1);
    for (uint64_t i = 0; i <= rank_; ++i) out[ones_at[rank] + i] = given_by(rank_, i);
  }
  std::fill(got.begin(), got.end(), -1);
  done("HcclAlltoAllV",
       HcclAlltoAllV(out.data(), ones.data(), ones_at.data(), HCCL_DATA_TYPE_INT32, got.data(), counts.data(),
                     at.data(), HCCL_DATA_TYPE_INT32, comm_, stream_));
  equal("HcclAlltoAllV", expected, got);
  Numbers packed, packed_got(ranks_ * (ranks_ + 1) / 2);
  for (uint32_t from = 0; from < ranks_; ++from) {
    const Numbers block = of_rank(from, from + 1);
    packed.insert(packed.end(), block.begin(), block.end());
    matrix.insert(matrix.end(), ranks_, from + 1);
  }
  done("HcclAlltoAllVC", HcclAlltoAllVC(out.data(), matrix.data(), HCCL_DATA_TYPE_INT32, packed_got.data(),
                                        HCCL_DATA_TYPE_INT32, comm_, stream_));
  equal("HcclAlltoAllVC", packed, packed_got);
}

void Checker::types() {
  const auto sum_of = [&](const char* what, HcclDataType type, auto value) {
    using T = decltype(value);
    std::vector<T> data(9, value);
    done(what, HcclAllReduce(data.data(), data.data(), 9, type, HCCL_REDUCE_SUM, comm_, stream_));
    equal(what, std::vector<T>(9, static_cast<T>(static_cast<T>(ranks_) * value)), data);
  };
  sum_of("int8", HCCL_DATA_TYPE_INT8, int8_t{3});
  sum_of("int16", HCCL_DATA_TYPE_INT16, int16_t{3});
  sum_of("int64", HCCL_DATA_TYPE_INT64, int64_t{3});
  sum_of("uint8", HCCL_DATA_TYPE_UINT8, uint8_t{3});
  sum_of("uint16", HCCL_DATA_TYPE_UINT16, uint16_t{3});
  sum_of("uint32", HCCL_DATA_TYPE_UINT32, uint32_t{3});
  sum_of("uint64", HCCL_DATA_TYPE_UINT64, uint64_t{3});
  sum_of("fp32", HCCL_DATA_TYPE_FP32, 3.5F);
  sum_of("fp64", HCCL_DATA_TYPE_FP64, 3.5);
  // The bits of 1, 2, 4 and 8 as float16 and bfloat16, for numbers of ranks that are powers of 2.
  if (ranks_ == 1 || ranks_ == 2 || ranks_ == 4 || ranks_ == 8) {
    const auto power = static_cast<uint16_t>(ranks_ == 1 ? 0 : ranks_ == 2 ? 1 : ranks_ == 4 ? 2 : 3);
    const auto small = [&](const char* what, HcclDataType type, uint16_t one, unsigned shift) {
      std::vector<uint16_t> data(4, one);
      done(what, HcclAllReduce(data.data(), data.data(), 4, type, HCCL_REDUCE_SUM, comm_, stream_));
      equal(what, std::vector<uint16_t>(4, static_cast<uint16_t>(one + (power << shift))), data);
    };
    small("fp16", HCCL_DATA_TYPE_FP16, 0x3c00, 10);
    small("bfp16", HCCL_DATA_TYPE_BFP16, 0x3f80, 7);
  }
  std::vector<uint64_t> wide{rank_, 7, rank_, 8}, got(4 * ranks_);
  done("int128", HcclAllGather(wide.data(), got.data(), 2, HCCL_DATA_TYPE_INT128, comm_, stream_));
  expect(got[4 * ranks_ - 4] == ranks_ - 1 && got.back() == 8, "int128", "other elements");
  code("int128 is not added", HCCL_E_NOT_SUPPORT,
       HcclAllReduce(wide.data(), wide.data(), 2, HCCL_DATA_TYPE_INT128, HCCL_REDUCE_SUM, comm_, stream_));
}

void Checker::messages() {
  const uint32_t next = (rank_ + 1) % ranks_;
  const uint32_t before = (rank_ + ranks_ - 1) % ranks_;
  Numbers mine = of_rank(rank_, kCount), from_before(kCount), to_self(kCount);
  std::vector<HcclSendRecvItem> items{{HCCL_RECV, from_before.data(), kCount, HCCL_DATA_TYPE_INT32, before},
                                      {HCCL_SEND, mine.data(), kCount, HCCL_DATA_TYPE_INT32, next}};
  if (ranks_ > 1) {
    items.push_back({HCCL_SEND, mine.data(), kCount, HCCL_DATA_TYPE_INT32, rank_});
    items.push_back({HCCL_RECV, to_self.data(), kCount, HCCL_DATA_TYPE_INT32, rank_});
  }
  done("HcclBatchSendRecv",
       HcclBatchSendRecv(items.data(), static_cast<uint32_t>(items.size()), comm_, stream_));
  equal("HcclBatchSendRecv", of_rank(before, kCount), from_before);
  if (ranks_ > 1) equal("HcclBatchSendRecv to itself", mine, to_self);
  if (ranks_ == 1) return;
  // Two messages in their order, which only the last rank does not send on.
  for (uint32_t round = 0; round < 2; ++round) {
    Numbers token(kCount, static_cast<int32_t>(round));
    if (rank_ > 0)
      done("HcclRecv", HcclRecv(token.data(), kCount, HCCL_DATA_TYPE_INT32, rank_ - 1, comm_, stream_));
    equal("HcclRecv", Numbers(kCount, static_cast<int32_t>(round + rank_)), token);
    for (int32_t& one : token) ++one;
    if (rank_ + 1 < ranks_)
      done("HcclSend", HcclSend(token.data(), kCount, HCCL_DATA_TYPE_INT32, rank_ + 1, comm_, stream_));
  }
}

/// Those of even and of odd numbers, backwards.
void Checker::groups() {
  std::vector<uint32_t> members;
  for (uint32_t rank = ranks_; rank-- > 0;)
    if (rank % 2 == rank_ % 2) members.push_back(rank);
  const auto own = static_cast<uint32_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  HcclComm group = nullptr;
  code("HcclCreateSubCommConfig", HCCL_SUCCESS,
       HcclCreateSubCommConfig(&comm_, static_cast<uint32_t>(members.size()), members.data(), rank_ % 2, own,
                               &config, &group));
  Checker checker(group, stream_);
  expect(checker.rank() == own && checker.ranks() == members.size(), "the group", "another place");
  checker.all_calls();
  problems_ += checker.problems();
  code("HcclCommDestroy of a group", HCCL_SUCCESS, HcclCommDestroy(group));
}

/// What one stream computes, the other one adds among all ranks, and hands back.
void Checker::two_streams() {
  constexpr uint64_t kMany = 100000;
  struct Step {
    Floats data = Floats(kMany);
    float value = 0;
  } step;
  step.value = static_cast<float>(rank_ + 1);
  const auto fill = [](void* args) {
    auto& of = *static_cast<Step*>(args);
    std::fill(of.data.begin(), of.data.end(), of.value);
  };
  const auto add_one = [](void* args) {
    for (float& one : static_cast<Step*>(args)->data) one += 1;
  };
  aclrtStream computing = nullptr;
  aclrtEvent filled = nullptr, added = nullptr;
  code("aclrtCreateStream", ACL_SUCCESS, aclrtCreateStream(&computing));
  code("aclrtCreateEvent", ACL_SUCCESS, aclrtCreateEvent(&filled));
  code("aclrtCreateEvent", ACL_SUCCESS, aclrtCreateEvent(&added));
  for (int round = 0; round < 20; ++round) {
    aclrtLaunchHostFunc(computing, fill, &step);
    aclrtRecordEvent(filled, computing);
    aclrtStreamWaitEvent(stream_, filled);
    code("HcclAllReduce behind an event", HCCL_SUCCESS,
         HcclAllReduce(step.data.data(), step.data.data(), kMany, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm_,
                       stream_));
    aclrtRecordEvent(added, stream_);
    aclrtStreamWaitEvent(computing, added);
    aclrtLaunchHostFunc(computing, add_one, &step);
    code("aclrtSynchronizeStream", ACL_SUCCESS, aclrtSynchronizeStream(computing));
    const auto sum = static_cast<float>(ranks_ * (ranks_ + 1) / 2 + 1);
    equal("two streams", Floats(kMany, sum), step.data);
  }
  float ms = -1;
  code("aclrtEventElapsedTime", ACL_SUCCESS, aclrtEventElapsedTime(&ms, filled, added));
  expect(ms >= 0, "aclrtEventElapsedTime", std::to_string(ms));
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  code("aclrtQueryEventStatus", ACL_SUCCESS, aclrtQueryEventStatus(added, &status));
  expect(status == ACL_EVENT_RECORDED_STATUS_COMPLETE, "aclrtQueryEventStatus", "not complete");
  code("aclrtDestroyEvent", ACL_SUCCESS, aclrtDestroyEvent(filled));
  code("aclrtDestroyEvent", ACL_SUCCESS, aclrtDestroyEvent(added));
  code("aclrtDestroyStream", ACL_SUCCESS, aclrtDestroyStream(computing));
}

/// None of it reaches another rank, and the communicator is as good as before.
void Checker::wrong_arguments() {
  float data[4] = {};
  constexpr HcclDataType kType = HCCL_DATA_TYPE_FP32;
  const auto reduce = [&](void* in, void* out, int type, int op, HcclComm comm, aclrtStream stream) {
    return HcclAllReduce(in, out, 4, static_cast<HcclDataType>(type), static_cast<HcclReduceOp>(op), comm,
                         stream);
  };
  code("no communicator", HCCL_E_PTR, reduce(data, data, kType, 0, nullptr, stream_));
  code("no stream", HCCL_E_PTR, reduce(data, data, kType, 0, comm_, nullptr));
  code("no input", HCCL_E_PTR, reduce(nullptr, data, kType, 0, comm_, stream_));
  code("no output", HCCL_E_PTR, reduce(data, nullptr, kType, 0, comm_, stream_));
  code("what is no communicator", HCCL_E_PARA, reduce(data, data, kType, 0, data, stream_));
  code("what is no stream", HCCL_E_PARA, reduce(data, data, kType, 0, comm_, data));
  code("no type", HCCL_E_PARA, reduce(data, data, 13, 0, comm_, stream_));
  code("no reduction", HCCL_E_PARA, reduce(data, data, kType, 4, comm_, stream_));
  const char* const text = aclGetRecentErrMsg();
  expect(text != nullptr && std::strstr(text, "HcclAllReduce: 4 is no reduction") != nullptr,
         "aclGetRecentErrMsg", text == nullptr ? "nothing" : text);
  expect(aclGetRecentErrMsg() == nullptr, "aclGetRecentErrMsg", "the same again");
  code("a root that is none", HCCL_E_PARA, HcclBroadcast(data, 4, kType, ranks_, comm_, stream_));
  code("a peer that is none", HCCL_E_PARA, HcclSend(data, 4, kType, ranks_, comm_, stream_));
  code("itself", HCCL_E_PARA, HcclRecv(data, 4, kType, rank_, comm_, stream_));
  code("more than any memory", HCCL_E_PARA, HcclBroadcast(data, UINT64_MAX / 2, kType, 0, comm_, stream_));
  code("other sizes", HCCL_E_PARA, HcclAlltoAll(data, 1, kType, data, 2, kType, comm_, stream_));
  HcclSendRecvItem items[] = {{HCCL_SEND, data, 1, kType, 0}, {HCCL_SEND, data, 1, kType, 0}};
  code("two to one rank", HCCL_E_PARA, HcclBatchSendRecv(items, 2, comm_, stream_));
  code("no items", HCCL_E_PTR, HcclBatchSendRecv(nullptr, 2, comm_, stream_));
  code("no counts", HCCL_E_PTR, HcclAlltoAllVC(data, nullptr, kType, data, kType, comm_, stream_));
  code("no name", HCCL_E_PTR, HcclGetCommName(comm_, nullptr));
  code("no device", ACL_ERROR_RT_INVALID_DEVICEID, aclrtSetDevice(-1));
  code("no such memory", ACL_ERROR_RT_PARAM_INVALID, aclrtFree(data));
  void* memory = nullptr;
  code("no size", ACL_ERROR_INVALID_PARAM, aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST));
  code("too small", ACL_ERROR_INVALID_PARAM, aclrtMemcpy(data, 4, data, 8, ACL_MEMCPY_HOST_TO_HOST));
  HcclResult failure = HCCL_E_RESERVED;
  code("HcclGetCommAsyncError", HCCL_SUCCESS, HcclGetCommAsyncError(comm_, &failure));
  code("of a communicator that is fine", HCCL_SUCCESS, failure);
}

}  // namespace hccl_checks
