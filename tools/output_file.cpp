// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/output_file.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace cohort {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  constexpr mode_t kAsUsual = 0666;
  const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, kAsUsual);
  if (descriptor >= 0) file_.reset(::fdopen(descriptor, "w"));
  if (file_) return;
  error_ = errno;
  if (descriptor >= 0) ::close(descriptor);
  fail();
}

void OutputFile::write(std::string_view text) noexcept {
  if (!file_ || error_ != 0) return;
  const bool can_go_on = is_cut_ || ::ftruncate(::fileno(file_.get()), 0) == 0 || errno == EINVAL;  // a pipe
  is_cut_ = true;
  if (!can_go_on || std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) error_ = errno;
}

void OutputFile::close() {
  if (!file_) return;
  write("");
  const bool is_taken = std::fclose(file_.release()) == 0;
  if (!is_taken && error_ == 0) error_ = errno;
  if (error_ != 0) fail();
}

void OutputFile::fail() const {
  throw Error(
      ErrorKind::SystemError,
      fmt::format("{}: cannot be written: {}; give a file in a folder that this user may write to and "
                  "that has room for it",
                  path_, std::system_category().message(error_)));
}

}  // namespace cohort
