// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/failure.h>

#include <new>

namespace cohort {

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
    return Error(ErrorKind::ResourceLimit, "there is no memory left on this host");
  } catch (const std::exception& error) {
    return Error(ErrorKind::Internal, error.what());
  } catch (...) {
    return Error(ErrorKind::Internal, "an unknown exception");
  }
}

}  // namespace cohort
