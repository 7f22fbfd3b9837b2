// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/framed/staging.h>
#include <cohort/net/letter.h>
#include <cohort/net/link_host.h>
#include <cohort/notify/notify.h>

#include <functional>
#include <memory>
#include <vector>

namespace cohort::framed {

/// Letters over two streams, one for each direction, which the sender makes when it has something to say:
/// so neither rank has to know what the other one is about to do.
///
/// What the stream does not take at once of a letter is kept, one letter at most: nothing of the caller's is
/// needed after try_send(). A payload goes from the stream to its place; only small ones, which come together
/// with their headers, are copied once more.
class StreamLetters final : public LetterChannel {
 public:
  /// Makes one direction's stream: calls, or waits for a call.
  using Open = std::function<Task<std::unique_ptr<ByteStream>>()>;

  StreamLetters(LinkHost& host, LetterHandler& handler, TaskScope& services, Rank own, Rank peer, Open call,
                Open wait_for_call);

  [[nodiscard]] std::size_t most_payload() const noexcept override { return kMostPayload; }
  [[nodiscard]] bool try_send(const Letter& letter, const std::byte* payload) noexcept override;
  [[nodiscard]] bool peek(Letter& letter) noexcept override;
  [[nodiscard]] bool take(std::byte* into) noexcept override;
  [[nodiscard]] bool has_lost_words() const noexcept override { return has_lost_words_; }

  /// As ByteStream::until_sent(), for what try_send() has taken.
  [[nodiscard]] Task<> until_sent();
  /// Closes both, without a report.
  void shutdown() noexcept;

 private:
  static constexpr std::size_t kMostPayload = std::size_t{64} << 10;

  Task<> serve_sending(Open call);
  Task<> serve_receiving(Open wait_for_call);
  Task<> serve(Task<> one);
  void flush() noexcept;
  void wake_waiter() noexcept;
  /// Receives once; false if nothing has come.
  [[nodiscard]] bool receive(std::span<std::byte> into, std::size_t& bytes) noexcept;
  void fail(const Error& error) noexcept;
  /// What the peer has sent is read all the same: it may have left with its last words on their way.
  void fail_sending(const Error& error) noexcept;

  LinkHost& host_;
  LetterHandler& handler_;
  TaskScope& services_;
  const Rank own_;
  const Rank peer_;
  Open call_;
  bool is_called_ = false;
  bool is_closed_ = false;

  std::unique_ptr<ByteStream> out_;  ///< null until the peer was called
  std::vector<std::byte> kept_;      ///< of the letter that is going out
  std::size_t kept_sent_ = 0;
  bool is_out_over_ = false;
  Notify work_;
  Notify sent_;  ///< nothing is kept any more
  bool is_waited_for_ = false;

  std::unique_ptr<ByteStream> in_;  ///< null until the peer has called
  Staging staging_;
  bool has_header_ = false;
  Letter next_;
  std::size_t taken_ = 0;  ///< of its payload
  bool has_lost_words_ = false;
};

}  // namespace cohort::framed
