// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process, and what a stream does for one alone.
#include <cohort/tests/bindings/hccl/checks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace cohort::hccl_threads_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::string recent_text() {
  const char* const text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

/// A thread for each rank, whose device is its number.
void run_ranks(uint32_t ranks, const std::function<void(HcclComm, aclrtStream)>& body) {
  HcclRootInfo info;
  ASSERT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS) << recent_text();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      HcclComm comm = nullptr;
      aclrtStream stream = nullptr;
      ASSERT_EQ(aclrtSetDevice(static_cast<int32_t>(rank)), ACL_SUCCESS);
      ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
      ASSERT_EQ(HcclCommInitRootInfo(ranks, &info, rank, &comm), HCCL_SUCCESS) << recent_text();
      body(comm, stream);
      EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS) << recent_text();
      EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, make_every_call) {
  for (const uint32_t ranks : {1U, 3U}) {
    run_ranks(ranks, [](HcclComm comm, aclrtStream stream) {
      hccl_checks::Checker checker(comm, stream);
      checker.all_calls();
      checker.messages();
      checker.groups();
      checker.two_streams();
      EXPECT_EQ(checker.problems(), "");
    });
  }
}

TEST(Threads, have_communicators_of_devices_that_one_of_them_makes) {
  int32_t devices[] = {2, 0, 1};
  HcclComm comms[3] = {};
  ASSERT_EQ(HcclCommInitAll(3, devices, comms), HCCL_SUCCESS) << recent_text();
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      aclrtStream stream = nullptr;
      ASSERT_EQ(aclrtSetDevice(devices[rank]), ACL_SUCCESS);
      ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
      hccl_checks::Checker checker(comms[rank], stream);
      EXPECT_EQ(checker.rank(), rank);
      checker.all_calls();
      EXPECT_EQ(checker.problems(), "");
      EXPECT_EQ(HcclCommDestroy(comms[rank]), HCCL_SUCCESS);
      EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    });
  for (std::thread& thread : threads) thread.join();
  int32_t twice[] = {1, 1};
  EXPECT_EQ(HcclCommInitAll(2, twice, comms), HCCL_E_PARA);
  EXPECT_THAT(recent_text(), HasSubstr("device 1 is given twice"));
}

/// It outlives the communicator that it came from.
TEST(Threads, have_memory_of_their_device_that_collectives_use) {
  constexpr size_t kCount = size_t{1} << 20;
  void* memories[2] = {};
  run_ranks(2, [&memories](HcclComm comm, aclrtStream stream) {
    uint32_t rank = 0;
    ASSERT_EQ(HcclGetRankId(comm, &rank), HCCL_SUCCESS);
    void*& memory = memories[rank];
    ASSERT_EQ(aclrtMalloc(&memory, kCount * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
    const std::vector<float> ones(kCount, 1.0F);
    std::vector<float> got(kCount);
    EXPECT_EQ(aclrtMemcpy(memory, kCount * 4, ones.data(), kCount * 4, ACL_MEMCPY_HOST_TO_DEVICE),
              ACL_SUCCESS);
    EXPECT_EQ(HcclAllReduce(memory, memory, kCount, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream),
              HCCL_SUCCESS);
    EXPECT_EQ(aclrtMemcpyAsync(got.data(), kCount * 4, memory, kCount * 4, ACL_MEMCPY_DEVICE_TO_HOST, stream),
              ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS) << recent_text();
    EXPECT_EQ(got, std::vector<float>(kCount, 2.0F));
  });
  for (void* const memory : memories) {
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(static_cast<float*>(memory)[kCount - 1], 2.0F);
    EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
  }
}

/// One rank gives its calls to streams in turns, the other one all to one; some wait for others.
TEST(Threads, begin_calls_in_their_order_whatever_their_streams) {
  run_ranks(2, [](HcclComm comm, aclrtStream first) {
    hccl_checks::Checker checker(comm, first);
    aclrtStream second = nullptr;
    ASSERT_EQ(aclrtCreateStream(&second), ACL_SUCCESS);
    constexpr int32_t kCalls = 200;
    std::vector<std::vector<int32_t>> data;
    for (int32_t call = 0; call < kCalls; ++call) data.emplace_back(static_cast<size_t>(1 + call), call);
    for (int32_t call = 0; call < kCalls; ++call) {
      auto& of = data[static_cast<size_t>(call)];
      const aclrtStream stream = checker.rank() == 1 || call % 3 == 0 ? first : second;
      EXPECT_EQ(
          HcclAllReduce(of.data(), of.data(), of.size(), HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream),
          HCCL_SUCCESS);
    }
    EXPECT_EQ(aclrtSynchronizeStream(first), ACL_SUCCESS) << recent_text();
    EXPECT_EQ(aclrtSynchronizeStream(second), ACL_SUCCESS) << recent_text();
    for (int32_t call = 0; call < kCalls; ++call)
      EXPECT_EQ(data[static_cast<size_t>(call)],
                std::vector<int32_t>(static_cast<size_t>(1 + call), 2 * call));
    EXPECT_EQ(aclrtDestroyStream(second), ACL_SUCCESS);
  });
}

TEST(Threads, are_given_up_when_one_destroys_its_communicator_and_others_call) {
  run_ranks(2, [](HcclComm comm, aclrtStream stream) {
    hccl_checks::Checker checker(comm, stream);
    if (checker.rank() == 0) return;
    float one = 1;
    EXPECT_EQ(HcclAllReduce(&one, &one, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream), HCCL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INTERNAL_ERROR);
    EXPECT_THAT(recent_text(), HasSubstr("rank 0"));
    HcclResult failure = HCCL_SUCCESS;
    EXPECT_EQ(HcclGetCommAsyncError(comm, &failure), HCCL_SUCCESS);
    EXPECT_EQ(failure, HCCL_E_REMOTE);
  });
}

// Streams.

class Streams : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&first_), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&second_), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateEvent(&event_), ACL_SUCCESS);
  }
  void TearDown() override {
    aclrtSetOpWaitTimeout(0);
    aclrtDestroyStream(first_);
    aclrtDestroyStream(second_);
    EXPECT_EQ(aclrtDestroyEvent(event_), ACL_SUCCESS);
  }
  /// The stream goes on when the gate is open.
  static void hold(aclrtStream stream, std::atomic<bool>& gate) {
    const auto wait = [](void* args) {
      while (!static_cast<std::atomic<bool>*>(args)->load()) std::this_thread::sleep_for(1ms);
    };
    ASSERT_EQ(aclrtLaunchHostFunc(stream, wait, &gate), ACL_SUCCESS);
  }

  aclrtStream first_ = nullptr;
  aclrtStream second_ = nullptr;
  aclrtEvent event_ = nullptr;
};

TEST_F(Streams, do_what_they_are_given_in_its_order_besides_the_caller) {
  std::atomic<bool> gate = false;
  hold(first_, gate);
  std::vector<int> data(100, 0);
  EXPECT_EQ(aclrtMemsetAsync(data.data(), 400, 0xff, 400, first_), ACL_SUCCESS);
  std::vector<int> copy(100, 5);
  EXPECT_EQ(aclrtMemcpyAsync(copy.data(), 400, data.data(), 400, ACL_MEMCPY_DEFAULT, first_), ACL_SUCCESS);
  EXPECT_EQ(copy, std::vector<int>(100, 5));
  aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;
  EXPECT_EQ(aclrtStreamQuery(first_, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(first_, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  gate = true;
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(first_, 60000), ACL_SUCCESS);
  EXPECT_EQ(copy, std::vector<int>(100, -1));
  EXPECT_EQ(aclrtStreamQuery(first_, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST_F(Streams, wait_for_where_an_event_was_recorded_last) {
  EXPECT_EQ(aclrtStreamWaitEvent(second_, event_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(second_), ACL_SUCCESS);  // it was recorded nowhere
  std::atomic<bool> gate = false;
  hold(first_, gate);
  EXPECT_EQ(aclrtRecordEvent(event_, first_), ACL_SUCCESS);
  int reached = 0;
  EXPECT_EQ(aclrtStreamWaitEvent(second_, event_), ACL_SUCCESS);
  EXPECT_EQ(aclrtLaunchHostFunc(
                second_, [](void* args) { *static_cast<int*>(args) = 1; }, &reached),
            ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(second_, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aclrtEventStatus status = ACL_EVENT_STATUS_COMPLETE;
  EXPECT_EQ(aclrtQueryEvent(event_, &status), ACL_SUCCESS);
  EXPECT_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  gate = true;
  EXPECT_EQ(aclrtSynchronizeStream(second_), ACL_SUCCESS);
  EXPECT_EQ(reached, 1);
  EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
  EXPECT_EQ(aclrtResetEvent(event_, first_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(first_), ACL_SUCCESS);
  float ms = 0;
  EXPECT_EQ(aclrtEventElapsedTime(&ms, event_, event_), ACL_ERROR_INVALID_PARAM);
}

TEST_F(Streams, do_nothing_after_a_failure_until_that_is_told_and_events_take_it_along) {
  std::atomic<bool> gate = false;
  hold(first_, gate);
  EXPECT_EQ(aclrtRecordEvent(event_, first_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetOpWaitTimeout(1), ACL_SUCCESS);
  EXPECT_EQ(aclrtStreamWaitEvent(second_, event_), ACL_SUCCESS);
  int done = 0;
  const auto count = [](void* args) { ++*static_cast<int*>(args); };
  EXPECT_EQ(aclrtLaunchHostFunc(second_, count, &done), ACL_SUCCESS);
  aclrtEvent later = nullptr;
  aclrtStream third = nullptr;
  EXPECT_EQ(aclrtCreateEvent(&later), ACL_SUCCESS);
  EXPECT_EQ(aclrtCreateStream(&third), ACL_SUCCESS);
  EXPECT_EQ(aclrtRecordEvent(later, second_), ACL_SUCCESS);
  EXPECT_EQ(aclrtSetOpWaitTimeout(0), ACL_SUCCESS);
  EXPECT_EQ(aclrtStreamWaitEvent(third, later), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(second_), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  EXPECT_THAT(recent_text(), HasSubstr("aclrtSetOpWaitTimeout"));
  EXPECT_EQ(done, 0);
  EXPECT_EQ(aclrtSynchronizeStream(third), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  EXPECT_EQ(aclrtLaunchHostFunc(second_, count, &done), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(second_), ACL_SUCCESS);
  EXPECT_EQ(done, 1);
  gate = true;
  EXPECT_EQ(aclrtSynchronizeStream(first_), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyStream(third), ACL_SUCCESS);
  EXPECT_EQ(aclrtDestroyEvent(later), ACL_SUCCESS);
}

TEST_F(Streams, are_told_what_is_none_of_theirs) {
  EXPECT_EQ(aclrtRecordEvent(event_, &event_), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(recent_text(), HasSubstr("is no stream"));
  EXPECT_EQ(aclrtRecordEvent(first_, first_), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtLaunchHostFunc(first_, nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(first_, -2), ACL_ERROR_INVALID_PARAM);
}

TEST(Devices, are_set_by_each_thread_for_itself) {
  std::thread([] {
    aclrtStream stream = nullptr;
    EXPECT_EQ(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_THAT(recent_text(), HasSubstr("aclrtSetDevice"));
    aclrtContext context = nullptr;
    EXPECT_EQ(aclrtCreateContext(&context, 3), ACL_SUCCESS);
    int32_t device = -1;
    EXPECT_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
    EXPECT_EQ(device, 3);
    int done = 0;
    EXPECT_EQ(aclrtLaunchHostFunc(
                  nullptr, [](void* args) { *static_cast<int*>(args) = 1; }, &done),
              ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(aclrtSetDevice(1), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetCurrentContext(context), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyContext(context), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSetCurrentContext(context), ACL_ERROR_RT_PARAM_INVALID);
  }).join();
  uint32_t count = 0;
  EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
  EXPECT_GE(count, 8U);
  EXPECT_EQ(aclrtSetDevice(static_cast<int32_t>(count)), ACL_ERROR_RT_INVALID_DEVICEID);
}

TEST(Process, is_initialized_once) {
  EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
  EXPECT_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
  EXPECT_EQ(aclFinalize(), ACL_ERROR_UNINITIALIZE);
}

TEST(Configuration, is_what_ranks_join_with) {
  HcclCommConfig config;
  HcclCommConfigInit(&config);
  HcclRootInfo info;
  HcclComm comm = nullptr;
  ASSERT_EQ(HcclGetRootInfo(&info), HCCL_SUCCESS);
  std::snprintf(config.hcclCommName, sizeof config.hcclCommName, "mine");
  config.hcclBufferSize = 1;
  ASSERT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm), HCCL_SUCCESS) << recent_text();
  char name[COMM_NAME_MAX_LENGTH] = {};
  EXPECT_EQ(HcclGetCommName(comm, name), HCCL_SUCCESS);
  EXPECT_STREQ(name, "mine");
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_E_PARA);
  config.hcclDeterministic = 3;
  EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &config, &comm), HCCL_E_PARA);
  HcclCommConfig unmade{};
  EXPECT_EQ(HcclCommInitRootInfoConfig(1, &info, 0, &unmade, &comm), HCCL_E_PARA);
  EXPECT_THAT(recent_text(), HasSubstr("HcclCommConfigInit"));
  info.internal[20] ^= 1;
  EXPECT_EQ(HcclCommInitRootInfo(1, &info, 0, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(2, &info, 2, &comm), HCCL_E_PARA);
  EXPECT_EQ(HcclCommInitRootInfo(2, nullptr, 0, &comm), HCCL_E_PTR);
  EXPECT_STREQ(HcclGetErrorString(HCCL_E_PTR), "a pointer is null");
}

}  // namespace
}  // namespace cohort::hccl_threads_test
