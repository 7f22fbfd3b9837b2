// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>

#include <acl/acl_base.h>
#include <hccl/hccl_types.h>
#include <exception>
#include <string>
#include <utility>

namespace cohort::bindings::hccl {

/// An error with a code of its own, that of the manual for what has happened.
class CodedError : public std::exception {
 public:
  CodedError(aclError acl, HcclResult hccl, std::string text)
      : acl_(acl), hccl_(hccl), text_(std::move(text)) {}
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  [[nodiscard]] aclError acl() const noexcept { return acl_; }
  [[nodiscard]] HcclResult hccl() const noexcept { return hccl_; }

 private:
  aclError acl_;
  HcclResult hccl_;
  std::string text_;
};

// What this interface refuses itself. All throw CodedError.
[[noreturn]] void refuse(std::string text);       ///< an argument
[[noreturn]] void refuse_null(std::string text);  ///< a pointer that may not be null
[[noreturn]] void refuse_handle(std::string text);
[[noreturn]] void refuse_unsupported(std::string text);

/// Keeps the text for aclGetRecentErrMsg() of this thread, and gives the code.
aclError keep_acl_error(const std::exception_ptr& failure) noexcept;
HcclResult keep_hccl_error(const std::exception_ptr& failure) noexcept;
/// In words, for a line of the log.
[[nodiscard]] std::string text_of(const std::exception_ptr& failure);
[[nodiscard]] HcclResult hccl_code_of(ErrorKind kind) noexcept;

/// What every function does around its work: nothing is thrown out of it.
template <class Function>
aclError acl_guarded(Function&& work) noexcept {
  try {
    std::forward<Function>(work)();
    return ACL_SUCCESS;
  } catch (...) {
    return keep_acl_error(std::current_exception());
  }
}
template <class Function>
HcclResult hccl_guarded(Function&& work) noexcept {
  try {
    std::forward<Function>(work)();
    return HCCL_SUCCESS;
  } catch (...) {
    return keep_hccl_error(std::current_exception());
  }
}

// Throw CodedError for a null.
void need(const void* pointer, const char* function, const char* name);
template <class T>
T& given(T* pointer, const char* function, const char* name) {
  need(pointer, function, name);
  return *pointer;
}

}  // namespace cohort::bindings::hccl
