// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/error.h>

#include <array>
#include <new>

namespace cohort::bindings::hccl {
namespace {

struct Codes {
  ErrorKind kind;
  HcclResult hccl;
  aclError acl;
};
constexpr std::array kCodes = {
    Codes{ErrorKind::InvalidArgument, HCCL_E_PARA, ACL_ERROR_RT_PARAM_INVALID},
    Codes{ErrorKind::Mismatch, HCCL_E_PARA, ACL_ERROR_RT_PARAM_INVALID},
    Codes{ErrorKind::PeerDied, HCCL_E_REMOTE, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::PeerSilent, HCCL_E_REMOTE, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::PeerAborted, HCCL_E_REMOTE, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::LinkFault, HCCL_E_NETWORK, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::ProtocolError, HCCL_E_NETWORK, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::DeadlineExceeded, HCCL_E_TIMEOUT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT},
    Codes{ErrorKind::Cancelled, HCCL_E_UNAVAIL, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::Revoked, HCCL_E_UNAVAIL, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::AuthFailed, HCCL_E_TCP_CONNECT, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::DuplicateRank, HCCL_E_PARA, ACL_ERROR_RT_PARAM_INVALID},
    Codes{ErrorKind::WorldSize, HCCL_E_PARA, ACL_ERROR_RT_PARAM_INVALID},
    Codes{ErrorKind::MissingRanks, HCCL_E_TIMEOUT, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT},
    Codes{ErrorKind::ResourceLimit, HCCL_E_MEMORY, ACL_ERROR_RT_MEMORY_ALLOCATION},
    Codes{ErrorKind::Unsupported, HCCL_E_NOT_SUPPORT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT},
    Codes{ErrorKind::SystemError, HCCL_E_SYSCALL, ACL_ERROR_RT_INTERNAL_ERROR},
    Codes{ErrorKind::Internal, HCCL_E_INTERNAL, ACL_ERROR_RT_INTERNAL_ERROR},
};

const Codes& codes_of(ErrorKind kind) noexcept {
  for (const Codes& codes : kCodes)
    if (codes.kind == kind) return codes;
  return kCodes.back();
}

/// What a thread may ask for: once, as long as it calls nothing else.
struct Last {
  std::string text;
  bool is_new = false;
};
Last& last() noexcept {
  thread_local Last one;
  return one;
}

struct Told {
  aclError acl = ACL_ERROR_INTERNAL_ERROR;
  HcclResult hccl = HCCL_E_INTERNAL;
  std::string text;
};

Told told_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const CodedError& error) {
    return {error.acl(), error.hccl(), error.what()};
  } catch (const Error& error) {
    const Codes& codes = codes_of(error.kind());
    return {codes.acl, codes.hccl, error.what()};
  } catch (const std::bad_alloc&) {
    return {ACL_ERROR_BAD_ALLOC, HCCL_E_MEMORY, "no memory is left; give the process more"};
  } catch (const std::exception& error) {
    return {ACL_ERROR_INTERNAL_ERROR, HCCL_E_INTERNAL, std::string("Internal: ") + error.what()};
  } catch (...) {
    return {ACL_ERROR_INTERNAL_ERROR, HCCL_E_INTERNAL, "Internal: an unknown exception"};
  }
}

}  // namespace

void refuse(std::string text) { throw CodedError(ACL_ERROR_INVALID_PARAM, HCCL_E_PARA, std::move(text)); }
void refuse_null(std::string text) { throw CodedError(ACL_ERROR_INVALID_PARAM, HCCL_E_PTR, std::move(text)); }
void need(const void* pointer, const char* function, const char* name) {
  if (pointer == nullptr) [[unlikely]]
    refuse_null(std::string(function) + ": `" + name + "` is null; give one");
}
void refuse_handle(std::string text) {
  throw CodedError(ACL_ERROR_RT_PARAM_INVALID, HCCL_E_PARA, std::move(text));
}
void refuse_unsupported(std::string text) {
  throw CodedError(ACL_ERROR_API_NOT_SUPPORT, HCCL_E_NOT_SUPPORT, std::move(text));
}

aclError keep_acl_error(const std::exception_ptr& failure) noexcept {
  try {
    Told told = told_of(failure);
    last() = {std::move(told.text), true};
    return told.acl;
  } catch (...) {  // not even the text has room
    return ACL_ERROR_BAD_ALLOC;
  }
}

HcclResult keep_hccl_error(const std::exception_ptr& failure) noexcept {
  try {
    Told told = told_of(failure);
    last() = {std::move(told.text), true};
    return told.hccl;
  } catch (...) {
    return HCCL_E_MEMORY;
  }
}

std::string text_of(const std::exception_ptr& failure) { return told_of(failure).text; }

HcclResult hccl_code_of(ErrorKind kind) noexcept { return codes_of(kind).hccl; }

}  // namespace cohort::bindings::hccl

const char* aclGetRecentErrMsg(void) {
  cohort::bindings::hccl::Last& last = cohort::bindings::hccl::last();
  return std::exchange(last.is_new, false) ? last.text.c_str() : nullptr;
}
