// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/io/driver.h>

#include <cohort/tests/support/descriptors.h>
#include <cohort/tests/support/outcome.h>
#include <cohort/tests/support/virtual_engine.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace cohort::io_operation_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_of;
using cohort::test::kind_of;
using cohort::test::open_descriptors;
using cohort::test::socket_pair;
using cohort::test::VirtualEngine;

Task<int> run_alone(Engine& engine, IoOperation::Request request) {
  IoOperation operation(engine.driver(), request);
  co_return co_await operation;
}

/// The request is cancelled, and answered with `result` all the same: the kernel was faster.
void cancel_too_late(const IoOperation::Request& request, int result) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    engine.virtual_driver().set_cancel_answer(result);
    const auto error = co_await error_of(with_deadline(1s, run_alone(engine, request)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
  };
  engine.run(body());
}

TEST(IoOperation, gives_the_result_and_may_be_used_again) {
  VirtualEngine engine;
  auto body = [&]() -> Task<> {
    IoOperation operation(engine.driver(), {.kind = IoKind::poll});
    auto waits = [](IoOperation& request) -> Task<int> { co_return co_await request; };
    const auto error = co_await error_of(with_deadline(1s, waits(operation)));
    EXPECT_EQ(kind_of(error), "DeadlineExceeded");
    engine.post([&] { engine.virtual_driver().finish_next(-EPIPE); });
    const int failed = co_await operation;
    EXPECT_EQ(failed, -EPIPE);
    engine.post([&] { engine.virtual_driver().finish_next(7); });
    const int result = co_await operation;
    EXPECT_EQ(result, 7);
  };
  engine.run(body());
}

TEST(IoOperation, cancelled_throws_the_cause_even_if_the_kernel_was_faster) {
  cancel_too_late({.kind = IoKind::recv}, 100);
  cancel_too_late({.kind = IoKind::recv}, -ECONNRESET);
}

TEST(IoOperation, cancelled_receive_closes_descriptors_that_came_with_the_message) {
  const auto before = open_descriptors();
  {
    auto [a, b] = socket_pair();
    char byte = 'x';
    iovec piece{&byte, 1};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(3 * sizeof(int));
    const std::array<int, 3> sent = {a.number(), b.number(), STDOUT_FILENO};
    std::memcpy(CMSG_DATA(header), sent.data(), sizeof sent);
    ASSERT_EQ(::sendmsg(a.number(), &message, 0), 1);
    message.msg_controllen = control.size();
    ASSERT_EQ(::recvmsg(b.number(), &message, MSG_CMSG_CLOEXEC), 1);
    ASSERT_EQ(open_descriptors(), before + 5);
    cancel_too_late({.kind = IoKind::recv_message, .address = &message}, 1);
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace cohort::io_operation_test
