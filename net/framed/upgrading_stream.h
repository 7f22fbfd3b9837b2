// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/framed/byte_stream.h>
#include <cohort/notify/notify.h>

#include <functional>
#include <memory>
#include <utility>

namespace cohort::framed {

/// Bytes in one direction that begin on a stream which takes them before anything at the peer answers, and go
/// on on a faster one as soon as both ends have made that. Where either cannot make it, all stays on the
/// first.
///
/// The second stream begins where the first one ends, so that bytes keep their order and none travels twice.
/// Who sends ends the first one when both ends of the second are there; who receives reads the first one to
/// its end, and whether it has a second one tells whether that was all.
///
/// Lifetime: serve() is over when it ends.
class UpgradingStream : public ByteStream {
 public:
  /// Makes this end of the second stream while the peer makes the other. Null: one of them cannot.
  using Open = std::function<Task<std::unique_ptr<ByteStream>>()>;

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override {
    return current().try_send_some(first, second);
  }
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override {
    return current().try_receive_some(into);
  }
  [[nodiscard]] bool asks_kernel() const noexcept override { return current().asks_kernel(); }
  [[nodiscard]] bool is_readable() const noexcept override { return current().is_readable(); }
  [[nodiscard]] Task<> until_writable() override { return current().until_writable(); }
  [[nodiscard]] Task<> until_readable() override { return current().until_readable(); }
  [[nodiscard]] Task<int> receive_some(std::span<std::byte> into) final;
  [[nodiscard]] Task<> until_sent() override { return current().until_sent(); }
  void shutdown() noexcept override;
  [[nodiscard]] std::string explain(int error_number) const override {
    return current().explain(error_number);
  }

 protected:
  UpgradingStream(std::unique_ptr<ByteStream> first, Open open) noexcept
      : first_(std::move(first)), open_(std::move(open)) {}

  [[nodiscard]] ByteStream& current() const noexcept { return is_first_over_ ? *second_ : *first_; }
  Task<> open_second();
  /// From now on the second one is the current one.
  void end_first() noexcept;
  /// Waits on the first one, which stays until that is over.
  Task<> wait_on_first(Task<> waiting);

  std::unique_ptr<ByteStream> first_;
  std::unique_ptr<ByteStream> second_;
  bool is_first_over_ = false;
  bool is_waiting_ = false;  ///< somebody is, on the first one
  bool is_closed_ = false;

 private:
  const Open open_;
};

/// The sending end.
class UpgradingSender final : public UpgradingStream {
 public:
  UpgradingSender(std::unique_ptr<ByteStream> first, Open open) noexcept
      : UpgradingStream(std::move(first), std::move(open)) {}

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override;
  [[nodiscard]] Task<> until_writable() override;
  /// Goes over to the second stream.
  [[nodiscard]] Task<> serve() override;
};

/// The receiving end.
class UpgradingReceiver final : public UpgradingStream {
 public:
  UpgradingReceiver(std::unique_ptr<ByteStream> first, Open open) noexcept
      : UpgradingStream(std::move(first), std::move(open)) {}

  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override;
  [[nodiscard]] Task<> until_readable() override;
  void shutdown() noexcept override;
  [[nodiscard]] Task<> serve() override;

 private:
  void settle() noexcept;

  bool has_read_first_ = false;  ///< to its end
  bool is_settled_ = false;      ///< whether there is a second one
  Notify settled_;
};

}  // namespace cohort::framed
