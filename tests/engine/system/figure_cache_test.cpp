// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/figure_cache.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace cohort::figure_cache_test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class FigureCacheTest : public testing::Test {
 protected:
  FigureCacheTest() {
    folder_ = std::filesystem::temp_directory_path() / "cohort-figures-XXXXXX";
    std::string name = folder_.string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~FigureCacheTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "deep/figures").string(); }
  [[nodiscard]] FigureCache cache() const { return FigureCache(path()); }
  static FigureCache::Moment now() { return std::chrono::system_clock::now(); }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "deep");
    std::ofstream(path()) << text;
    ::chmod(path().c_str(), 0600);
  }
  [[nodiscard]] std::string line(const std::string& rest) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
    return fmt::format("cohort figures 1\n{} {}\n", seconds, rest);
  }

  std::filesystem::path folder_;
};

TEST_F(FigureCacheTest, gives_what_was_kept_to_the_next_process) {
  EXPECT_THAT(cache().find("host/a"), IsEmpty());
  cache().keep_from(now(), "host/a", std::array{1.5, 2e-4});
  cache().keep_from(now(), "host/b", std::array{3.0});
  EXPECT_THAT(cache().find("host/a"), ElementsAre(1.5, 2e-4));
  EXPECT_THAT(cache().find("host/b"), ElementsAre(3.0));
  cache().keep_from(now(), "host/a", std::array{7.0});
  EXPECT_THAT(cache().find("host/a"), ElementsAre(7.0));
  EXPECT_THAT(cache().find("host"), IsEmpty());
}

TEST_F(FigureCacheTest, is_for_its_user_alone) {
  cache().keep_from(now(), "host", std::array{1.0});
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(::chmod(path().c_str(), 0622), 0);
  EXPECT_THAT(cache().find("host"), IsEmpty()) << "others could have written it";
}

TEST_F(FigureCacheTest, forgets_what_is_old_and_does_not_believe_the_future) {
  cache().keep_from(now() - FigureCache::kMostAge - 1h, "old", std::array{1.0});
  cache().keep_from(now() - FigureCache::kMostAge + 1h, "young", std::array{2.0});
  EXPECT_THAT(cache().find("young", 24h), IsEmpty()) << "too old for who asks";
  cache().keep_from(now() + 1h, "next", std::array{3.0});
  EXPECT_THAT(cache().find("old"), IsEmpty());
  EXPECT_THAT(cache().find("young"), ElementsAre(2.0));
  EXPECT_THAT(cache().find("next"), IsEmpty());
}

TEST_F(FigureCacheTest, measures_anew_where_it_is_asked_to) {
  cache().keep_from(now(), "host", std::array{1.0});
  const FigureCache refreshing(path(), true);
  EXPECT_THAT(refreshing.find("host"), IsEmpty());
  refreshing.keep_from(now(), "host", std::array{2.0});
  EXPECT_THAT(cache().find("host"), ElementsAre(2.0));
}

TEST_F(FigureCacheTest, takes_nothing_that_it_would_not_write) {
  std::string many = "host";
  for (std::size_t i = 0; i <= FigureCache::kMostFigures; ++i) many += " 1";
  for (const std::string& rest :
       {std::string("host"), std::string("host nan"), std::string("host inf"), std::string("host -1"),
        std::string("host 1e10"), std::string("host 1 x"), std::string("host 1,5"), many}) {
    write(line(rest));
    EXPECT_THAT(cache().find("host"), IsEmpty()) << rest.substr(0, 20);
  }
  write(line("host 1 2"));
  EXPECT_THAT(cache().find("host"), ElementsAre(1, 2));
  for (const std::string& text : {std::string("cohort figures 2\n1 host 1\n"), std::string(),
                                  "cohort figures 1\n" + std::string(3 << 20, 'x')}) {
    write(text);
    EXPECT_THAT(cache().find("host"), IsEmpty());
    cache().keep_from(now(), "host", std::array{4.0});
    EXPECT_THAT(cache().find("host"), ElementsAre(4.0)) << "a damaged file is replaced";
  }
  cache().keep_from(now(), "host", std::array{std::numeric_limits<double>::quiet_NaN()});
  cache().keep_from(now(), "two words", std::array{1.0});
  cache().keep_from(now(), "", std::array{1.0});
  EXPECT_THAT(cache().find("host"), ElementsAre(4.0));
}

TEST_F(FigureCacheTest, does_not_take_the_farthest_past_for_the_present) {
  write(fmt::format("cohort figures 1\n{} host 1\n", std::numeric_limits<std::int64_t>::min()));
  EXPECT_THAT(cache().find("host"), IsEmpty());
}

TEST_F(FigureCacheTest, keeps_the_latest_of_many) {
  for (std::size_t i = 0; i < FigureCache::kMostKeys + 10; ++i)
    cache().keep_from(now() - 1h + std::chrono::seconds(i), fmt::format("host{}", i), std::array{1.0});
  EXPECT_THAT(cache().find("host9"), IsEmpty());
  EXPECT_THAT(cache().find("host10"), ElementsAre(1.0));
  EXPECT_THAT(cache().find(fmt::format("host{}", FigureCache::kMostKeys + 9)), ElementsAre(1.0));
}

TEST_F(FigureCacheTest, is_nothing_where_it_cannot_be_read_or_written) {
  std::ofstream(folder_ / "file") << "";
  std::filesystem::create_symlink("/dev/null", folder_ / "nothing");
  for (const std::string& where : {(folder_ / "file/figures").string(), folder_.string(),
                                   std::string("/proc/figures"), (folder_ / "nothing").string()}) {
    const FigureCache unusable(where);
    unusable.keep_from(now(), "host", std::array{1.0});
    EXPECT_THAT(unusable.find("host"), IsEmpty()) << where;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "nothing")) << "it was replaced";
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  FigureCache((folder_ / "pipe").string()).keep_from(now(), "host", std::array{1.0});
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ / "pipe")) << "it was replaced";
  EXPECT_THAT(FigureCache((folder_ / "pipe").string()).find("host"), IsEmpty());
  cache().keep_from(now(), "host", std::array{1.0});
  std::filesystem::create_symlink(path(), folder_ / "link");
  EXPECT_THAT(FigureCache((folder_ / "link").string()).find("host"), IsEmpty());
  const FigureCache off;
  EXPECT_FALSE(off.is_on());
  off.keep_from(now(), "host", std::array{1.0});
  EXPECT_THAT(off.find("host"), IsEmpty());
}

/// A path may be mistyped.
TEST_F(FigureCacheTest, leaves_other_peoples_files_as_they_are) {
  for (const std::string& text : {std::string("the only copy of a thesis\n"), std::string("cohort\n"),
                                  std::string(3 << 20, 'x'), std::string(100, '\0')}) {
    write(text);
    cache().keep_from(now(), "host", std::array{1.0});
    std::ostringstream now_there;
    now_there << std::ifstream(path()).rdbuf();
    EXPECT_EQ(now_there.str(), text);
    EXPECT_THAT(cache().find("host"), IsEmpty());
  }
}

/// Readers never see half of a file, and nothing is left beside it.
TEST_F(FigureCacheTest, is_whole_at_any_moment_for_many_processes) {
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 50; ++i) {
        cache().keep_from(now(), "shared", std::array{1.0, 2.0, 3.0});
        cache().keep_from(now(), fmt::format("own{}", writer), std::array{1.0 * writer});
        EXPECT_THAT(cache().find("shared"), testing::AnyOf(IsEmpty(), ElementsAre(1, 2, 3)));
      }
    });
  for (std::thread& writer : writers) writer.join();
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_ / "deep")) ++files;
  EXPECT_EQ(files, 1U);
}

TEST_F(FigureCacheTest, is_where_the_environment_says) {
  const auto with = [](const char* cache, const char* caches, const char* home) {
    const auto set = [](const char* name, const char* value) {
      return value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
    };
    EXPECT_EQ(set("COHORT_CACHE", cache) + set("XDG_CACHE_HOME", caches) + set("HOME", home), 0);
    return FigureCache::from_environment();
  };
  EXPECT_FALSE(with("off", nullptr, folder_.c_str()).is_on());
  EXPECT_FALSE(with(nullptr, nullptr, folder_.c_str()).is_on());
  EXPECT_FALSE(with("on", nullptr, nullptr).is_on());
  with("on", nullptr, folder_.c_str()).keep_from(now(), "host", std::array{1.0});
  EXPECT_THAT(FigureCache((folder_ / ".cache/cohort/figures").string()).find("host"), ElementsAre(1.0));
  const std::string caches = (folder_ / "caches").string();
  with("on", caches.c_str(), folder_.c_str()).keep_from(now(), "host", std::array{2.0});
  EXPECT_THAT(FigureCache(caches + "/cohort/figures").find("host"), ElementsAre(2.0));
  with(path().c_str(), caches.c_str(), folder_.c_str()).keep_from(now(), "host", std::array{3.0});
  EXPECT_THAT(cache().find("host"), ElementsAre(3.0));
  ASSERT_EQ(::setenv("COHORT_CACHE_REFRESH", "1", 1), 0);
  EXPECT_THAT(with(path().c_str(), nullptr, nullptr).find("host"), IsEmpty());
  ASSERT_EQ(::setenv("COHORT_CACHE_REFRESH", "perhaps", 1), 0);
  EXPECT_THROW((void)FigureCache::from_environment(), Error);
  ASSERT_EQ(::unsetenv("COHORT_CACHE_REFRESH"), 0);
}

}  // namespace
}  // namespace cohort::figure_cache_test
