// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/forked_part.h>

#include <cohort/tests/support/process_support.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <exception>
#include <utility>

namespace cohort::test {
namespace {

/// Writes each failure at once, so that those before a crash are not lost with it.
class WrittenFailures final : public ::testing::EmptyTestEventListener {
 public:
  explicit WrittenFailures(int descriptor) : descriptor_(descriptor) {}

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* const file = result.file_name() != nullptr ? result.file_name() : "unknown file";
    const std::string text = fmt::format("{}:{}: {}\n", file, result.line_number(), result.message());
    if (::write(descriptor_, text.data(), text.size()) < 0) std::terminate();
  }

 private:
  const int descriptor_;
};

}  // namespace

ForkedPart::ForkedPart(std::string name, const std::function<void()>& part)
    : name_(std::move(name)), failures_(std::make_unique<Collector>()), process_(::fork()) {
  if (process_ == 0) live(part);
}

ForkedPart::~ForkedPart() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void ForkedPart::live(const std::function<void()>& part) {
  ::testing::TestEventListeners& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());  // the parent prints
  listeners.Append(new WrittenFailures(failures_->descriptor()));
  try {
    part();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "threw " << error.what();
  }
  ::_exit(0);
}

void ForkedPart::join() {
  ASSERT_GT(process_, 0) << name_ << " could not be forked, or was joined already";
  const bool has_ended = ends(process_);
  if (!has_ended) ::kill(process_, SIGKILL);
  int status = -1;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  const std::string failures = failures_->text();
  if (!failures.empty()) ADD_FAILURE() << "in " << name_ << ":\n" << failures;
  if (!has_ended)
    ADD_FAILURE() << name_ << " did not end";
  else if (status != 0)
    ADD_FAILURE() << name_ << (WIFSIGNALED(status) ? " was ended by signal " : " ended with status ")
                  << (WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace cohort::test
