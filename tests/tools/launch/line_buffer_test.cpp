// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/line_buffer.h>

#include <gtest/gtest.h>

namespace cohort::line_buffer_test {
namespace {

TEST(LineBuffer, every_line_gets_the_prefix) {
  LineBuffer lines("[3] ");
  EXPECT_EQ(lines.feed("one\ntwo\n\n"), "[3] one\n[3] two\n[3] \n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(LineBuffer, a_line_waits_until_it_is_whole) {
  LineBuffer lines("[0] ");
  EXPECT_EQ(lines.feed("first ha"), "");
  EXPECT_EQ(lines.feed("lf\nsecond"), "[0] first half\n");
  EXPECT_EQ(lines.feed(""), "");
  EXPECT_EQ(lines.finish(), "[0] second\n");
}

TEST(LineBuffer, the_longest_line_passes_whole_and_a_longer_one_is_cut) {
  const std::string longest(LineBuffer::kLongestLine, 'x');
  for (const std::size_t step : {std::size_t{1}, std::size_t{1000}, 3 * LineBuffer::kLongestLine}) {
    LineBuffer lines("> ");
    const std::string text = longest + "\n" + longest + longest + "tail";
    std::string written;
    for (std::size_t at = 0; at < text.size(); at += step) written += lines.feed(text.substr(at, step));
    written += lines.finish();
    const std::string line = "> " + longest + "\n";
    EXPECT_TRUE(written == line + line + line + "> tail\n") << "in steps of " << step;
  }
}

TEST(LineBuffer, bytes_of_any_value_pass) {
  LineBuffer lines("");
  const std::string bytes("\0\x01\xff\r\t", 5);
  EXPECT_EQ(lines.feed(bytes + "\n"), bytes + "\n");
}

}  // namespace
}  // namespace cohort::line_buffer_test
