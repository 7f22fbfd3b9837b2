// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/c/error.h>

#include <array>
#include <new>
#include <optional>

namespace cohort::bindings::c {
namespace {

struct Known {
  ErrorKind kind;
  cohort_status status;
};
constexpr std::array kKnown = {
    Known{ErrorKind::InvalidArgument, COHORT_INVALID_ARGUMENT},
    Known{ErrorKind::Mismatch, COHORT_MISMATCH},
    Known{ErrorKind::PeerDied, COHORT_PEER_DIED},
    Known{ErrorKind::PeerSilent, COHORT_PEER_SILENT},
    Known{ErrorKind::PeerAborted, COHORT_PEER_ABORTED},
    Known{ErrorKind::LinkFault, COHORT_LINK_FAULT},
    Known{ErrorKind::ProtocolError, COHORT_PROTOCOL_ERROR},
    Known{ErrorKind::DeadlineExceeded, COHORT_DEADLINE_EXCEEDED},
    Known{ErrorKind::Cancelled, COHORT_CANCELLED},
    Known{ErrorKind::Revoked, COHORT_REVOKED},
    Known{ErrorKind::AuthFailed, COHORT_AUTH_FAILED},
    Known{ErrorKind::DuplicateRank, COHORT_DUPLICATE_RANK},
    Known{ErrorKind::WorldSize, COHORT_WORLD_SIZE},
    Known{ErrorKind::MissingRanks, COHORT_MISSING_RANKS},
    Known{ErrorKind::ResourceLimit, COHORT_RESOURCE_LIMIT},
    Known{ErrorKind::Unsupported, COHORT_UNSUPPORTED},
    Known{ErrorKind::SystemError, COHORT_SYSTEM_ERROR},
    Known{ErrorKind::Internal, COHORT_INTERNAL},
};

struct Last {
  std::string text;
  std::optional<std::uint32_t> culprit;
  std::optional<std::uint64_t> sequence;
};
Last& last() noexcept {
  thread_local Last one;
  return one;
}

void keep(std::string text) { last() = {std::move(text), std::nullopt, std::nullopt}; }

cohort_status keep_thrown(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    last() = {error.what(), error.culprit(), error.sequence()};
    return status_of(error.kind());
  } catch (const std::bad_alloc&) {
    keep("ResourceLimit: no memory is left; give the process more");
    return COHORT_RESOURCE_LIMIT;
  } catch (const std::exception& error) {
    keep(std::string("Internal: ") + error.what());
  } catch (...) {
    keep("Internal: an unknown exception");
  }
  return COHORT_INTERNAL;
}

}  // namespace

cohort_status status_of(ErrorKind kind) noexcept {
  for (const Known& known : kKnown)
    if (known.kind == kind) return known.status;
  return COHORT_INTERNAL;
}

cohort_status keep_error(const std::exception_ptr& failure) noexcept {
  try {
    return keep_thrown(failure);
  } catch (...) {  // not even the text has room
    return COHORT_RESOURCE_LIMIT;
  }
}

void refuse(std::string text) { throw Error(ErrorKind::InvalidArgument, std::move(text)); }

}  // namespace cohort::bindings::c

using namespace cohort::bindings::c;

const char* cohort_error_text(void) { return last().text.c_str(); }

int64_t cohort_error_rank(void) { return last().culprit ? int64_t{*last().culprit} : -1; }

int64_t cohort_error_sequence(void) { return last().sequence ? static_cast<int64_t>(*last().sequence) : -1; }

const char* cohort_status_name(cohort_status status) {
  if (status == COHORT_OK) return "Ok";
  if (status == COHORT_NOT_OVER) return "NotOver";
  for (const Known& known : kKnown)
    if (known.status == status) return to_string(known.kind).data();  // of literals, which end with a zero
  return "unknown";
}
