// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/engine/immovable.h>
#include <cohort/engine/task.h>
#include <cohort/engine/tuning.h>

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cohort::framed {

/// What frames and packets travel on: bytes to one peer and from it, in order, each direction by itself.
///
/// Results are those of system calls: bytes moved, 0 at the end of the stream, or minus the error number;
/// EAGAIN while there is nothing, or no room. Threads: the engine's. Lifetime: nobody waits on it when it
/// ends; shutdown() ends waits.
///
/// A device may move large pieces while nobody runs here. Then a call answers EAGAIN until they are moved:
/// its caller comes again with the same memory, as the second piece without a first one or to receive into,
/// and touches that memory only after an answer other than EAGAIN, or after shutdown().
///
/// Of other memory nobody holds on to anything when a call returns.
class ByteStream : Immovable {
 public:
  virtual ~ByteStream() = default;

  /// One attempt to send two pieces without waiting: how many bytes went out.
  [[nodiscard]] virtual int try_send_some(std::span<const std::byte> first,
                                          std::span<const std::byte> second) noexcept = 0;
  /// One attempt to receive without waiting.
  [[nodiscard]] virtual int try_receive_some(std::span<std::byte> into) noexcept = 0;

  // Large pieces, several at once, where a device moves them; other streams have nothing to do with it.

  /// Lends a piece whole, behind all that was sent: `first` is copied, and `second` is the device's until
  /// returned() has counted it. More may be sent and lent meanwhile. False: not now, or not this piece, and
  /// nothing has happened: try_send_some() knows.
  [[nodiscard]] virtual bool try_lend(std::span<const std::byte>, std::span<const std::byte>) noexcept {
    return false;
  }
  /// How many of the pieces that were lent are the caller's again since it was asked last, the oldest first;
  /// or minus the error number.
  [[nodiscard]] virtual int returned() noexcept { return 0; }
  /// Has the piece that comes next received into this memory, which is the device's until fetched() has
  /// counted it; what comes behind the piece may be received meanwhile. False: not now, or what comes next
  /// was not lent, or not as a whole of this size: try_receive_some() receives it, once all others were
  /// fetched.
  [[nodiscard]] virtual bool try_fetch(std::span<std::byte>) noexcept { return false; }
  /// How many pieces were fetched since it was asked last, the oldest first; or minus the error number.
  [[nodiscard]] virtual int fetched() noexcept { return 0; }
  /// Of either kind, that may be under way.
  static constexpr std::uint32_t kMostAtOnce = 16;

  /// What comes next is the rest of a message's payload, of so many bytes of which `come` have come. Not told
  /// of what has come whole.
  virtual void expect(std::size_t, std::size_t /*come*/) noexcept {}
  /// How much to give or ask for at once: of a longer message the rest comes in further calls. A stream
  /// without a bound is given messages whole: it may send their bytes in any order, out of the memory of the
  /// first call, until as many are out.
  [[nodiscard]] virtual std::size_t piece_bytes() const noexcept { return tuning::sockets::kPiece; }
  /// How large a block what is combined is received into: pieces that stay in the cache.
  [[nodiscard]] virtual std::size_t combining_bytes() const noexcept { return tuning::sockets::kCombined; }
  /// A block of the stream's to receive what comes next into, where that is better for combining; else none.
  /// The same until return_block(), which is called after each attempt, when its bytes were used.
  [[nodiscard]] virtual std::span<std::byte> borrow_block() noexcept { return {}; }
  virtual void return_block() noexcept {}
  /// Memory that is received into over and over, until the stream ends.
  virtual void will_receive_into(std::span<std::byte>) {}

  /// Suspends until try_send_some() would not answer EAGAIN. One waiter, and one in until_readable() or
  /// receive_some(). They throw only the cause of their scope.
  [[nodiscard]] virtual Task<> until_writable() = 0;
  /// The same for try_receive_some().
  [[nodiscard]] virtual Task<> until_readable() = 0;
  /// Receives once something has come; the memory outlives the task, which may also answer EAGAIN.
  [[nodiscard]] virtual Task<int> receive_some(std::span<std::byte> into) = 0;

  /// Whether the kernel has to be asked what has come. If not, is_readable() knows, after each turn of the
  /// loop and each wake-up of it.
  [[nodiscard]] virtual bool asks_kernel() const noexcept { return true; }
  /// Whether try_receive_some() would not answer EAGAIN, as far as is known: bytes, their end, or an error.
  [[nodiscard]] virtual bool is_readable() const noexcept { return false; }
  /// Whether who was called may send on it, too; else only who called does.
  [[nodiscard]] virtual bool goes_both_ways() const noexcept { return false; }
  /// What has to run beside, if anything has.
  [[nodiscard]] virtual Task<> serve() { co_return; }

  /// Suspends until what was sent has left this host, or cannot any more: shutdown() may drop the rest.
  /// Throws only the cause of its scope.
  [[nodiscard]] virtual Task<> until_sent() = 0;
  /// Whether the peer's host has what was sent, or never will: if the peer sends anything after shutdown(), a
  /// kernel may drop the rest.
  [[nodiscard]] virtual bool is_taken() noexcept { return true; }
  /// Ends both directions, here at once and at the peer in time. Idempotent.
  virtual void shutdown() noexcept = 0;
  /// What one of its error numbers means here, for people: what broke, and what to do.
  [[nodiscard]] virtual std::string explain(int error_number) const = 0;
  /// What one of its error numbers means to whoever was `doing_what`: LinkFault, ResourceLimit where this
  /// host has nothing left for it, or InvalidArgument for memory that this process does not have.
  [[nodiscard]] Error failure(int error_number, std::string_view doing_what) const {
    if (error_number == EFAULT)
      return Error(
          ErrorKind::InvalidArgument,
          fmt::format("{} failed: not all of the call's buffer is memory of this process, or it may not "
                      "be written to (EFAULT)",
                      doing_what));
    const bool is_limit = system_error(error_number, doing_what).kind() == ErrorKind::ResourceLimit;
    return Error(is_limit ? ErrorKind::ResourceLimit : ErrorKind::LinkFault,
                 fmt::format("{} failed: {}", doing_what, explain(error_number)));
  }
};

}  // namespace cohort::framed
