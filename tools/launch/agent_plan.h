// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/net/rank.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

/// What the launcher of a job on several hosts tells its agent on one of them, before anything else. All but
/// the secret, which follows by itself.
struct AgentPlan {
  std::string version;  ///< of the launcher: an agent of another one takes no part
  std::string token;    ///< begins the lines that are meant for the launcher; no rank knows it
  std::string host;     ///< as the user named it
  Rank first_rank = 0;
  Rank ranks = 1;
  Rank size = 1;
  std::string directory;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;
  bool prefix_output = true;
  bool keeps_going = false;
  Duration time_to_notice{};
  Duration time_to_end{};
};

/// One line of JSON, with its end.
[[nodiscard]] std::string encode(const AgentPlan& plan);
/// Throws InvalidArgument for anything else.
[[nodiscard]] AgentPlan parse_agent_plan(std::string_view line);

/// How often a launcher gives a sign of life, and how long an agent waits for one: a network that has gone
/// ends no connection.
inline constexpr Duration kAgentSignInterval = std::chrono::seconds(2);
inline constexpr Duration kAgentPatience = std::chrono::seconds(20);

/// What begins a line of the agent for its launcher, in the output that otherwise is that of the ranks.
[[nodiscard]] std::string agent_mark(std::string_view token);

}  // namespace cohort
