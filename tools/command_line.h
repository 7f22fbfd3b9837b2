// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/collectives/schedules/operators/operator.h>
#include <cohort/engine/error.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

/// What several subcommands take on their command lines.
namespace cohort::command_line {

template <class Values>
[[nodiscard]] std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(to_string(value));
  return names;
}

/// Refuses what `parse` throws an Error for, in its words.
template <class Parse>
[[nodiscard]] CLI::Validator accepts(const char* type_name, Parse parse) {
  const auto check = [parse](std::string& text) -> std::string {
    try {
      parse(text);
      return "";
    } catch (const Error& error) {
      return std::string(error.message());
    }
  };
  return CLI::Validator(check, type_name);
}

/// What stands between commas, also where that is nothing.
[[nodiscard]] std::vector<std::string> split_list(const std::string& text);

/// The first argument of a command: the name of an operator, one of `others`, or "all". A mistake lists the
/// names.
void add_operator(CLI::App& command, std::string& name, const char* purpose,
                  std::initializer_list<std::string_view> others = {});
/// Of a name that was accepted, and is none of the others.
[[nodiscard]] std::vector<Operator> operators_of(const std::string& name);

/// --type, as a name that parse_data_type() reads.
CLI::Option* add_type(CLI::App& command, std::string& name);
/// --algorithm, as a name of the library's; empty if it is not given.
CLI::Option* add_algorithm(CLI::App& command, std::string& name);
/// --transport: one of them, or empty if it is not given.
CLI::Option* add_transport(CLI::App& command, std::string& name);

/// --min, --max, --factor and --sizes.
struct Sizes {
  std::string least = "8";
  std::string most = "64M";
  std::size_t factor = 2;
  std::string single;  ///< with commas between them

  /// Once parsed. Empty if the smallest is above the largest.
  [[nodiscard]] std::vector<std::size_t> bytes() const;
};
/// `sizes` outlives parsing.
void add_sizes(CLI::App& command, Sizes& sizes);

}  // namespace cohort::command_line
