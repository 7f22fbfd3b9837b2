// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/mutex.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/link_owner.h>
#include <cohort/net/packet.h>

#include <functional>
#include <memory>

namespace cohort::framed {

/// Bytes alone, on a stream that both ends make when the first message is asked for.
///
/// Errors: a stream that breaks is reported to the LinkOwner, but not before the peer has had time to say
/// that it gave up; what waits for it goes on waiting, for its cancellation, which breaks it, too. Threads:
/// the engine's. Lifetime: nothing is moved when it ends.
class BulkStream final : public BulkChannel {
 public:
  /// Makes the stream, while the peer does the same.
  using Open = std::function<Task<std::unique_ptr<ByteStream>>()>;

  BulkStream(Engine& engine, LinkOwner& host, Rank own, Rank peer, Open open)
      : engine_(engine), host_(host), own_(own), peer_(peer), open_(std::move(open)) {}

  [[nodiscard]] Task<> send(std::span<const std::byte> data) override;
  [[nodiscard]] Task<> receive(std::span<std::byte> data) override;

  void shutdown() noexcept override;

  /// As ByteStream::until_sent().
  [[nodiscard]] Task<> until_sent();
  /// Whether it broke, and not by this rank's shutdown(): what the peer had sent may be lost.
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }

 private:
  Task<> connect();
  Task<> receive_all(std::span<std::byte> data);
  /// Runs `moving` on the stream that it makes first; no memory of the caller's is touched after its end.
  Task<> on_stream(Task<> moving);
  /// `attempt`s pieces of it until all are moved; `wait`s where that finds nothing to do.
  template <class Byte, class Attempt, class Wait>
  Task<> move_all(std::span<Byte> data, Attempt attempt, Wait wait, const char* doing);

  Engine& engine_;
  LinkOwner& host_;
  const Rank own_;
  const Rank peer_;
  const Open open_;
  Mutex connecting_;
  std::unique_ptr<ByteStream> stream_;  ///< null until a message was asked for
  bool is_closed_ = false;
  bool is_broken_ = false;
};

}  // namespace cohort::framed
