// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/doctor/finding.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cohort::doctor {
namespace {

const char* word_for(Severity severity) {
  switch (severity) {
    case Severity::fine: return "ok";
    case Severity::note: return "note";
    case Severity::problem: return "PROBLEM";
  }
  return "";
}

}  // namespace

std::string as_text(const std::vector<Finding>& findings, const std::string& host) {
  std::string text = fmt::format("# {}\n", host);
  for (const Finding& one : findings) {
    text += fmt::format("{:<8} {:<20} {}\n", word_for(one.severity), one.check, one.text);
    if (!one.fix.empty()) text += fmt::format("{:<8} {:<20} -> {}\n", "", "", one.fix);
  }
  return text;
}

std::string as_json(const std::vector<Finding>& findings, const std::string& host) {
  std::string text;
  for (const Finding& one : findings) {
    const nlohmann::json json = {{"host", host},
                                 {"severity", word_for(one.severity)},
                                 {"check", one.check},
                                 {"text", one.text},
                                 {"fix", one.fix}};
    text += json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return text;
}

}  // namespace cohort::doctor
