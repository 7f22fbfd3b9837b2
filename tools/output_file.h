// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace cohort {

/// A file that a command's user names, opened before the work whose result it is for. What it holds already
/// is kept until something is written.
///
/// Errors: SystemError, with the path and what the system says; as it is made, and of what is written as it
/// is closed. Threads: one.
class OutputFile {
 public:
  /// An empty path: no file is wanted, and what is written goes nowhere.
  explicit OutputFile(std::string path);

  [[nodiscard]] bool is_wanted() const noexcept { return file_ != nullptr; }
  void write(std::string_view text) noexcept;
  /// To be called when all is written; without it nobody hears of what the system has not taken.
  void close();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  [[noreturn]] void fail() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  bool is_cut_ = false;  ///< of what it held before
  int error_ = 0;        ///< the first one
};

}  // namespace cohort
