// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/failure.h>

namespace cohort {
namespace {

[[maybe_unused]] const Error& out_of_memory_at_start = out_of_memory();

}  // namespace

std::optional<Error> error_in(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (...) {
    return std::nullopt;
  }
}

Error as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return Error(ErrorKind::Internal, error.what());
  } catch (...) {
    return Error(ErrorKind::Internal, "an unknown exception");
  }
}

/// Never destroyed: an engine may outlive static objects.
const Error& out_of_memory() noexcept {
  static const auto* const error =
      new Error(ErrorKind::ResourceLimit, "there is no memory left on this host");
  return *error;
}

}  // namespace cohort
