// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/environment.h>

#include <cohort/engine/error.h>
#include <cohort/tests/support/outcome.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace cohort::environment::environment_test {
namespace {

using namespace std::chrono_literals;
using cohort::test::error_from;
using cohort::test::kind_of;

/// Sets a variable for the length of a test.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { ::unsetenv(name_); }

 private:
  const char* name_;
};

constexpr const char* kName = "COHORT_TEST_SETTING";

TEST(Environment, unset_and_empty_variables_are_no_value) {
  ::unsetenv(kName);
  EXPECT_EQ(text(kName), std::nullopt);
  EXPECT_EQ(number(kName, 1, 2), std::nullopt);
  const Setting empty(kName, "");
  EXPECT_EQ(text(kName), std::nullopt);
  EXPECT_EQ(number(kName, 1, 2), std::nullopt);
  EXPECT_EQ(bytes(kName), std::nullopt);
  EXPECT_EQ(microseconds(kName), std::nullopt);
  EXPECT_EQ(duration(kName), std::nullopt);
}

TEST(Environment, set_variables_are_read_in_their_unit) {
  const Setting setting(kName, "20");
  EXPECT_EQ(text(kName), "20");
  EXPECT_EQ(number(kName, 1, 100), 20U);
  EXPECT_EQ(bytes(kName), 20U);
  EXPECT_EQ(microseconds(kName), Duration(20us));
  EXPECT_EQ(duration(kName), Duration(20s));
}

TEST(Environment, refusal_names_the_variable_its_text_and_what_is_accepted) {
  const Setting setting(kName, "many");
  const auto error = error_from([] { (void)number(kName, 1, 1024); });
  ASSERT_EQ(kind_of(error), "InvalidArgument");
  EXPECT_EQ(error->message(), "COHORT_TEST_SETTING='many' is not a whole number from 1 to 1024");
}

TEST(Environment, numbers_are_whole_and_within_their_bounds) {
  EXPECT_EQ(parse_number("n", "0", 0, 10), 0U);
  EXPECT_EQ(parse_number("n", "10", 0, 10), 10U);
  EXPECT_EQ(parse_number("n", "18446744073709551615", 0, ~std::uint64_t{0}), ~std::uint64_t{0});
  for (const char* refused :
       {"", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x1", "11", "18446744073709551616", "one"}) {
    const auto error = error_from([&] { (void)parse_number("n", refused, 0, 10); });
    EXPECT_EQ(kind_of(error), "InvalidArgument") << '\'' << refused << '\'';
  }
  EXPECT_THROW((void)parse_number("n", "1", 2, 10), Error);
}

TEST(Environment, sizes_are_powers_of_1024) {
  struct Case {
    const char* text;
    std::uint64_t bytes;
  };
  for (const Case& c : {Case{"0", 0}, Case{"4096", 4096}, Case{"7B", 7}, Case{"64K", 64 << 10},
                        Case{"64k", 64 << 10}, Case{"64KB", 64 << 10}, Case{"64KiB", 64 << 10},
                        Case{"64kb", 64 << 10}, Case{"200M", 200 << 20}, Case{"1G", 1 << 30},
                        Case{"2T", std::uint64_t{2} << 40}, Case{"16777215T", std::uint64_t{16777215} << 40}})
    EXPECT_EQ(parse_bytes("size", c.text), c.bytes) << c.text;
}

TEST(Environment, sizes_that_are_none_or_too_large_are_refused) {
  for (const char* refused : {"", "K", "M4", "4 K", "4KK", "4KBB", "4iB", "4BiB", "4Bb", "4KiBs", "-4",
                              "1.5G", "0x10", "4P", "16777216T", "99999999999999999999"}) {
    const auto error = error_from([&] { (void)parse_bytes("size", refused); });
    EXPECT_EQ(kind_of(error), "InvalidArgument") << '\'' << refused << '\'';
  }
}

TEST(Environment, durations_are_seconds_unless_a_unit_is_given) {
  struct Case {
    const char* text;
    Duration duration;
  };
  for (const Case& c : {Case{"0", 0s}, Case{"90", 90s}, Case{"1.5", 1500ms}, Case{"3s", 3s},
                        Case{"250ms", 250ms}, Case{"10us", 10us}, Case{"7ns", 7ns}, Case{"2min", 2min},
                        Case{"2m", 2min}, Case{"1h", 1h}, Case{".5h", 30min}, Case{"1e3ms", 1s}})
    EXPECT_EQ(parse_duration("timeout", c.text), c.duration) << c.text;
}

TEST(Environment, durations_that_are_none_negative_or_too_long_are_refused) {
  for (const char* refused :
       {"", "s", "ten", "10 s", "-1", "-1ms", "nan", "inf", "1e300", "1e10", "3S", "1.2.3", "5x"}) {
    const auto error = error_from([&] { (void)parse_duration("timeout", refused); });
    ASSERT_EQ(kind_of(error), "InvalidArgument") << '\'' << refused << '\'';
    EXPECT_NE(error->message().find("timeout="), std::string_view::npos) << error->what();
  }
}

}  // namespace
}  // namespace cohort::environment::environment_test
