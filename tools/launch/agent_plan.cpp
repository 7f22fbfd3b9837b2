// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/agent_plan.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cohort {
namespace {

using std::chrono::milliseconds;

std::int64_t milliseconds_of(Duration duration) {
  return std::chrono::duration_cast<milliseconds>(duration).count();
}

/// Arguments and variables are bytes, which need not be UTF-8; JSON is: each byte is sent as a character.
std::string as_characters(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xc0 | byte >> 6);
    text += byte < 0x80 ? c : static_cast<char>(0x80 | (byte & 0x3f));
  }
  return text;
}

std::string as_bytes(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const bool has_second = first >= 0xc0 && i + 1 < text.size();
    bytes += has_second
                 ? static_cast<char>((first & 0x3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f))
                 : text[i];
  }
  return bytes;
}

nlohmann::json as_json(const AgentPlan& plan) {
  auto command = nlohmann::json::array();
  for (const std::string& argument : plan.command) command.push_back(as_characters(argument));
  auto environment = nlohmann::json::array();
  for (const auto& [name, value] : plan.environment)
    environment.push_back({as_characters(name), as_characters(value)});
  return {{"version", plan.version},
          {"token", plan.token},
          {"host", plan.host},
          {"first_rank", plan.first_rank},
          {"ranks", plan.ranks},
          {"size", plan.size},
          {"directory", as_characters(plan.directory)},
          {"command", command},
          {"environment", environment},
          {"prefix_output", plan.prefix_output},
          {"keeps_going", plan.keeps_going},
          {"time_to_notice_ms", milliseconds_of(plan.time_to_notice)},
          {"time_to_end_ms", milliseconds_of(plan.time_to_end)}};
}

}  // namespace

std::string encode(const AgentPlan& plan) { return as_json(plan).dump() + "\n"; }

AgentPlan parse_agent_plan(std::string_view line) {
  try {
    const auto json = nlohmann::json::parse(line);
    AgentPlan plan;
    json.at("version").get_to(plan.version);
    json.at("token").get_to(plan.token);
    json.at("host").get_to(plan.host);
    json.at("first_rank").get_to(plan.first_rank);
    json.at("ranks").get_to(plan.ranks);
    json.at("size").get_to(plan.size);
    plan.directory = as_bytes(json.at("directory").get<std::string>());
    for (const auto& argument : json.at("command"))
      plan.command.push_back(as_bytes(argument.get<std::string>()));
    for (const auto& variable : json.at("environment"))
      plan.environment.emplace_back(as_bytes(variable.at(0).get<std::string>()),
                                    as_bytes(variable.at(1).get<std::string>()));
    json.at("prefix_output").get_to(plan.prefix_output);
    json.at("keeps_going").get_to(plan.keeps_going);
    plan.time_to_notice = milliseconds(json.at("time_to_notice_ms").get<std::int64_t>());
    plan.time_to_end = milliseconds(json.at("time_to_end_ms").get<std::int64_t>());
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("--agent is for launchers of cohort on other hosts, which tell it what to do on "
                            "its standard input ({})",
                            error.what()));
  }
}

std::string agent_mark(std::string_view token) { return fmt::format("\x1e{} ", token); }

}  // namespace cohort
