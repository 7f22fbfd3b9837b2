// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/progress_line.h>

#include <gmock/gmock.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace cohort::progress_line_test {
namespace {

using ::testing::HasSubstr;

/// A terminal that nobody sits at.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    std::array<char, 64> name{};
    EXPECT_EQ(::ptsname_r(master_, name.data(), name.size()), 0);
    file_ = ::fdopen(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC), "w");
  }
  ~Terminal() {
    std::fclose(file_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] std::FILE* file() const noexcept { return file_; }
  /// What was printed so far.
  [[nodiscard]] std::string text() const {
    std::fflush(file_);
    std::string text;
    pollfd ready{.fd = master_, .events = POLLIN, .revents = 0};
    std::array<char, 256> some{};
    while (::poll(&ready, 1, 0) > 0) {
      const ssize_t got = ::read(master_, some.data(), some.size());
      if (got <= 0) break;
      text.append(some.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

 private:
  const int master_;
  std::FILE* file_ = nullptr;
};

TEST(ProgressLine, stands_on_a_terminal_until_it_is_replaced_or_cleared) {
  const Terminal terminal;
  ProgressLine line(terminal.file());
  EXPECT_TRUE(line.is_due());
  line.show("3 of 10 cases");
  EXPECT_THAT(terminal.text(), HasSubstr("\r3 of 10 cases"));
  line.show("4 cases");
  EXPECT_THAT(terminal.text(), HasSubstr("\r4 cases      ")) << "nothing is left of the longer one";
  line.clear();
  EXPECT_THAT(terminal.text(), HasSubstr("\r       \r"));
  line.clear();
  EXPECT_EQ(terminal.text(), "");
}

TEST(ProgressLine, is_nothing_where_no_terminal_is) {
  std::FILE* const file = std::tmpfile();
  {
    ProgressLine line(file);
    EXPECT_FALSE(line.is_due());
    line.show("3 of 10 cases");
  }
  EXPECT_EQ(std::ftell(file), 0);
  std::fclose(file);
}

}  // namespace
}  // namespace cohort::progress_line_test
