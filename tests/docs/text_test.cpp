// SPDX-License-Identifier: Apache-2.0
// Every block of C++ or C in these texts is in a source that is compiled and run: here in tests/docs, by
// tests of C, by a sample, or by a consumer outside of the tree.
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
                           "tests/bindings/c/program.c", "samples/asio_server.cpp", "samples/epoll_loop.cpp"})
    sources += unindented(read(root / path));
  for (const auto& entry : std::filesystem::directory_iterator(root / "tests/docs"))
    sources += unindented(read(entry.path()));
  std::size_t blocks = 0;
  for (const char* text :
       {"README.md", "docs/guide.md", "docs/c.md", "docs/foreign-loops.md", "docs/determinism.md"})
    for (const std::string& block : code_blocks(read(root / text))) {
      ++blocks;
      EXPECT_NE(sources.find(unindented(block)), std::string::npos) << text << " shows\n" << block;
    }
  EXPECT_GE(blocks, 10U);
}

}  // namespace
