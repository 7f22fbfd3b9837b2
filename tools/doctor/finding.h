// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cohort::doctor {

enum class Severity : unsigned char {
  fine,
  note,     ///< worth knowing, and nothing to be mended
  problem,  ///< jobs fail by it, or are slower than they have to be
};

/// What one look at this host, or between hosts, has found.
struct Finding {
  Severity severity = Severity::fine;
  std::string check;  ///< what was looked at, in a word or two
  std::string text;   ///< what there is
  std::string fix;    ///< what to do about it; of problems
};

/// Those of one run.
class Findings {
 public:
  void fine(std::string check, std::string text) {
    add(Severity::fine, std::move(check), std::move(text), "");
  }
  void note(std::string check, std::string text) {
    add(Severity::note, std::move(check), std::move(text), "");
  }
  void problem(std::string check, std::string text, std::string fix) {
    add(Severity::problem, std::move(check), std::move(text), std::move(fix));
  }
  [[nodiscard]] const std::vector<Finding>& all() const noexcept { return all_; }
  [[nodiscard]] bool has_problems() const noexcept { return has_problems_; }

 private:
  void add(Severity severity, std::string check, std::string text, std::string fix) {
    has_problems_ = has_problems_ || severity == Severity::problem;
    all_.push_back({severity, std::move(check), std::move(text), std::move(fix)});
  }

  std::vector<Finding> all_;
  bool has_problems_ = false;
};

/// A line of text for each, with its fix below; or a JSON object a line, with `host` in it.
[[nodiscard]] std::string as_text(const std::vector<Finding>& findings, const std::string& host);
[[nodiscard]] std::string as_json(const std::vector<Finding>& findings, const std::string& host);

}  // namespace cohort::doctor
