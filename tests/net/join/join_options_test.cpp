// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_options.h>

#include <cohort/collectives/job/communicator_options.h>
#include <cohort/engine/system/environment.h>
#include <cohort/tests/support/outcome.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace cohort::join_options_test {
namespace {

using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kHexSecret(64, 'a');

/// Sets variables; all of ours are gone before and after.
class JoinOptionsFromEnvironment : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    for (const char* name : {"COHORT_RANK",
                             "COHORT_SIZE",
                             "COHORT_ADDR",
                             "COHORT_NAME",
                             "COHORT_JOB",
                             "COHORT_JOIN_TIMEOUT",
                             "COHORT_AUTH",
                             "COHORT_TLS",
                             "COHORT_HOST_ID",
                             "COHORT_MACHINE_ID",
                             "COHORT_HOST_TIMEOUT",
                             "COHORT_SECRET_FD",
                             "COHORT_SECRET_FILE",
                             "COHORT_SECRET",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "RANK",
                             "WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "OMPI_MCA_ess_base_jobid",
                             "MPI_LOCALNRANKS",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "COHORT_RANK_TABLE",
                             "COHORT_SOCKET_IFNAME",
                             "COHORT_PORT_RANGE",
                             "PMI_FD",
                             "PMIX_RANK",
                             "SLURM_STEP_NODELIST",
                             "JOB_COMPLETION_INDEX",
                             "PET_NNODES",
                             "PET_NODE_RANK",
                             "PET_NPROC_PER_NODE",
                             "PET_MASTER_ADDR",
                             "NPROC_PER_NODE",
                             "KUBERNETES_PORT",
                             "GROUP_RANK",
                             "LOCAL_RANK",
                             "RANK_ID",
                             "RANK_TABLE_FILE",
                             "DEVICE_ID",
                             "TORCHELASTIC_RESTART_COUNT"})
      ::unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  static std::optional<Error> error() {
    return error_from([] { static_cast<void>(JoinOptions::from_environment()); });
  }
  static void expect_invalid(std::initializer_list<const char*> words) {
    const auto found = error();
    ASSERT_EQ(kind_of(found), "InvalidArgument");
    for (const char* word : words) EXPECT_THAT(found->what(), HasSubstr(word));
  }
};

bool is_secret_of_as(const JoinOptions& options) {
  return options.secret &&
         std::ranges::all_of(options.secret->bytes(), [](std::byte byte) { return byte == std::byte{0xaa}; });
}

TEST_F(JoinOptionsFromEnvironment, nothing_set_means_alone) {
  const JoinOptions options = JoinOptions::from_environment();
  EXPECT_EQ(options.rank, 0U);
  EXPECT_EQ(options.size, 1U);
  EXPECT_EQ(options.name, "world");
  EXPECT_EQ(options.timeout, std::chrono::seconds(120));
  EXPECT_FALSE(options.secret);
  EXPECT_FALSE(options.is_unauthenticated);
  EXPECT_EQ(options.encryption, Encryption::allowed);
  EXPECT_THAT(options.address_or_default(), AllOf(HasSubstr("unix:cohort-"), HasSubstr("-world")));
}

TEST_F(JoinOptionsFromEnvironment, everything_is_read) {
  set("COHORT_RANK", "3");
  set("COHORT_SIZE", "8");
  set("COHORT_ADDR", "10.0.0.1:4711");
  set("COHORT_NAME", "dp");
  set("COHORT_JOB", "4711");
  set("COHORT_JOIN_TIMEOUT", "250ms");
  set("COHORT_AUTH", "none");
  set("COHORT_TLS", "off");
  set("COHORT_HOST_ID", "left half");
  set("COHORT_MACHINE_ID", "clone 2");
  const JoinOptions options = JoinOptions::from_environment();
  EXPECT_EQ(options.rank, 3U);
  EXPECT_EQ(options.size, 8U);
  EXPECT_EQ(options.address, "10.0.0.1:4711");
  EXPECT_EQ(options.name, "dp");
  EXPECT_EQ(options.job, "4711");
  EXPECT_EQ(options.timeout, std::chrono::milliseconds(250));
  EXPECT_TRUE(options.is_unauthenticated);
  EXPECT_EQ(options.encryption, Encryption::forbidden);
  EXPECT_EQ(options.host_id, "left half");
  EXPECT_EQ(options.machine_id, "clone 2");
}

TEST_F(JoinOptionsFromEnvironment, encryption_needs_a_secret) {
  set("COHORT_TLS", "on");
  EXPECT_EQ(JoinOptions::from_environment().encryption, Encryption::required);
  set("COHORT_AUTH", "none");
  expect_invalid({"COHORT_TLS=on", "COHORT_SECRET_FILE"});
  clear();
  set("COHORT_TLS", "yes");
  expect_invalid({"COHORT_TLS='yes'", "on, off and auto"});
}

TEST_F(JoinOptionsFromEnvironment, half_a_place_says_which_half_is_missing) {
  set("COHORT_RANK", "0");
  expect_invalid({"COHORT_RANK is set and COHORT_SIZE is not"});
  clear();
  set("COHORT_SIZE", "4");
  expect_invalid({"COHORT_SIZE is set and COHORT_RANK is not"});
}

TEST_F(JoinOptionsFromEnvironment, a_rank_that_cannot_be_names_both_values) {
  set("COHORT_RANK", "4");
  set("COHORT_SIZE", "4");
  expect_invalid({"COHORT_RANK=4", "COHORT_SIZE=4", "0 to 3"});
  set("COHORT_RANK", "-1");
  expect_invalid({"COHORT_RANK='-1'"});
  set("COHORT_RANK", "65536");
  expect_invalid({"COHORT_RANK='65536' is not a whole number from 0 to 65535"});
  set("COHORT_SIZE", "0");
  expect_invalid({"COHORT_SIZE='0'"});
}

TEST_F(JoinOptionsFromEnvironment, other_values_that_cannot_be_name_their_variable) {
  set("COHORT_JOIN_TIMEOUT", "soon");
  expect_invalid({"COHORT_JOIN_TIMEOUT"});
  set("COHORT_JOIN_TIMEOUT", "0");
  expect_invalid({"COHORT_JOIN_TIMEOUT"});
  clear();
  set("COHORT_AUTH", "off");
  expect_invalid({"COHORT_AUTH='off'"});
  clear();
  set("COHORT_NAME", std::string(65, 'n'));
  expect_invalid({"COHORT_NAME"});
}

/// So that a rank can tell all others what is wrong with it.
TEST_F(JoinOptionsFromEnvironment, what_is_wrong_beside_the_place_is_kept_for_joining) {
  const std::pair<const char*, const char*> wrong[] = {{"COHORT_JOIN_TIMEOUT", "soon"},
                                                       {"COHORT_JOIN_TIMEOUT", "0"},
                                                       {"COHORT_HOST_TIMEOUT", "0"},
                                                       {"COHORT_PORT_RANGE", "x-y"},
                                                       {"COHORT_TLS", "yes"},
                                                       {"COHORT_AUTH", "off"},
                                                       {"COHORT_TIMEOUT", "abc"},
                                                       {"COHORT_BUFFSIZE", "4 elephants"},
                                                       {"COHORT_DETERMINISM", "D9"},
                                                       {"COHORT_TCP_CONNECTIONS", "0"},
                                                       {"COHORT_CMA", "2"},
                                                       {"COHORT_CACHE_REFRESH", "yes"}};
  for (const auto& [name, value] : wrong) {
    SCOPED_TRACE(name);
    const auto before = environment::text(name);
    set(name, value);
    set("COHORT_RANK", "2");
    set("COHORT_SIZE", "3");
    set("COHORT_ADDR", "10.0.0.1:4711");
    const CommunicatorOptions options = CommunicatorOptions::from_environment();
    ASSERT_EQ(kind_of(options.join.fault), "InvalidArgument");
    EXPECT_THAT(options.join.fault->what(), HasSubstr(name));
    EXPECT_EQ(options.join.rank, 2U);
    EXPECT_EQ(options.join.size, 3U);
    EXPECT_EQ(options.join.address, "10.0.0.1:4711");
    ::unsetenv(name);
    if (before) set(name, *before);
  }
  set("COHORT_RANK", "3");
  EXPECT_EQ(kind_of(error_from([] { (void)CommunicatorOptions::from_environment(); })), "InvalidArgument");
}

TEST_F(JoinOptionsFromEnvironment, a_secret_descriptor_serves_every_communicator_of_the_process) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], kHexSecret.data(), kHexSecret.size()), 64);
  ::close(ends[1]);
  static int next = 500;  // a number that this process has not given before
  const int descriptor = ::dup2(ends[0], next++);
  ::close(ends[0]);
  set("COHORT_SECRET_FD", std::to_string(descriptor));
  for (int round = 0; round < 3; ++round) {
    const JoinOptions options = JoinOptions::from_environment();
    EXPECT_TRUE(is_secret_of_as(options));
    EXPECT_EQ(options.secret_source, "COHORT_SECRET_FD=" + std::to_string(descriptor));
  }
  EXPECT_EQ(::close(descriptor), -1) << "it was closed when it was read";
}

TEST_F(JoinOptionsFromEnvironment, a_secret_file_that_others_may_read_is_refused) {
  const std::string path = ::testing::TempDir() + "cohort_join_options_secret";
  std::ofstream(path) << kHexSecret << '\n';
  set("COHORT_SECRET_FILE", path);
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(is_secret_of_as(JoinOptions::from_environment()));
  ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
  EXPECT_EQ(kind_of(error()), "AuthFailed");
  ::unlink(path.c_str());
}

TEST_F(JoinOptionsFromEnvironment, a_secret_in_a_variable_is_taken_with_one_warning) {
  set("COHORT_SECRET", kHexSecret);
  static std::string printed;  // by this process, should the test be repeated
  for (int round = 0; round < 2; ++round) {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(is_secret_of_as(JoinOptions::from_environment()));
    printed += ::testing::internal::GetCapturedStderr();
  }
  EXPECT_THAT(printed, AllOf(HasSubstr("warn: COHORT_SECRET"), HasSubstr("COHORT_SECRET_FILE")));
  EXPECT_EQ(std::ranges::count(printed, '\n'), 1);
}

/// What reading prints with these variables set beside what is set.
std::string warning_with(const char* rank, const char* size, const char* ranks) {
  ::setenv(rank, "3", 1);
  ::setenv(size, ranks, 1);
  ::testing::internal::CaptureStderr();
  const JoinOptions options = JoinOptions::from_environment();
  EXPECT_EQ(options.size, 1U);
  const std::string printed = ::testing::internal::GetCapturedStderr();
  ::unsetenv(rank);
  ::unsetenv(size);
  return printed;
}

TEST_F(JoinOptionsFromEnvironment, another_launchers_job_is_warned_of_once_with_what_to_set) {
  const std::pair<const char*, const char*> launchers[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                           {"PMI_RANK", "PMI_SIZE"},
                                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                                           {"RANK", "WORLD_SIZE"}};
  static std::string printed;  // by this process, should the test be repeated
  for (const auto& [rank, size] : launchers) {
    EXPECT_EQ(warning_with(rank, size, "1"), "");
    printed += warning_with(rank, size, "4");
    EXPECT_THAT(printed, HasSubstr(fmt::format("rank 0 of 1, though {}=3 and {}=4 say", rank, size)));
    EXPECT_THAT(printed, HasSubstr(fmt::format("COHORT_RANK=${} COHORT_SIZE=${}", rank, size)));
    EXPECT_EQ(warning_with(rank, size, "4"), "");
  }
  set("COHORT_RANK", "0");
  set("COHORT_SIZE", "1");
  EXPECT_EQ(warning_with("FOO_RANK", "FOO_SIZE", "4"), "");
}

struct OfLauncher {
  const char* rank;
  const char* size;
  const char* local_size;
};
constexpr OfLauncher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}};

TEST_F(JoinOptionsFromEnvironment, a_launchers_job_on_one_host_is_joined_at_an_address_of_its_own) {
  std::set<std::string> addresses;
  for (const OfLauncher& launcher : kLaunchers) {
    clear();
    set(launcher.rank, "3");
    set(launcher.size, "4");
    set(launcher.local_size, "4");
    const JoinOptions options = JoinOptions::from_environment();
    EXPECT_EQ(options.rank, 3U) << launcher.rank;
    EXPECT_EQ(options.size, 4U);
    EXPECT_THAT(options.address, ::testing::StartsWith(fmt::format("unix:cohort-{}-", ::getuid())));
    set(launcher.rank, "0");
    EXPECT_EQ(JoinOptions::from_environment().address, options.address) << "of every rank";
    EXPECT_TRUE(addresses.insert(options.address).second) << launcher.rank;
  }
  set("MASTER_PORT", "29500");
  EXPECT_TRUE(addresses.insert(JoinOptions::from_environment().address).second) << "of another job";
  set("TORCHELASTIC_RESTART_COUNT", "1");
  EXPECT_TRUE(addresses.insert(JoinOptions::from_environment().address).second) << "of another start";
}

TEST_F(JoinOptionsFromEnvironment, a_launchers_job_on_several_hosts_needs_an_address) {
  for (const OfLauncher& launcher : kLaunchers) {
    clear();
    set(launcher.rank, "3");
    set(launcher.size, "4");
    set(launcher.local_size, launcher.rank == kLaunchers[2].rank ? "2(x2)" : "2");
    expect_invalid({"started 4 ranks on several hosts", launcher.local_size, "COHORT_ADDR=HOST:PORT"});
    set("COHORT_ADDR", "10.0.0.1:29400");
    const JoinOptions options = JoinOptions::from_environment();
    EXPECT_EQ(options.rank, 3U);
    EXPECT_EQ(options.size, 4U);
    EXPECT_EQ(options.address, "10.0.0.1:29400");
    ::unsetenv(launcher.local_size);
    EXPECT_EQ(JoinOptions::from_environment().size, 4U) << "nothing more need be known";
  }
}

TEST_F(JoinOptionsFromEnvironment, launchers_that_start_each_other_must_not_contradict_each_other) {
  set("SLURM_PROCID", "1");
  set("SLURM_STEP_NUM_TASKS", "2");
  set("SLURM_STEP_TASKS_PER_NODE", "1(x2)");
  set("OMPI_COMM_WORLD_RANK", "5");
  set("OMPI_COMM_WORLD_SIZE", "8");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "8");
  EXPECT_EQ(JoinOptions::from_environment().rank, 5U);
  set("RANK", "2");
  set("WORLD_SIZE", "3");
  set("LOCAL_WORLD_SIZE", "3");
  expect_invalid(
      {"rank 2 of 3 by torch.distributed.run", "rank 5 of 8 by Open MPI", "set COHORT_RANK and COHORT_SIZE"});
  set("COHORT_RANK", "0");
  set("COHORT_SIZE", "1");
  EXPECT_EQ(JoinOptions::from_environment().size, 1U);
}

std::string with_blanks(std::string word) {
  std::ranges::replace(word, '|', ' ');
  return word;
}

TEST_F(JoinOptionsFromEnvironment, what_launchers_say_means_what_the_table_says) {
  std::ifstream table(COHORT_TEST_SOURCE_DIR "/tests/net/join/launched_places.txt");
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    SCOPED_TRACE(line);
    ++rows;
    clear();
    std::istringstream words(line);
    std::string word;
    while (words >> word && word != "->")
      set(word.substr(0, word.find('=')).c_str(), word.substr(word.find('=') + 1));
    words >> word;
    if (word == "refused") {
      const auto found = error();
      ASSERT_EQ(kind_of(found), "InvalidArgument");
      while (words >> word) EXPECT_THAT(found->what(), HasSubstr(with_blanks(word)));
      continue;
    }
    ::testing::internal::CaptureStderr();
    const JoinOptions options = JoinOptions::from_environment();
    const std::string printed = ::testing::internal::GetCapturedStderr();
    if (word != "unknown") {
      EXPECT_EQ(printed, "");
    }
    if (word == "unknown" || word == "alone") {
      EXPECT_EQ(options.size, 1U);
      continue;
    }
    std::string size;
    std::string address;
    std::string of;
    words >> of >> size >> of >> address;
    EXPECT_EQ(fmt::format("{} of {}", options.rank, options.size), fmt::format("{} of {}", word, size));
    const std::string here = fmt::format("unix:cohort-{}-", ::getuid());
    if (address == "here")
      EXPECT_THAT(options.address, ::testing::StartsWith(here));
    else
      EXPECT_EQ(options.address, address.find(':') == std::string::npos ? here + address : address);
  }
  EXPECT_GT(rows, 10);
}

TEST_F(JoinOptionsFromEnvironment, a_launchers_only_rank_is_alone) {
  set("OMPI_COMM_WORLD_RANK", "0");
  set("OMPI_COMM_WORLD_SIZE", "1");
  set("OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  const JoinOptions options = JoinOptions::from_environment();
  EXPECT_EQ(options.size, 1U);
  EXPECT_EQ(options.address, "");
}

TEST(JoinOptionsCopies, hold_the_same_secret_and_leave_it_to_the_original) {
  JoinOptions options;
  const JoinOptions without = options;
  EXPECT_FALSE(without.secret);
  options.secret = Secret::parse(std::as_bytes(std::span(kHexSecret)), "a test");
  options.name = "first";
  JoinOptions copy = options;
  EXPECT_TRUE(is_secret_of_as(copy));
  EXPECT_TRUE(is_secret_of_as(options));
  EXPECT_EQ(copy.name, "first");
  copy = without;
  EXPECT_FALSE(copy.secret);
  copy = options;
  EXPECT_TRUE(is_secret_of_as(copy));
}

}  // namespace
}  // namespace cohort::join_options_test
