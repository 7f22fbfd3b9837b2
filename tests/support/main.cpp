// SPDX-License-Identifier: Apache-2.0
// What every program of tests runs: all of them, or those of the files that its arguments name, as
// net/framed/stream_packets_test.cpp. GoogleTest's options go before. A test that takes too long ends the
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr unsigned kTimeoutSeconds = COHORT_TEST_TIMEOUT_S;

bool is_of(std::string_view path, const char* file) {
  return path == file || path.ends_with(std::string("/") + file);
}

std::vector<const ::testing::TestInfo*> all_tests() {
  std::vector<const ::testing::TestInfo*> tests;
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) tests.push_back(suite.GetTestInfo(j));
  }
  return tests;
}

std::string name_of(const ::testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + "." + test.name();
}

/// GoogleTest's filter for the tests of that file.
std::string filter_for(const char* file) {
  std::string filter;
  for (const auto* test : all_tests())
    if (is_of(test->file(), file)) filter += name_of(*test) + ":";
  return filter;
}

/// Of a name that two tests have: two files have a suite of that name, and each instantiates the other's,
/// too.
std::optional<std::string> name_of_two() {
  std::set<std::string> names;
  for (const auto* test : all_tests())
    if (std::string name = name_of(*test); !names.insert(name).second) return name;
  return std::nullopt;
}

/// Each test gets so long, however many the program runs.
class Timeout : public ::testing::EmptyTestEventListener {
 public:
  void OnTestStart(const ::testing::TestInfo& test) override {
    name_ = name_of(test) + " took longer than " + std::to_string(kTimeoutSeconds) + " s\n";
    current_ = name_.c_str();
    std::signal(SIGALRM, end);
    alarm(kTimeoutSeconds);
  }
  void OnTestEnd(const ::testing::TestInfo&) override { alarm(0); }

 private:
  static void end(int) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, current_, std::strlen(current_));
    std::abort();
  }

  static inline const char* current_ = nullptr;
  std::string name_;
};

}  // namespace

int main(int count, char** arguments) {
  ::testing::InitGoogleMock(&count, arguments);
  if (const auto name = name_of_two()) {
    std::fprintf(stderr, "%s: two tests are called %s\n", arguments[0], name->c_str());
    return 2;
  }
  std::string filter;
  for (int i = 1; i < count; ++i) {
    const std::string tests = filter_for(arguments[i]);
    if (tests.empty()) {
      std::fprintf(stderr, "%s: no test of %s\n", arguments[0], arguments[i]);
      return 2;
    }
    filter += tests;
  }
  if (!filter.empty()) GTEST_FLAG_SET(filter, filter);
  ::testing::UnitTest::GetInstance()->listeners().Append(new Timeout);
  return RUN_ALL_TESTS();
}
