// SPDX-License-Identifier: Apache-2.0
// Every block of C++ or C in these texts is in a source that is compiled and run: here in tests/docs, by
// tests of C, by a sample, or by a consumer outside of the tree.
#include <cohort/engine/system/variables.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace cohort::text_test {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Without comments, and a blank wherever there are blanks and line ends: a block of the text may stand
/// deeper in the source, be broken otherwise and have words of its own beside its lines.
std::string words_of(const std::string& code) {
  std::istringstream lines(code);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find("//")));
    for (std::string word; words >> word;) result += word + " ";
  }
  return result;
}

std::vector<std::string> code_blocks(const std::string& text) {
  std::vector<std::string> blocks;
  for (const std::string opening : {"```cpp\n", "```c\n"})
    for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
      at += opening.size();
      const std::size_t end = text.find("```", at);
      blocks.push_back(text.substr(at, end - at));
      at = end;
    }
  return blocks;
}

TEST(Text, shows_only_code_that_is_compiled_and_run) {
  const std::filesystem::path root = COHORT_TEST_SOURCE_DIR;
  std::string sources;
  for (const char* path : {"tests/consumer/main.cpp", "tests/bindings/c/consumer/main.c",
                           "tests/bindings/c/program.c", "tests/bindings/session/typed_calls_test.cpp",
                           "samples/asio_server.cpp", "samples/epoll_loop.cpp", "samples/check_schedule.cpp",
                           "samples/survivors.cpp", "collectives/schedules/algorithms/all_gather_mesh.cpp"})
    sources += words_of(read(root / path));
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/docs"))
    sources += words_of(read(entry.path()));
  std::vector<std::filesystem::path> texts = {root / "README.md", root / "bench/README.md"};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") texts.push_back(entry.path());
  std::size_t blocks = 0;
  for (const std::filesystem::path& text : texts)
    for (const std::string& block : code_blocks(read(text))) {
      ++blocks;
      EXPECT_NE(sources.find(words_of(block)), std::string::npos) << text << " shows\n" << block;
    }
  EXPECT_GE(blocks, 30U);
}

/// The names between backquotes, of words alone.
std::vector<std::string> names_in(const std::string& cell) {
  const std::regex name("`([A-Za-z_0-9]+)`");
  std::vector<std::string> names;
  for (std::sregex_iterator at(cell.begin(), cell.end(), name), end; at != end; ++at)
    names.push_back((*at)[1]);
  return names;
}

TEST(Text, names_what_is_in_the_headers) {
  const std::filesystem::path root = COHORT_TEST_SOURCE_DIR;
  const std::regex row("\\| ([^|]*) \\| (?:`<cohort/([^>]+)>`)?([^|]*) \\| (.*) \\|");
  std::istringstream lines(read(root / "docs/use/api.md"));
  std::string header;  // of the last row that has one
  std::size_t names = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch cells;
    if (!std::regex_match(line, cells, row) || cells[1] == "name" || cells[1] == "---") continue;
    const bool is_other = cells[1].length() != 0 && cells[2].length() == 0;  // C's
    if (is_other) continue;
    if (cells[2].length() != 0)
      header = read(root / (cells[2] == "asio.h" ? "bindings/asio/asio_communicator.h" : cells[2].str()));
    for (const std::string& cell : {cells[1].str(), cells[4].str()})
      for (const std::string& name : names_in(cell)) {
        ++names;
        EXPECT_TRUE(std::regex_search(header, std::regex("\\b" + name + "\\b"))) << name << ": " << line;
      }
  }
  EXPECT_GT(names, 150U);
}

TEST(Text, lists_the_variables_of_launchers_that_are_read) {
  const std::filesystem::path root = COHORT_TEST_SOURCE_DIR;
  const std::string text = read(root / "docs/operate/environment.md");
  const std::string source =
      read(root / "net/join/launcher.cpp") + read(root / "net/join/launcher_table.cpp");
  const std::regex literal("\"(RANK|(?!COHORT_)[A-Z]+_[A-Za-z_]+)\"");
  std::size_t names = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), literal), end; at != end; ++at, ++names)
    EXPECT_NE(text.find("`" + (*at)[1].str() + "`"), std::string::npos) << (*at)[1];
  EXPECT_GT(names, 20U);
}

TEST(Text, lists_the_environment_variables_that_are_read) {
  const std::filesystem::path root = COHORT_TEST_SOURCE_DIR;
  const std::string text = read(root / "docs/operate/environment.md");
  const std::regex name("`(COHORT_[A-Z_]*[A-Z])");
  std::set<std::string> listed;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) listed.insert((*at)[1]);
  const auto known = cohort::environment::variables();
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(known.begin(), known.end()));
}

}  // namespace
}  // namespace cohort::text_test
