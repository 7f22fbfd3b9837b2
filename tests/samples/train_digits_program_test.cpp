// SPDX-License-Identifier: Apache-2.0
// train_digits as a user starts it.
#include <cohort/engine/engine.h>
#include <cohort/engine/system/process.h>
#include <cohort/samples/train_digits/dataset.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace cohort::samples::train_digits_program_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string program() { return std::string(COHORT_TEST_BIN_DIR) + "/train_digits"; }

class Program {
 public:
  explicit Program(std::vector<std::string> command)
      : child_(ChildProcess::spawn(engine_, {.command = std::move(command), .has_output_pipes = true})),
        output_(child_.take_output()),
        errors_(child_.take_errors()) {}

  /// What is there once something is; empty at the end.
  std::string read_output() { return read(output_); }
  std::string read_errors() { return read(errors_); }
  ExitStatus wait() { return engine_.run(child_.wait()); }

 private:
  std::string read(PipeReader& pipe) {
    engine_.run(pipe.until_readable());
    const auto count = pipe.try_read(std::as_writable_bytes(std::span(bytes_)));
    return std::string(bytes_.data(), count.value_or(0));
  }

  Engine engine_;
  ChildProcess child_;
  PipeReader output_;
  PipeReader errors_;
  std::array<char, 64 * 1024> bytes_{};
};

TEST(TrainDigits, progress_comes_in_whole_lines_through_a_pipe) {
  Program endless({program(), "--epochs", "100000"});
  const std::string first = endless.read_output();
  EXPECT_THAT(first, StartsWith("epoch  1/100000  loss"));
  EXPECT_EQ(first.back(), '\n') << "a full buffer ends within a line";
}

TEST(TrainDigits, data_is_found_wherever_the_program_is_started) {
  Program elsewhere({"/bin/sh", "-c", "cd / && exec '" + program() + "' --epochs 1"});
  EXPECT_THAT(elsewhere.read_output(), StartsWith("epoch"));
  EXPECT_TRUE(elsewhere.wait().is_success());
}

TEST(TrainDigits, data_beside_the_program_comes_first) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("cohort-digits-" + std::to_string(current_process()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(program(), folder / "train_digits");
  std::ofstream(folder / "digits.csv") << "no digits\n";
  Program copied({folder / "train_digits", "--epochs", "1"});
  EXPECT_THAT(copied.read_errors(), AllOf(HasSubstr(folder.string()), HasSubstr("digits.csv:1")));
  EXPECT_EQ(copied.wait().code, 1);
  std::filesystem::remove_all(folder);
}

TEST(TrainDigits, data_that_is_nowhere_names_every_place) {
  try {
    (void)find_digits({"/nowhere/bin/../share/digits.csv", "/nowhere/else.csv"});
    ADD_FAILURE() << "found";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("/nowhere/share/digits.csv, /nowhere/else.csv"), HasSubstr("--data")));
  }
  Program misled({program(), "--data", "/nowhere/digits.csv"});
  EXPECT_THAT(misled.read_errors(), HasSubstr("/nowhere/digits.csv"));
  EXPECT_EQ(misled.wait().code, 1);
}

}  // namespace
}  // namespace cohort::samples::train_digits_program_test
