// SPDX-License-Identifier: Apache-2.0
// What must not hang or be mistaken for success: forks, streams of several threads, calls that wait for
// themselves, communicators that are closed.
#include <cohort/engine/system/sanitizers.h>
#include <cohort/tests/bindings/hccl/checks.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cohort::hccl_faults_test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr size_t kMapped = size_t{1} << 20;  // enough for memory that ranks map

void fail(void*) { throw std::runtime_error("a function of the test's fails"); }
void count(void* number) { ++*static_cast<int*>(number); }

std::string recent_text() {
  const char* const text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateEvent(&event_), ACL_SUCCESS);
  }
  void TearDown() override {
    gate_ = true;
    aclrtDestroyStream(stream_);
    EXPECT_EQ(aclrtDestroyEvent(event_), ACL_SUCCESS);
  }
  /// The stream goes on when the gate is open.
  void hold() {
    const auto wait = [](void* gate) {
      while (!static_cast<std::atomic<bool>*>(gate)->load()) std::this_thread::sleep_for(1ms);
    };
    ASSERT_EQ(aclrtLaunchHostFunc(stream_, wait, &gate_), ACL_SUCCESS);
  }
  /// A thread that synchronizes the stream, and sleeps in that when this returns.
  std::thread synchronize(aclError& code) {
    std::atomic<pid_t> thread = 0;
    std::thread synchronizing([this, &thread, &code] {
      thread = ::gettid();
      code = aclrtSynchronizeStream(stream_);
    });
    while (thread == 0 || state_of(thread) != 'S') std::this_thread::sleep_for(1ms);
    return synchronizing;
  }
  static char state_of(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const size_t name_end = text.rfind(") ");
    return name_end == std::string::npos ? '?' : text[name_end + 2];
  }

  aclrtStream stream_ = nullptr;
  aclrtEvent event_ = nullptr;
  std::atomic<bool> gate_ = false;
};

// A stream's failure.

TEST_F(Faults, of_a_stream_are_told_to_all_who_wait_for_it) {
  if (sanitizers::kThread)
    GTEST_SKIP()
        << "libstdc++ counts the owners of an exception by atomics that ThreadSanitizer does not see";
  hold();
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, fail, nullptr), ACL_SUCCESS);
  aclError first = ACL_SUCCESS, second = ACL_SUCCESS;
  std::thread one = synchronize(first), other = synchronize(second);
  gate_ = true;
  one.join();
  other.join();
  EXPECT_EQ(first, ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(second, ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

TEST_F(Faults, of_a_stream_are_not_told_to_who_waits_for_less) {
  hold();
  aclError earlier = ACL_ERROR_INTERNAL_ERROR;
  std::thread waiting = synchronize(earlier);
  int done = 0;
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, fail, nullptr), ACL_SUCCESS);
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, count, &done), ACL_SUCCESS);
  gate_ = true;
  waiting.join();
  EXPECT_EQ(earlier, ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(aclrtLaunchHostFunc(stream_, count, &done), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
  EXPECT_EQ(done, 1);
}

TEST_F(Faults, of_a_stream_last_until_all_that_is_skipped_is_waited_for) {
  hold();
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, fail, nullptr), ACL_SUCCESS);
  aclError earlier = ACL_SUCCESS;
  std::thread waiting = synchronize(earlier);
  int done = 0;
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, count, &done), ACL_SUCCESS);
  gate_ = true;
  waiting.join();
  EXPECT_EQ(earlier, ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(done, 0);
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS);
}

// What would wait for itself.

struct Own {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  aclrtContext context = nullptr;
  HcclComm comm = nullptr;
  std::vector<int> codes{};
  std::string text{};
};

TEST_F(Faults, of_functions_that_wait_for_their_own_stream_are_refused) {
  int32_t device = 0;
  Own own{.stream = stream_, .event = event_};
  ASSERT_EQ(HcclCommInitAll(1, &device, &own.comm), HCCL_SUCCESS) << recent_text();
  hold();
  const auto wait = [](void* args) {
    Own& of = *static_cast<Own*>(args);
    of.codes = {aclrtSynchronizeStream(of.stream), aclrtDestroyStream(of.stream),
                aclrtSynchronizeEvent(of.event), static_cast<int>(HcclCommDestroy(of.comm))};
    of.text = recent_text();
  };
  ASSERT_EQ(aclrtLaunchHostFunc(stream_, wait, &own), ACL_SUCCESS);
  ASSERT_EQ(HcclBarrier(own.comm, stream_), HCCL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  gate_ = true;
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << recent_text();
  constexpr int kRefused = ACL_ERROR_INVALID_PARAM;
  EXPECT_EQ(own.codes, (std::vector<int>{kRefused, kRefused, kRefused, HCCL_E_PARA}));
  EXPECT_THAT(own.text, HasSubstr("HcclCommDestroy: a function that a stream calls"));
  EXPECT_EQ(HcclCommDestroy(own.comm), HCCL_SUCCESS);
}

TEST_F(Faults, of_functions_that_end_the_context_of_their_own_stream_are_refused) {
  Own own;
  ASSERT_EQ(aclrtCreateContext(&own.context, 0), ACL_SUCCESS);
  const auto end = [](void* args) {
    Own& of = *static_cast<Own*>(args);
    of.codes = {aclrtDestroyContext(of.context)};
  };
  ASSERT_EQ(aclrtLaunchHostFunc(nullptr, end, &own), ACL_SUCCESS);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  EXPECT_EQ(own.codes, std::vector<int>{ACL_ERROR_INVALID_PARAM});
  EXPECT_EQ(aclrtDestroyContext(own.context), ACL_SUCCESS);
}

// A forked child.

/// The number of the first check that is not so; 0: none.
int check_child(aclrtStream stream, aclrtEvent event, HcclComm comm) {
  constexpr aclError kNone = ACL_ERROR_RT_PARAM_INVALID;
  int number = 0;
  aclrtStreamStatus status{};
  void* memory = nullptr;
  if (++number, aclrtLaunchHostFunc(stream, count, &number) != kNone) return number;
  if (++number, aclrtSynchronizeStream(stream) != kNone) return number;
  if (++number, aclrtStreamQuery(stream, &status) != kNone) return number;
  if (++number, aclrtSynchronizeEvent(event) != kNone) return number;
  if (++number, aclrtRecordEvent(event, stream) != kNone) return number;
  if (++number, HcclBarrier(comm, stream) != HCCL_E_PARA) return number;
  if (++number, recent_text().find("forked") == std::string::npos) return number;
  if (++number, HcclCommDestroy(comm) != HCCL_E_PARA) return number;
  if (++number, aclrtSynchronizeDevice() != ACL_SUCCESS) return number;
  if (++number, aclrtDestroyStream(stream) != ACL_SUCCESS) return number;
  if (++number, aclrtMalloc(&memory, kMapped, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return number;
  if (++number, aclrtFree(memory) != ACL_SUCCESS) return number;
#ifndef __SANITIZE_THREAD__  // takes no new threads in a child
  int done = 0;
  aclrtStream own = nullptr;
  if (++number, aclrtCreateStream(&own) != ACL_SUCCESS) return number;
  for (const aclrtStream one : {own, aclrtStream{nullptr}}) {
    if (++number, aclrtLaunchHostFunc(one, count, &done) != ACL_SUCCESS) return number;
    if (++number, aclrtSynchronizeStream(one) != ACL_SUCCESS) return number;
  }
  if (++number, done != 2) return number;
  if (++number, aclrtDestroyStream(own) != ACL_SUCCESS) return number;
#endif
  return 0;
}

TEST_F(Faults, of_a_forked_child_are_told_at_once) {
  if (sanitizers::kThread) GTEST_SKIP() << "ThreadSanitizer ends children of a process with several threads";
  int32_t device = 0;
  int done = 0;
  HcclComm comm = nullptr;
  ASSERT_EQ(HcclCommInitAll(1, &device, &comm), HCCL_SUCCESS) << recent_text();
  ASSERT_EQ(aclrtLaunchHostFunc(nullptr, count, &done), ACL_SUCCESS);
  hold();
  ASSERT_EQ(HcclBarrier(comm, stream_), HCCL_SUCCESS);
  ASSERT_EQ(aclrtRecordEvent(event_, stream_), ACL_SUCCESS);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(100);  // ends it where it hangs
    std::_Exit(check_child(stream_, event_, comm));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate_ = true;
  EXPECT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << recent_text();
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
}

// Communicators.

bool is_mapped_by_all(const void* memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory);
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uintptr_t first = 0, end = 0;
    char dash = 0;
    std::string access;
    words >> std::hex >> first >> dash >> end >> access;
    if (first <= at && at < end) return access.back() == 's';
  }
  return false;
}

/// Which memory keeps, but which has no more of it to give.
TEST_F(Faults, of_a_closed_communicator_are_none_of_the_next_one) {
  int32_t devices[] = {0, 1};
  void* memory[2] = {};
  for (void*& one : memory) {
    HcclComm comms[2] = {};
    ASSERT_EQ(HcclCommInitAll(2, devices, comms), HCCL_SUCCESS) << recent_text();
    ASSERT_EQ(aclrtMalloc(&one, kMapped, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    EXPECT_TRUE(is_mapped_by_all(one));
    std::thread other([&comms] { EXPECT_EQ(HcclCommDestroy(comms[1]), HCCL_SUCCESS); });
    EXPECT_EQ(HcclCommDestroy(comms[0]), HCCL_SUCCESS);
    other.join();
  }
  for (void* const one : memory) EXPECT_EQ(aclrtFree(one), ACL_SUCCESS);
}

}  // namespace
}  // namespace cohort::hccl_faults_test
