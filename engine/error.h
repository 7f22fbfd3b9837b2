// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cohort {

/// What went wrong, as a caller would branch on it.
enum class ErrorKind : std::uint8_t {
  InvalidArgument,   ///< this call is wrong, whatever the peers do
  Mismatch,          ///< the ranks disagree about the operation
  PeerDied,          ///< a rank's process ended without saying goodbye
  PeerSilent,        ///< a rank lives but does not answer
  PeerAborted,       ///< a rank left, or gave up for a reason of its own
  LinkFault,         ///< the connection between two living ranks broke
  ProtocolError,     ///< a peer sent what the protocol does not allow here
  DeadlineExceeded,  ///< the time given to the operation is over
  Cancelled,         ///< the caller asked to stop
  Revoked,           ///< the communicator was given up by somebody
  AuthFailed,        ///< the other end does not know the job's secret
  DuplicateRank,     ///< two processes claim one rank
  WorldSize,         ///< the ranks disagree about their number
  MissingRanks,      ///< not every rank came in time
  ResourceLimit,     ///< memory, descriptors or another limit of this host
  Unsupported,       ///< not available here, and why
  SystemError,       ///< the kernel refused something it should not have
  Internal,          ///< a bug in cohort
};

std::string_view to_string(ErrorKind kind) noexcept;

/// The one exception of cohort. Cheap to copy: copies share one immutable record.
///
/// what() is "Kind: message". A message says what happened, to whom, in which operation, and what to do next.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message);

  /// The same, with the rank that caused it.
  [[nodiscard]] Error with_culprit(std::uint32_t rank) const;
  /// The same, of the collective with that number; 0: of none.
  [[nodiscard]] Error with_sequence(std::uint64_t number) const;
  /// The same, where some ranks gave bytes and others elements of another type.
  [[nodiscard]] Error with_bytes() const;
  /// The same in other words, without the kind.
  [[nodiscard]] Error with_message(std::string_view message) const;

  [[nodiscard]] ErrorKind kind() const noexcept { return record_->kind; }
  /// The rank that caused it, when one is known.
  [[nodiscard]] std::optional<std::uint32_t> culprit() const noexcept { return record_->culprit; }
  /// The collective that failed, as its communicator counts them from 1; none where no collective ran: amid
  /// a message, in making a group, between calls, or where a call was refused before it began.
  [[nodiscard]] std::optional<std::uint64_t> sequence() const noexcept {
    return record_->sequence == 0 ? std::nullopt : std::optional(record_->sequence);
  }
  /// Of a Mismatch: of types, one of which is bytes. Such as a small call that asks before another one, and a
  /// rank that makes the other one at once.
  [[nodiscard]] bool is_of_bytes() const noexcept { return record_->is_of_bytes; }
  /// Without the kind.
  [[nodiscard]] std::string_view message() const noexcept;
  [[nodiscard]] const char* what() const noexcept override;

 private:
  struct Record {
    ErrorKind kind;
    std::string text;
    std::optional<std::uint32_t> culprit{};
    std::uint64_t sequence = 0;
    bool is_of_bytes = false;
  };
  explicit Error(Record record) : record_(std::make_shared<const Record>(std::move(record))) {}

  std::shared_ptr<const Record> record_;
};

/// SystemError for a failed system call: "doing what: strerror (errno)". ENOMEM, ENOBUFS, ENOSPC, EMFILE,
/// ENFILE and ETOOMANYREFS become ResourceLimit.
[[nodiscard]] Error system_error(int error_number, std::string_view doing_what);

}  // namespace cohort
