// SPDX-License-Identifier: Apache-2.0
// A rank whose call fails has its memory back and uses it for something else. Others that read it then are
// told of the failure, and never return what they have read.
#include <cohort/tests/collectives/core/given_back_memory.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstring>

namespace {

using cohort::test::hold;
using cohort::test::hold_up;

/// The next process that is read from has ended by then, and another one has its number.
bool is_number_reused = false;

void fill_from_another(pid_t process, const iovec& into) noexcept {
  const auto watch = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  ::kill(process, SIGKILL);
  pollfd entry{.fd = watch, .events = POLLIN, .revents = 0};
  if (::poll(&entry, 1, 60'000) != 1) ::_exit(cohort::test::kNoWord);
  ::close(watch);
  std::memset(into.iov_base, 0x5a, into.iov_len);
}

}  // namespace

// In place of the system's.

extern "C" ssize_t process_vm_readv(pid_t process, const iovec* local, unsigned long local_count,
                                    const iovec* remote, unsigned long remote_count,
                                    unsigned long flags) noexcept {
  if (std::exchange(hold.is_before_copy, false)) hold_up();
  if (std::exchange(is_number_reused, false)) {
    fill_from_another(process, *local);
    return static_cast<ssize_t>(local->iov_len);
  }
  return ::syscall(SYS_process_vm_readv, process, local, local_count, remote, remote_count, flags);
}

extern "C" ssize_t process_vm_writev(pid_t process, const iovec* local, unsigned long local_count,
                                     const iovec* remote, unsigned long remote_count,
                                     unsigned long flags) noexcept {
  if (std::exchange(hold.is_before_copy, false)) hold_up();
  return ::syscall(SYS_process_vm_writev, process, local, local_count, remote, remote_count, flags);
}

namespace cohort::test::given_back_memory_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;

void expect_to_be_held_before_copy(const Words& words) {
  hold.words = &words;
  hold.is_before_copy = true;
}

/// Calls it once, so that all that it needs is there, and again.
Task<int> give_up_when_peer_is_held(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  auto until_held = [&]() -> Task<> {
    while (!words.is_held.has_come()) co_await comm.engine().sleep_for(1ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, until_held());
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

/// It takes its block, or the first rank's.
Task<int> be_held_amid_work(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  if (work.is_by_kernel)
    expect_to_be_held_before_copy(words);
  else
    expect_to_be_held_at(&memory.out[work.count - 1], words);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  words.is_over.tell();
  co_return status_of(error);
}

// Whatever way the bytes take: where the call is made, in turns with others, in a schedule, where they were
// announced; over links; in messages; by the kernel, from a peer and to it.
TEST(GivenBackMemory, of_a_peer_that_gave_up_on_a_rank_is_in_no_result_of_its) {
  constexpr std::size_t kSmall = std::size_t{8} << 10;
  constexpr std::size_t kLarge = std::size_t{256} << 10;
  constexpr std::size_t kMessage = std::size_t{12} << 10;
  GivenBack({{"reduce_scatter", reduce_scatter, "direct", kSmall},
             {"large reduce_scatter", reduce_scatter, "direct", kLarge},
             {"reduce_scatter", reduce_scatter, "slots", kSmall},
             {"all_gather", all_gather, "direct", kSmall},
             {"broadcast", broadcast, "tree", kSmall},
             {"all_gather", all_gather, "ring", kSmall},
             {"message", send_or_recv, "", kMessage},
             {"private all_gather", all_gather, "direct", kSmall, false, true},
             {"private gather", gather, "direct", kSmall, false, true},
             {"private message", send_or_recv, "", kMessage, false, true}},
            {give_up_when_peer_is_held, be_held_amid_work}, {kGaveUp, kWasTold})
      .run();
}

Task<int> give_up_while_peer_computes(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  words.is_held.wait();
  auto awhile = [&]() -> Task<> {
    co_await comm.engine().sleep_for(100ms);
    co_await give_up();
  };
  const int status = co_await work_until(comm, work, memory, awhile());
  words.goes_on.tell();
  words.is_over.wait();
  co_return status;
}

Task<int> compute_amid_work(Communicator& comm, const Work& work, const Words& words) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  auto compute = [&]() -> Task<> {
    words.is_held.tell();
    words.goes_on.wait();
    co_return;
  };
  auto both = [&]() -> Task<> {
    co_await when_all(work.calls(comm, work, memory.in, memory.out), compute());
  };
  const auto error = co_await error_of(both());
  words.is_over.tell();
  co_return status_of(error);
}

/// Of another host: what was sent before is here.
Task<int> be_told_or_have_it(Communicator& comm, const Work& work, const Words&) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  const bool has_it = std::ranges::count(memory.out, kReused) == 0;
  co_return !error && has_it ? kWasTold : status_of(error);
}

// Nobody is stopped, and nobody waits for the rank that computes: its engine finds what was announced when it
// goes on.
TEST(GivenBackMemory, of_a_peer_that_gave_up_is_not_read_by_a_rank_that_comes_to_it_later) {
  constexpr std::size_t kCount = std::size_t{32} << 10;
  GivenBack({{"broadcast", broadcast, "one_shot", kCount},
             {"broadcast between hosts", broadcast, "", kCount, true, false, 2}},
            {give_up_while_peer_computes, compute_amid_work, be_told_or_have_it},
            {kGaveUp, kWasTold, kWasTold})
      .run();
}

Task<int> die_amid_work(Communicator& comm, const Work& work, const Words&) {
  const Memory memory(comm, work, work.is_shared);
  for (;;) co_await work.calls(comm, work, memory.in, memory.out);
}

Task<int> outlive_peer(Communicator& comm, const Work& work, const Words&) {
  const Memory memory(comm, work, work.is_shared);
  co_await work.calls(comm, work, memory.in, memory.out);
  is_number_reused = true;
  const auto error = co_await error_of(work.calls(comm, work, memory.in, memory.out));
  co_return status_of(error);
}

TEST(GivenBackMemory, of_a_process_that_has_ended_is_not_taken_from_who_has_its_number) {
  GivenBack({{"private message", send_or_recv, "", std::size_t{12} << 10, false, true}},
            {die_amid_work, outlive_peer}, {-SIGKILL, kWasToldOfDeath})
      .run();
}

}  // namespace
}  // namespace cohort::test::given_back_memory_test
