// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/task.h>
#include <cohort/net/rank.h>
#include <cohort/net/slice.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort {

/// The notifies that each end of a link has. `post(Ack)` is the seed's TxAck, `wait(Ack)` its RxAck.
enum class Signal : std::uint8_t {
  Ack,         ///< my buffer is ready for you
  DataSignal,  ///< the data is there, or: I am done with your buffer
  DataAck,     ///< I have consumed it; needed where writes complete asynchronously
};
inline constexpr std::size_t kSignals = 3;
std::string_view to_string(Signal signal) noexcept;

/// How received bytes are combined with what is there: inout = inout op in. A plain function, given by the
/// caller, so that links know nothing of types and operators.
struct Reducer {
  void (*fold)(const Reducer& self, std::byte* inout, const std::byte* in,
               std::size_t bytes) noexcept = nullptr;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t element_bytes = 1;  ///< a power of two: pieces of a message are cut between elements
  std::uint32_t average_over = 0;  ///< what is folded is divided by it as well; 0: it is not
};

class Link;

/// One request on a link, in the awaiting frame until it completes. Its slices belong to it until then.
class LinkOperation final : public Operation {
 public:
  enum class Kind : std::uint8_t { post, wait, put, get, get_reduce, send, recv, recv_reduce };

  struct Request {
    Kind kind{};
    Signal signal{};
    Slice local{};
    Slice remote{};
    Reducer reducer{};
  };

  LinkOperation(Link& link, const Request& request) noexcept : request_(request), link_(link) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> waiter) {
    return start(waiter, detail::scope_of(waiter));
  }
  void await_resume() const { throw_if_cancelled(); }

  // For transports:
  [[nodiscard]] const Request& request() const noexcept { return request_; }
  /// The link is done with it. Only from the loop, never from within start().
  void finish() noexcept { cancel_requested_ ? complete_cancelled() : complete(); }

  /// Progress of a request in several pieces; the transport's own.
  std::size_t progress = 0;
  /// The transport's queue.
  LinkOperation* next = nullptr;

 private:
  bool start(std::coroutine_handle<> waiter, CancelScope* scope);
  void request_cancel() noexcept override;

  Request request_;
  Link& link_;
  bool cancel_requested_ = false;
};

/// The ordered path to one peer, over one lane: one-sided put and get, signals, and two-sided send and
/// receive.
///
/// Effects of one link arrive in order; a signal arrives after the bytes before it; zero bytes are legal. One
/// coroutine at a time uses a link in each direction, but where its transport says that more may
/// (framed::FramedLink).
///
/// Each started operation completes exactly once, from the loop or at once. Sizes come from the local
/// schedule; a peer that disagrees is an error.
///
/// Signals count, within a collective: at most kMostUntaken posts of one wait to be taken, and all have been
/// taken when the collective is over.
///
/// One too many, or one left over, is a ProtocolError, at the latest when the link is used for that signal
/// again or first used in the next collective; it never satisfies a wait of another collective.
///
/// What a peer posts that is ahead of this rank keeps until this rank comes there.
///
/// Errors: a link never fails an operation by itself: it reports to its LinkOwner, which cancels the
/// collective's scope with the one cause that all ranks get.
class Link : Immovable {
 public:
  static constexpr std::uint32_t kMostUntaken = 4;

  explicit Link(Rank peer) noexcept : peer_(peer) {}
  virtual ~Link() = default;

  [[nodiscard]] Rank peer() const noexcept { return peer_; }
  /// The name of its kind of transport: for people.
  [[nodiscard]] virtual std::string_view transport() const noexcept = 0;

  /// Gives the peer one count of the signal. Never waits for the peer.
  [[nodiscard]] LinkOperation post(Signal signal) noexcept {
    return {*this, {.kind = LinkOperation::Kind::post, .signal = signal}};
  }
  /// Suspends until the peer has posted, then takes one count.
  [[nodiscard]] LinkOperation wait(Signal signal) noexcept {
    return {*this, {.kind = LinkOperation::Kind::wait, .signal = signal}};
  }
  /// Writes my `from` to the peer's `to`, then posts the signal there. Completes when `from` may be reused.
  /// `to` lies in a window that the peer exposes: ccl_in, ccl_out, or a user window where the transport
  /// reaches it.
  [[nodiscard]] LinkOperation put(Slice from, Slice to, Signal signal) noexcept {
    return {*this, {.kind = LinkOperation::Kind::put, .signal = signal, .local = from, .remote = to}};
  }
  /// Reads the peer's `from` to my `to`. Completes when the bytes are there.
  [[nodiscard]] LinkOperation get(Slice from, Slice to) noexcept {
    return {*this, {.kind = LinkOperation::Kind::get, .local = to, .remote = from}};
  }
  /// As get(), combined with what `to` holds.
  [[nodiscard]] LinkOperation get_reduce(Slice from, Slice to, const Reducer& reducer) noexcept {
    return {*this,
            {.kind = LinkOperation::Kind::get_reduce, .local = to, .remote = from, .reducer = reducer}};
  }
  /// Two-sided: meets the peer's recv() of as many bytes. Completes when `from` may be reused.
  [[nodiscard]] LinkOperation send(Slice from) noexcept {
    return {*this, {.kind = LinkOperation::Kind::send, .local = from}};
  }
  [[nodiscard]] LinkOperation recv(Slice to) noexcept {
    return {*this, {.kind = LinkOperation::Kind::recv, .local = to}};
  }
  [[nodiscard]] LinkOperation recv_reduce(Slice to, const Reducer& reducer) noexcept {
    return {*this, {.kind = LinkOperation::Kind::recv_reduce, .local = to, .reducer = reducer}};
  }

 protected:
  friend class LinkOperation;

  /// Begins the operation. True: it is complete already. Otherwise finish() is called on it later.
  virtual bool start(LinkOperation& operation) = 0;
  /// Asks for an early end; finish() still follows, when neither kernel nor peer touches its memory any more.
  virtual void cancel(LinkOperation& operation) noexcept = 0;

 private:
  const Rank peer_;
};

}  // namespace cohort
