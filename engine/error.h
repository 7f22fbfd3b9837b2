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

  /// The rank that caused it, when one is known.
  [[nodiscard]] Error with_culprit(std::uint32_t rank) const;

  [[nodiscard]] ErrorKind kind() const noexcept { return record_->kind; }
  [[nodiscard]] std::optional<std::uint32_t> culprit() const noexcept { return record_->culprit; }
  /// Without the kind.
  [[nodiscard]] std::string_view message() const noexcept;
  [[nodiscard]] const char* what() const noexcept override;

 private:
  struct Record {
    ErrorKind kind;
    std::optional<std::uint32_t> culprit;
    std::string text;
  };
  explicit Error(std::shared_ptr<const Record> record) : record_(std::move(record)) {}

  std::shared_ptr<const Record> record_;
};

/// SystemError for a failed system call: "doing what: strerror (errno)". ENOMEM, ENOBUFS, ENOSPC, EMFILE,
/// ENFILE and ETOOMANYREFS become ResourceLimit.
[[nodiscard]] Error system_error(int error_number, std::string_view doing_what);

}  // namespace cohort
