// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/failure.h>

#include <cohort/engine/error.h>
#include <cohort/engine/failure.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>

namespace cohort::mpi {
namespace {

/// A code is its class in the lowest bits, as programs of this interface expect it, and where the text is.
constexpr int kClassBits = 7;
constexpr int kClassMask = (1 << kClassBits) - 1;
constexpr int kKept = 1024;

struct Kept {
  std::mutex mutex;
  std::array<std::string, kKept> texts;
  int next = 0;
};
Kept& kept() {
  static auto& all = *new Kept();
  return all;
}

struct ClassText {
  abi::ErrorClass of;
  const char* text;
};
constexpr std::array kClassTexts = {
    ClassText{abi::kSuccess, "MPI_SUCCESS: no error"},
    ClassText{abi::kErrBuffer, "MPI_ERR_BUFFER: a buffer that is none"},
    ClassText{abi::kErrCount, "MPI_ERR_COUNT: a count that is none"},
    ClassText{abi::kErrType, "MPI_ERR_TYPE: a datatype that is none"},
    ClassText{abi::kErrTag, "MPI_ERR_TAG: a tag that is none"},
    ClassText{abi::kErrComm, "MPI_ERR_COMM: a communicator that is none"},
    ClassText{abi::kErrRank, "MPI_ERR_RANK: a rank that is none"},
    ClassText{abi::kErrRoot, "MPI_ERR_ROOT: a root that is none"},
    ClassText{abi::kErrGroup, "MPI_ERR_GROUP: a group that is none"},
    ClassText{abi::kErrOp, "MPI_ERR_OP: an operation that is none"},
    ClassText{abi::kErrArg, "MPI_ERR_ARG: an argument that is wrong"},
    ClassText{abi::kErrTruncate, "MPI_ERR_TRUNCATE: a message that is longer than its buffer"},
    ClassText{abi::kErrOther, "MPI_ERR_OTHER: an error that its text tells"},
    ClassText{abi::kErrIntern, "MPI_ERR_INTERN: an error inside cohort"},
    ClassText{abi::kErrInStatus, "MPI_ERR_IN_STATUS: the errors are in the statuses"},
    ClassText{abi::kErrPending, "MPI_ERR_PENDING: a request that goes on"},
    ClassText{abi::kErrRequest, "MPI_ERR_REQUEST: a request that is none"},
    ClassText{abi::kErrInfo, "MPI_ERR_INFO: an info that is none"},
    ClassText{abi::kErrNoMem, "MPI_ERR_NO_MEM: memory is used up"},
    ClassText{abi::kErrUnsupportedOperation, "MPI_ERR_UNSUPPORTED_OPERATION: cohort does not have it"},
    ClassText{abi::kErrKeyval, "MPI_ERR_KEYVAL: a key of attributes that is none"},
    ClassText{abi::kErrProcFailed, "MPIX_ERR_PROC_FAILED: a rank has ended"},
    ClassText{abi::kErrRevoked, "MPIX_ERR_REVOKED: the communicator was given up"}};

abi::ErrorClass class_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::InvalidArgument: return abi::kErrArg;
    case ErrorKind::PeerDied:
    case ErrorKind::PeerSilent: return abi::kErrProcFailed;
    case ErrorKind::Revoked: return abi::kErrRevoked;
    case ErrorKind::ResourceLimit: return abi::kErrNoMem;
    case ErrorKind::Unsupported: return abi::kErrUnsupportedOperation;
    case ErrorKind::Internal: return abi::kErrIntern;
    default: return abi::kErrOther;
  }
}

}  // namespace

void fail(abi::ErrorClass of, std::string text) { throw Failure(of, std::move(text)); }

void fail_receive(bool is_too_short) {
  if (is_too_short) fail(abi::kErrTruncate, as_error(std::current_exception()).what());
  throw;
}

int keep_failure(const char* function, const std::exception_ptr& failure) noexcept {
  abi::ErrorClass of = abi::kErrOther;
  try {
    std::string text;
    try {
      std::rethrow_exception(failure);
    } catch (const Failure& own) {
      of = own.error_class();
      text = own.what();
    } catch (...) {
      const Error error = as_error(std::current_exception());
      of = class_of(error.kind());
      text = error.what();
    }
    text = fmt::format("{}: {}", function, text);
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    const int place = all.next++ % kKept;
    all.next %= kKept;
    all.texts[static_cast<std::size_t>(place)] = std::move(text);
    return of | (place + 1) << kClassBits;
  } catch (...) {
    return of;
  }
}

int class_of_code(int code) noexcept { return code & kClassMask; }

std::string text_of_code(int code) {
  const int place = (code >> kClassBits) - 1;
  if (place >= 0 && place < kKept) {
    Kept& all = kept();
    const std::lock_guard lock(all.mutex);
    return all.texts[static_cast<std::size_t>(place)];
  }
  const auto* const found =
      std::ranges::find_if(kClassTexts, [code](const ClassText& text) { return text.of == code; });
  return found != kClassTexts.end() ? found->text : fmt::format("MPI error class {}", code);
}

}  // namespace cohort::mpi
