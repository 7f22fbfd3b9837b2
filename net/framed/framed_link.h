// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/framed/connection.h>
#include <cohort/net/framed/frame_reader.h>
#include <cohort/net/framed/frame_writer.h>

#include <memory>
#include <string_view>

namespace cohort::framed {

/// A link over one stream of bytes: every effect is a frame, and both directions run independently of each
/// other.
///
/// Each frame says which collective it belongs to. One that is ahead of this rank waits in the connection
/// until operation_started(); one of another signature is a mismatch; one that is behind, or that names bytes
/// which this rank's schedule or windows do not have, fails the link.
///
/// Bytes are only moved while somebody runs here, or by a device that is stopped first, so an operation that
/// is cancelled ends at once; if half of it had been done, the link is broken then, silently: whoever cancels
/// knows. A broken link completes nothing: what is started on it waits for its scope to be cancelled.
///
/// Several operations may be under way in each direction, but one get and one wait for each signal: what they
/// send goes out in the order of their start, and what comes is received by them in that order.
///
/// Those that receive complete in that order too; those that send complete as their memory may be used again,
/// which of a small message may be before a large one that was started earlier.
///
/// Threads: the engine's. Lifetime: no operation on it when it ends (asserted), and serve() is over.
class FramedLink : public Link {
 public:
  /// `transport`: the name of its kind, which outlives it.
  FramedLink(Engine& engine, std::unique_ptr<ByteStream> stream, LinkOwner& host, Rank self, Rank peer,
             Lane lane, std::string_view transport);
  ~FramedLink() override;

  [[nodiscard]] std::string_view transport() const noexcept override { return transport_; }

  /// Runs the link until shutdown() or until it fails, which it reports to its owner. Throws nothing.
  Task<> serve();
  /// The owner's running() has moved on to the next collective.
  void operation_started() noexcept;
  /// As ByteStream::until_sent().
  [[nodiscard]] Task<> until_sent() { return connection_.stream.until_sent(); }
  /// Closes the connection, without a report; serve() ends.
  void shutdown() noexcept { connection_.close(); }
  /// Whether an operation waits here for bytes that will not come, since the connection is closed.
  [[nodiscard]] bool is_cut_off() const noexcept { return !connection_.is_open && reader_.is_awaited(); }

 private:
  bool start(LinkOperation& operation) override;
  void cancel(LinkOperation& operation) noexcept override;

  Task<> serve_half(Task<> half);

  const std::string_view transport_;
  Connection connection_;
  // Sources, each by itself, so that the loop may end its turn between them: while it is awake, bytes move
  // from there; before it sleeps, the stream is asked to tell.
  FrameWriter writer_;
  FrameReader reader_;
};

}  // namespace cohort::framed
