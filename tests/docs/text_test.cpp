// SPDX-License-Identifier: Apache-2.0
// Every C++ block of README.md and docs/guide.md is in a source that is compiled and run: here in tests/docs,
// or by the consumer outside of the tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Lines without indentation and empty ones: a block of the text may stand deeper in the source.
std::string unindented(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) result += line.substr(begin) + "\n";
  }
  return result;
}

std::vector<std::string> code_blocks(const std::string& text) {
  const std::string opening = "```cpp\n";
  std::vector<std::string> blocks;
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
  std::string sources = unindented(read(root / "tests/consumer/main.cpp"));
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/docs"))
    sources += unindented(read(entry.path()));
  std::size_t blocks = 0;
  for (const char* text : {"README.md", "docs/guide.md", "docs/determinism.md"})
    for (const std::string& block : code_blocks(read(root / text))) {
      ++blocks;
      EXPECT_NE(sources.find(unindented(block)), std::string::npos) << text << " shows\n" << block;
    }
  EXPECT_GE(blocks, 10U);
}

}  // namespace
