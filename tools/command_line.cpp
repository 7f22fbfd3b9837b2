// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/command_line.h>

#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tools/bench/options.h>
#include <cohort/tools/transport_names.h>

#include <fmt/format.h>

namespace cohort::command_line {
namespace {

constexpr std::size_t kLargestSize = std::size_t{1} << 36;
constexpr const char* kAll = "all";
constexpr const char* kSizeOptions = "Sizes";

std::size_t parse_size(const std::string& text) {
  const std::uint64_t bytes = environment::parse_bytes("SIZE", text);
  if (bytes == 0 || bytes > kLargestSize)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("SIZE='{}' is not from 1 to {}G", text, kLargestSize >> 30));
  return bytes;
}

std::vector<std::size_t> parse_sizes(const std::string& text) {
  std::vector<std::size_t> all;
  for (const std::string& size : split_list(text)) all.push_back(parse_size(size));
  return all;
}

}  // namespace

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char letter : text) {
    if (letter == ',')
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  return parts;
}

void add_operator(CLI::App& command, std::string& name, const char* purpose,
                  std::initializer_list<std::string_view> others) {
  std::vector<std::string> names = names_of(all_operators());
  names.insert(names.end(), others.begin(), others.end());
  names.emplace_back(kAll);
  command.add_option("collective", name, purpose)
      ->required()
      ->check(CLI::IsMember(names))
      ->type_name("COLLECTIVE");
}

std::vector<Operator> operators_of(const std::string& name) {
  if (name == kAll) return {all_operators().begin(), all_operators().end()};
  return {*parse_operator(name)};
}

CLI::Option* add_type(CLI::App& command, std::string& name) {
  return command.add_option("--type", name, "Of the elements")
      ->check(CLI::IsMember(names_of(kDataTypes)))
      ->capture_default_str();
}

CLI::Option* add_algorithm(CLI::App& command, std::string& name) {
  const auto names = AlgorithmTable::library().names();
  return command.add_option("--algorithm", name, "This one, instead of what the library selects")
      ->check(CLI::IsMember(std::vector<std::string>(names.begin(), names.end())));
}

CLI::Option* add_transport(CLI::App& command, std::string& name) {
  return command.add_option("--transport", name, "Force a transport (COHORT_TRANSPORT)")
      ->check(CLI::IsMember(transport_names()));
}

std::vector<std::size_t> Sizes::bytes() const {
  if (single.empty()) return bench::sizes_between(parse_size(least), parse_size(most), factor);
  return parse_sizes(single);
}

void add_sizes(CLI::App& command, Sizes& sizes) {
  const CLI::Validator size = accepts("SIZE", parse_size);
  CLI::Option* least = command.add_option("--min", sizes.least, "Smallest size")->check(size);
  CLI::Option* most = command.add_option("--max", sizes.most, "Largest size")->check(size);
  CLI::Option* factor = command.add_option("--factor", sizes.factor, "From one size to the next");
  factor->check(CLI::Range(std::size_t{2}, kLargestSize))->type_name("NUMBER");
  CLI::Option* single = command.add_option("--sizes", sizes.single, "These sizes, such as 8,4K,1M");
  single->check(accepts("SIZE,...", parse_sizes))->excludes(least, most, factor);
  for (CLI::Option* option : {least, most, factor}) option->capture_default_str();
  for (CLI::Option* option : {least, most, factor, single}) option->group(kSizeOptions);
}

}  // namespace cohort::command_line
