// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/error.h>
#include <cohort/tools/output_file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace cohort::output_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(OutputFileTest, without_a_path_takes_everything) {
  OutputFile file("");
  EXPECT_FALSE(file.is_wanted());
  file.write("nothing");
  file.close();
}

TEST(OutputFileTest, that_cannot_be_opened_is_told_with_what_to_do) {
  EXPECT_THAT([] { OutputFile("/no/such/folder/file"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("/no/such/folder/file: cannot be written: No such file"),
                                         HasSubstr("give a file in a folder"))));
}

TEST(OutputFileTest, keeps_what_it_held_until_something_is_written) {
  const std::string path = ::testing::TempDir() + "output_file_test";
  const auto content = [&path] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::ofstream(path) << "of an earlier run";
  { const OutputFile given_up(path); }
  EXPECT_EQ(content(), "of an earlier run");
  OutputFile file(path);
  file.write("new");
  file.close();
  EXPECT_EQ(content(), "new");
  OutputFile(path).close();
  EXPECT_EQ(content(), "") << "there was nothing to write";
  ::unlink(path.c_str());
}

/// The system takes small texts only as the file is closed.
TEST(OutputFileTest, that_has_no_room_is_told_however_little_is_written) {
  for (const std::size_t bytes : {1, 1 << 20}) {
    OutputFile file("/dev/full");
    EXPECT_THAT(
        [&] {
          file.write(std::string(bytes, 'x'));
          file.close();
        },
        ThrowsMessage<Error>(HasSubstr("/dev/full: cannot be written: No space left on device")));
  }
}

}  // namespace
}  // namespace cohort::output_file_test
