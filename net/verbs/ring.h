// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace cohort::verbs {

/// The ring that a sender writes and its receiver reads, by RDMA WRITE: as large at both ends, so that a byte
/// stands at the same offset in the sender's copy and in the receiver's.
inline constexpr std::size_t kRingBytes = std::size_t{64} << 10;
/// A message, one WRITE WITH IMMEDIATE, carries at most so many, so that the first ones travel while the next
/// ones are copied.
inline constexpr std::size_t kMessageBytes = std::size_t{16} << 10;
/// Data messages that the receiver has not said that it has taken.
inline constexpr std::uint32_t kMostMessages = 48;
/// What the receiver has used up is told when it is so much, or so many messages.
inline constexpr std::size_t kCreditBytes = kRingBytes / 4;
inline constexpr std::uint32_t kCreditMessages = kMostMessages / 3;
/// Credits on their way: each tells of so much that the other has sent and not been told of.
inline constexpr std::uint32_t kMostCredits =
    kMostMessages / kCreditMessages + static_cast<std::uint32_t>(kRingBytes / kCreditBytes) + 1;
/// Loans that were not answered: enough that the device is not waited for between two of them.
inline constexpr std::uint32_t kMostLoans = 16;
/// Receives that were taken and may wait for a quiet moment to be posted again: what came goes first.
inline constexpr std::uint32_t kLateReceives = 16;
/// Each message and credit takes one of them; so do each loan, each answer, which is to one at least, and the
/// end.
inline constexpr std::uint32_t kReceives = kMostMessages + kMostCredits + 2 * kMostLoans + 1 + kLateReceives;
/// Requests to send that have not completed; what finds none waits, for the device alone. Drivers round a
/// power of two up to the next one.
inline constexpr std::uint32_t kSends = 63;
static_assert(kSends >= kMostMessages + kMostCredits + 4);
/// What is combined passes through so much if it comes by the ring. With rings and queues a connection has
/// less than 256 KiB.
inline constexpr std::size_t kCombiningBytes = kRingBytes / 2;
/// What is lent is read in such pieces, and copied, where the memory that it belongs to cannot be registered.
inline constexpr std::size_t kBounceBytes = std::size_t{16} << 10;

/// Memory of the sender's that the receiver's device reads where it lies, in place of a copy through the
/// ring.
struct LoanTerms {
  static constexpr std::uint32_t kBytes = 16;
  static constexpr std::uint32_t kMostBytes = std::uint32_t{16} << 20;
  /// That go before them in the stream, and with the terms in one request: the header of a frame.
  static constexpr std::uint32_t kMostBytesBefore = 64;

  std::uint64_t address = 0;
  std::uint32_t key = 0;
  std::uint32_t bytes = 0;
};
/// Behind each ring there is room for the terms of each loan, and behind them for the bytes before it.
inline constexpr std::size_t kTermsBytes = 128;
inline constexpr std::size_t kRegionBytes = kRingBytes + kMostLoans * kTermsBytes;
static_assert(LoanTerms::kBytes + LoanTerms::kMostBytesBefore <= kTermsBytes);

/// What an immediate says.
struct Immediate {
  enum class Kind : std::uint8_t {
    data,    ///< so many bytes stand in the ring
    credit,  ///< so many bytes and messages were used up
    end,     ///< nothing more comes
    loan,    ///< the terms of a loan, and what comes before it, stand behind the ring: so many bytes
    taken,   ///< of what was lent the oldest, so many messages, have been read
    enough   ///< the same, and no more is to be lent: let it come through the ring
  };

  Kind kind = Kind::data;
  std::uint32_t bytes = 0;
  std::uint32_t messages = 0;
  bool operator==(const Immediate&) const = default;

  [[nodiscard]] std::uint32_t encode() const noexcept {
    return static_cast<std::uint32_t>(kind) << kKindAt | messages << kMessagesAt | bytes;
  }
  /// Of what encode() does not write, nothing.
  [[nodiscard]] static std::optional<Immediate> decode(std::uint32_t word) noexcept {
    const Immediate immediate{static_cast<Kind>(word >> kKindAt), word & ((1U << kMessagesAt) - 1),
                              word >> kMessagesAt & ((1U << (kKindAt - kMessagesAt)) - 1)};
    switch (immediate.kind) {
      case Kind::credit: return immediate;
      case Kind::data: return immediate.messages == 0 ? std::optional(immediate) : std::nullopt;
      case Kind::loan: {
        const std::uint32_t before = immediate.bytes - LoanTerms::kBytes;  // of fewer, very many
        const bool is_sound = immediate.messages == 0 && before <= LoanTerms::kMostBytesBefore;
        return is_sound ? std::optional(immediate) : std::nullopt;
      }
      case Kind::end:
        return immediate == Immediate{Kind::end, 0, 0} ? std::optional(immediate) : std::nullopt;
      case Kind::taken:
      case Kind::enough: return immediate.bytes == 0 ? std::optional(immediate) : std::nullopt;
    }
    return std::nullopt;
  }
  /// With so many bytes before it.
  [[nodiscard]] static Immediate loan(std::size_t before) noexcept {
    return {Kind::loan, LoanTerms::kBytes + static_cast<std::uint32_t>(before), 0};
  }

 private:
  static constexpr unsigned kKindAt = 29;
  static constexpr unsigned kMessagesAt = 20;
};
static_assert(kRingBytes < std::size_t{1} << 20 && kMostMessages < 1U << 9);

/// The sender's account: what may be written, and what is free again. Nothing is written over before the
/// receiver has read it and the device is done with it here.
class SendRing {
 public:
  [[nodiscard]] std::size_t offset() const noexcept { return sent_ % kRingBytes; }
  /// How many bytes the next message may have, in one piece; 0: none now.
  [[nodiscard]] std::size_t room() const noexcept {
    if (messages_ == kMostMessages) return 0;
    const std::size_t free = kRingBytes - (sent_ - std::min(credited_, completed_));
    return std::min({free, kRingBytes - offset(), kMessageBytes});
  }
  void add(std::size_t bytes) noexcept {
    sent_ += bytes;
    ++messages_;
  }
  /// All that add() has brought so far, as a mark for complete().
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  void complete(std::uint64_t mark) noexcept { completed_ = mark; }
  /// False: the receiver says that it has used up what it was not sent.
  [[nodiscard]] bool credit(std::size_t bytes, std::uint32_t messages) noexcept {
    if (bytes > sent_ - credited_ || messages > messages_) return false;
    credited_ += bytes;
    messages_ -= messages;
    return true;
  }

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t credited_ = 0;
  std::uint64_t completed_ = 0;
  std::uint32_t messages_ = 0;
};

/// The receiver's account.
class ReceiveRing {
 public:
  /// A message has come. False: the sender had no room for so many bytes, or not in one piece.
  [[nodiscard]] bool add(std::size_t bytes) noexcept {
    const std::size_t at = arrived_ % kRingBytes;
    if (bytes == 0 || bytes > kRingBytes - (arrived_ - consumed_) || bytes > kRingBytes - at) return false;
    arrived_ += bytes;
    ++untold_messages_;
    return true;
  }
  [[nodiscard]] bool is_empty() const noexcept { return arrived_ == consumed_; }
  /// All bytes that have come, and those of them that were used up.
  [[nodiscard]] std::uint64_t arrived() const noexcept { return arrived_; }
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }
  [[nodiscard]] std::size_t offset() const noexcept { return consumed_ % kRingBytes; }
  /// From offset() on, in one piece.
  [[nodiscard]] std::size_t readable() const noexcept {
    return std::min(static_cast<std::size_t>(arrived_ - consumed_), kRingBytes - offset());
  }
  void consume(std::size_t bytes) noexcept {
    consumed_ += bytes;
    untold_bytes_ += bytes;
  }
  [[nodiscard]] bool is_credit_due() const noexcept {
    return untold_bytes_ >= kCreditBytes || untold_messages_ >= kCreditMessages;
  }
  /// What the sender is to be told; from now on it counts as told.
  [[nodiscard]] Immediate take_credit() noexcept {
    const Immediate credit{Immediate::Kind::credit, static_cast<std::uint32_t>(untold_bytes_),
                           untold_messages_};
    untold_bytes_ = 0;
    untold_messages_ = 0;
    return credit;
  }

 private:
  std::uint64_t arrived_ = 0;
  std::uint64_t consumed_ = 0;
  std::size_t untold_bytes_ = 0;
  std::uint32_t untold_messages_ = 0;
};

}  // namespace cohort::verbs
