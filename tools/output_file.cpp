// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/output_file.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace cohort {

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  file_.reset(std::fopen(path_.c_str(), "we"));
  if (!file_) fail(errno);
}

void OutputFile::write(std::string_view text) {
  if (file_ && std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) fail(errno);
}

void OutputFile::close() {
  if (file_ && std::fclose(file_.release()) != 0) fail(errno);
}

void OutputFile::fail(int error_number) const {
  throw Error(
      ErrorKind::SystemError,
      fmt::format("{}: cannot be written: {}; give a file in a folder that this user may write to and "
                  "that has room for it",
                  path_, std::system_category().message(error_number)));
}

}  // namespace cohort
