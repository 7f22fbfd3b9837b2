// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/pmi/pmi1_client.h>

#include <cohort/engine/error.h>
#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cohort::pmi1_client_test {
namespace {

using namespace std::chrono_literals;
using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

using Lines = std::vector<std::pair<std::string, std::string>>;

/// A launcher that expects certain lines, and answers each with one of its own.
class Transcript {
 public:
  explicit Transcript(std::vector<std::pair<std::string, std::string>> lines) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client_ = ends[0];
    launcher_ = std::thread([end = ends[1], lines = std::move(lines)] {
      LineChannel channel(end);
      for (const auto& [request, answer] : lines) {
        try {
          EXPECT_EQ(channel.receive(10s), request);
          channel.send(answer, 10s);
        } catch (const Error&) {
          break;
        }
      }
      ::close(end);
    });
  }
  ~Transcript() {
    ::close(client_);
    launcher_.join();
  }
  [[nodiscard]] LineChannel channel() const { return LineChannel(client_); }

 private:
  int client_ = -1;
  std::thread launcher_;
};

const std::vector<std::pair<std::string, std::string>> kBegin = {
    {"cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
    {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=16"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_7_0"}};

std::vector<std::pair<std::string, std::string>> begin_and(
    std::vector<std::pair<std::string, std::string>> rest) {
  auto lines = kBegin;
  lines.insert(lines.end(), rest.begin(), rest.end());
  return lines;
}

TEST(Pmi1Client, tells_and_hears_what_the_protocol_says) {
  const Transcript launcher(
      begin_and({{"cmd=put kvsname=kvs_7_0 key=k value=00ff", "cmd=put_result rc=0 msg=success"},
                 {"cmd=barrier_in", "cmd=barrier_out"},
                 {"cmd=get kvsname=kvs_7_0 key=k", "cmd=get_result rc=0 msg=success value=00ff"},
                 {"cmd=finalize", "cmd=finalize_ack"}}));
  Pmi1Client client(launcher.channel(), 10s);
  EXPECT_EQ(client.longest_value(), 16U);
  client.put("k", "00ff");
  client.barrier();
  EXPECT_EQ(client.get("k"), "00ff");
  client.finalize();
}

TEST(Pmi1Client, refuses_what_is_no_answer_and_shows_no_value) {
  const Transcript launcher(
      begin_and({{"cmd=put kvsname=kvs_7_0 key=k value=sesame", "cmd=put_result rc=-1 msg=full"}}));
  Pmi1Client client(launcher.channel(), 10s);
  const auto found = error_from([&] { client.put("k", "sesame"); });
  ASSERT_EQ(kind_of(found), "ProtocolError");
  EXPECT_THAT(found->what(), HasSubstr("answered 'cmd=put_result rc=-1 msg=full'"));
  EXPECT_THAT(found->what(), ::testing::Not(HasSubstr("sesame")));
}

TEST(Pmi1Client, knows_how_long_a_value_may_be) {
  const Transcript launcher(kBegin);
  Pmi1Client client(launcher.channel(), 10s);
  EXPECT_EQ(kind_of(error_from([&] { client.put("k", std::string(16, 'x')); })), "Unsupported");
}

TEST(Pmi1Client, ends_where_its_launcher_ends_or_says_nothing) {
  {
    const Lines nothing;
    const Transcript launcher(nothing);
    EXPECT_NE(kind_of(error_from([&] { Pmi1Client client(launcher.channel(), 10s); })), "nothing");
  }
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(kind_of(error_from([&] { Pmi1Client client(LineChannel{ends[0]}, 50ms); })), "DeadlineExceeded");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace cohort::pmi1_client_test
