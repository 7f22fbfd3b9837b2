// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>

#include <cohort/engine/assert.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace cohort {

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::InvalidArgument: return "InvalidArgument";
    case ErrorKind::Mismatch: return "Mismatch";
    case ErrorKind::PeerDied: return "PeerDied";
    case ErrorKind::PeerSilent: return "PeerSilent";
    case ErrorKind::PeerAborted: return "PeerAborted";
    case ErrorKind::LinkFault: return "LinkFault";
    case ErrorKind::ProtocolError: return "ProtocolError";
    case ErrorKind::DeadlineExceeded: return "DeadlineExceeded";
    case ErrorKind::Cancelled: return "Cancelled";
    case ErrorKind::Revoked: return "Revoked";
    case ErrorKind::AuthFailed: return "AuthFailed";
    case ErrorKind::DuplicateRank: return "DuplicateRank";
    case ErrorKind::WorldSize: return "WorldSize";
    case ErrorKind::MissingRanks: return "MissingRanks";
    case ErrorKind::ResourceLimit: return "ResourceLimit";
    case ErrorKind::Unsupported: return "Unsupported";
    case ErrorKind::SystemError: return "SystemError";
    case ErrorKind::Internal: return "Internal";
  }
  return "Unknown";
}

Error::Error(ErrorKind kind, std::string message)
    : Error(Record{.kind = kind, .text = std::string(to_string(kind)) + ": " + std::move(message)}) {}

const char* Error::what() const noexcept { return record_->text.c_str(); }

Error Error::with_culprit(std::uint32_t rank) const {
  Record record = *record_;
  record.culprit = rank;
  return Error(std::move(record));
}

Error Error::with_sequence(std::uint64_t number) const {
  Record record = *record_;
  record.sequence = number;
  return Error(std::move(record));
}

Error Error::with_bytes() const {
  Record record = *record_;
  record.is_of_bytes = true;
  return Error(std::move(record));
}

Error Error::with_message(std::string_view message) const {
  Record record = *record_;
  record.text = std::string(to_string(record.kind)) + ": " + std::string(message);
  return Error(std::move(record));
}

std::string_view Error::message() const noexcept {
  return std::string_view(record_->text).substr(to_string(record_->kind).size() + 2);
}

namespace {

/// What to do about it, where that is one thing.
std::string_view advice_on(int error_number) noexcept {
  switch (error_number) {
    case EMFILE: return "; let this process open more files (ulimit -n; LimitNOFILE of a service)";
    case EHOSTUNREACH:
    case ENETUNREACH:
      return "; this host knows no way there: look at its routes (ip route get ADDRESS), or give an address "
             "that "
             "it reaches";
    case ENFILE: return "; let all processes of this host open more files (sysctl fs.file-max)";
    default: return "";
  }
}

}  // namespace

Error system_error(int error_number, std::string_view doing_what) {
  const bool limit = error_number == ENOMEM || error_number == ENOSPC || error_number == EMFILE ||
                     error_number == ENFILE || error_number == ETOOMANYREFS || error_number == ENOBUFS;
  return Error(limit ? ErrorKind::ResourceLimit : ErrorKind::SystemError,
               fmt::format("{}: {} (errno {}){}", doing_what, std::system_category().message(error_number),
                           error_number, advice_on(error_number)));
}

namespace {

/// Where a source of ours lies in the tree: the rest of the path is of the machine that compiled it.
std::string_view place_in_tree(std::string_view file) noexcept {
  constexpr std::string_view kThis = "engine/error.cpp";
  constexpr std::string_view kHeaders = "/include/cohort/";
  const std::string_view here = __FILE__;
  const std::string_view root = here.ends_with(kThis) ? here.substr(0, here.size() - kThis.size()) : "";
  if (const std::size_t at = file.rfind(kHeaders); at != std::string_view::npos)
    return file.substr(at + kHeaders.size());
  return file.starts_with(root) ? file.substr(root.size()) : file;
}

}  // namespace

void detail::assertion_failed(const char* claim, const char* file, int line,
                              const std::string& values) noexcept {
  const std::string_view place = place_in_tree(file);
  std::fprintf(stderr, "cohort: %.*s:%d: assertion failed: %s: %s\n", static_cast<int>(place.size()),
               place.data(), line, claim, values.c_str());
  std::abort();
}

}  // namespace cohort
