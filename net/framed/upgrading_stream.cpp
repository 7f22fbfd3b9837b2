// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/upgrading_stream.h>

#include <cerrno>

namespace cohort::framed {

Task<int> UpgradingStream::receive_some(std::span<std::byte> into) {
  co_await until_readable();
  co_return try_receive_some(into);
}

void UpgradingStream::shutdown() noexcept {
  is_closed_ = true;
  if (first_) first_->shutdown();
  if (second_) second_->shutdown();
}

Task<> UpgradingStream::open_second() {
  std::unique_ptr<ByteStream> second = co_await open_();
  if (second && is_closed_) second->shutdown();
  second_ = std::move(second);
}

void UpgradingStream::end_first() noexcept {
  is_first_over_ = true;
  first_->shutdown();
  if (!is_waiting_) first_.reset();
}

Task<> UpgradingStream::wait_on_first(Task<> waiting) {
  is_waiting_ = true;
  co_await waiting;
  is_waiting_ = false;
  if (is_first_over_) first_.reset();
}

int UpgradingSender::try_send_some(std::span<const std::byte> first,
                                   std::span<const std::byte> second) noexcept {
  if (second_ && !is_first_over_) end_first();
  return current().try_send_some(first, second);
}

Task<> UpgradingSender::until_writable() {
  return is_first_over_ ? second_->until_writable() : wait_on_first(first_->until_writable());
}

/// Who waits for room on the first one goes over when it sends on.
Task<> UpgradingSender::serve() {
  co_await open_second();
  if (second_ && !is_waiting_ && !is_first_over_) end_first();
}

int UpgradingReceiver::try_receive_some(std::span<std::byte> into) noexcept {
  if (!has_read_first_) {
    const int result = first_->try_receive_some(into);
    if (result != 0) return result;
    has_read_first_ = true;
  }
  if (second_ && !is_first_over_) end_first();
  if (is_first_over_) return second_->try_receive_some(into);
  return is_settled_ || is_closed_ ? 0 : -EAGAIN;
}

Task<> UpgradingReceiver::until_readable() {
  if (!has_read_first_) {
    co_await wait_on_first(first_->until_readable());
  } else if (!second_) {
    if (!is_settled_ && !is_closed_) co_await settled_.wait();
  } else {
    co_await second_->until_readable();
  }
}

Task<> UpgradingReceiver::serve() {
  co_await open_second();
  settle();
}

void UpgradingReceiver::shutdown() noexcept {
  UpgradingStream::shutdown();
  if (settled_.untaken_posts() == 0) settled_.post();
}

void UpgradingReceiver::settle() noexcept {
  is_settled_ = true;
  if (settled_.untaken_posts() == 0) settled_.post();
}

}  // namespace cohort::framed
