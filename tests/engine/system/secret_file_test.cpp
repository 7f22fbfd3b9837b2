// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/secret_file.h>

#include <cohort/engine/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::secret_file_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::string_view kText = "correct horse battery staple\n";
constexpr uid_t kNobody = 65534;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refusal_of(const std::function<void()>& reading) {
  try {
    reading();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::AuthFailed);
    return error.what();
  }
  return "accepted";
}

std::string refusal_of_file(const std::filesystem::path& path) {
  return refusal_of([&] { (void)read_secret_file(path.string()); });
}

std::string refusal_of_fd(int fd) {
  return refusal_of([&] { (void)read_secret_fd(fd, 20ms); });
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

class SecretFile : public ::testing::Test {
 protected:
  SecretFile() {
    std::string name = (std::filesystem::temp_directory_path() / "cohort-secret-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::filesystem::filesystem_error("mkdtemp", std::error_code());
    folder_ = name;
  }
  ~SecretFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path make(std::string_view content = kText, ::mode_t mode = 0600) const {
    const std::filesystem::path path = folder_ / "secret";
    std::ofstream(path) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }

  std::filesystem::path folder_;
};

/// A pipe with `content` in it; returns the read end, and the write end too if it is to stay open.
int pipe_with(std::string_view content, int* write_end = nullptr) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(::write(ends[1], content.data(), content.size()), static_cast<ssize_t>(content.size()));
  if (write_end != nullptr)
    *write_end = ends[1];
  else
    ::close(ends[1]);
  return ends[0];
}

TEST_F(SecretFile, of_our_own_that_nobody_else_may_use_is_read_as_it_is) {
  EXPECT_EQ(text_of(read_secret_file(make().string())), kText);
  EXPECT_EQ(text_of(read_secret_file(make(kText, 0400).string())), kText);
  EXPECT_EQ(text_of(read_secret_file(make("").string())), "");
}

TEST_F(SecretFile, that_others_may_use_is_refused_with_its_mode_and_the_remedy) {
  for (const ::mode_t mode : {0644u, 0640u, 0604u, 0620u, 0602u, 0610u, 0601u}) {
    const std::filesystem::path path = make(kText, mode);
    EXPECT_THAT(
        refusal_of_file(path),
        AllOf(HasSubstr(path.string()), HasSubstr(fmt::format("mode {:04o}", mode)), HasSubstr("chmod 600")));
  }
}

TEST_F(SecretFile, that_is_a_symbolic_link_is_refused) {
  const std::filesystem::path link = folder_ / "link";
  std::filesystem::create_symlink(make(), link);
  EXPECT_THAT(refusal_of_file(link), AllOf(HasSubstr(link.string()), HasSubstr("symbolic link")));
}

TEST_F(SecretFile, that_is_no_regular_file_is_refused_without_waiting) {
  EXPECT_THAT(refusal_of_file(folder_), HasSubstr("is a directory"));
  const std::filesystem::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_file(fifo), HasSubstr("is a named pipe"));
  EXPECT_THAT(refusal_of_file("/dev/null"), HasSubstr("is a device"));
}

TEST_F(SecretFile, of_another_owner_is_refused_naming_both_users) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a file of another owner";
  const std::filesystem::path path = make();
  ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(refusal_of_file(path), AllOf(HasSubstr("belongs to user 65534"), HasSubstr("of user 0")));
}

TEST_F(SecretFile, that_is_missing_is_refused_with_the_reason) {
  EXPECT_THAT(refusal_of_file(folder_ / "none"), AllOf(HasSubstr("/none"), HasSubstr("No such file")));
}

TEST_F(SecretFile, of_4096_bytes_is_the_longest) {
  EXPECT_EQ(read_secret_file(make(std::string(4096, 'x')).string()).size(), 4096u);
  EXPECT_THAT(refusal_of_file(make(std::string(4097, 'x'))), HasSubstr("more than 4096 bytes"));
}

TEST(SecretDescriptor, that_is_a_pipe_is_read_to_its_end_and_closed) {
  const int fd = pipe_with(kText);
  EXPECT_EQ(text_of(read_secret_fd(fd)), kText);
  EXPECT_FALSE(is_open(fd));
}

TEST(SecretDescriptor, that_is_a_socket_is_read_to_its_end_and_closed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  ASSERT_EQ(::send(ends[1], kText.data(), kText.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kText.size()));
  ::close(ends[1]);
  EXPECT_EQ(text_of(read_secret_fd(ends[0])), kText);
  EXPECT_FALSE(is_open(ends[0]));
}

TEST(SecretDescriptor, shared_by_several_processes_gives_each_the_whole_secret) {
  const int fd = ::memfd_create("secret", MFD_CLOEXEC);
  ASSERT_EQ(::write(fd, kText.data(), kText.size()), static_cast<ssize_t>(kText.size()));
  const int shared = ::dup(fd);
  EXPECT_EQ(text_of(read_secret_fd(fd)), kText);
  EXPECT_EQ(text_of(read_secret_fd(shared)), kText);
  EXPECT_FALSE(is_open(fd));
}

TEST(SecretDescriptor, that_never_ends_is_given_up_and_closed) {
  int write_end = -1;
  const int fd = pipe_with(kText, &write_end);
  EXPECT_THAT(refusal_of_fd(fd), HasSubstr("did not end in time"));
  EXPECT_FALSE(is_open(fd));
  ::close(write_end);
}

TEST(SecretDescriptor, with_more_than_4096_bytes_is_refused_and_closed) {
  int write_end = -1;
  const int fd = pipe_with(std::string(4097, 'x'), &write_end);
  EXPECT_THAT(refusal_of_fd(fd), HasSubstr("more than 4096 bytes"));
  EXPECT_FALSE(is_open(fd));
  ::close(write_end);
}

TEST(SecretDescriptor, that_is_not_open_is_refused_with_the_remedy) {
  EXPECT_THAT(refusal_of_fd(-1), HasSubstr("not open"));
  const int fd = pipe_with("");
  ::close(fd);
  EXPECT_THAT(refusal_of_fd(fd), AllOf(HasSubstr(std::to_string(fd)), HasSubstr("COHORT_SECRET_FD")));
}

TEST_F(SecretFile, descriptor_opened_for_writing_is_refused_and_closed) {
  const int fd = ::open(make().c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_THAT(refusal_of_fd(fd), HasSubstr("cannot be read"));
  EXPECT_FALSE(is_open(fd));
}

}  // namespace
}  // namespace cohort::secret_file_test
