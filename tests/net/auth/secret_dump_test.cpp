// SPDX-License-Identifier: Apache-2.0
// What a core dump of a rank would tell.
#include <cohort/engine/system/sanitizers.h>
#include <cohort/net/join/join.h>
#include <cohort/tests/support/joining.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cohort::secret_dump_test {
namespace {

/// Memory of this process that a core dump holds.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string line;  ///< of /proc/self/smaps
};

std::vector<Range> dumped_memory() {
  std::vector<Range> ranges;
  std::ifstream smaps("/proc/self/smaps");
  Range current;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::array<char, 5> access{};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access.data()) == 3)
      current = {begin, access[0] == 'r' && access[1] == 'w' ? end : begin, line};
    const bool is_last_line = line.starts_with("VmFlags:");
    const bool is_left_out = line.find(" dd") != std::string::npos || line.find(" io") != std::string::npos;
    if (is_last_line && !is_left_out && current.begin != current.end) ranges.push_back(current);
  }
  return ranges;
}

/// A secret that this test holds in no form in which it looks for it.
class Needle {
 public:
  explicit Needle(std::span<const std::byte, Secret::kBytes> secret) {
    for (std::size_t i = 0; i < secret.size(); ++i) masked_[i] = secret[i] ^ kMask;
  }
  [[nodiscard]] bool is_at(const std::byte* bytes) const {
    for (std::size_t i = 0; i < masked_.size(); ++i)
      if ((bytes[i] ^ kMask) != masked_[i]) return false;
    return true;
  }

 private:
  static constexpr std::byte kMask{0xa5};
  std::array<std::byte, Secret::kBytes> masked_{};
};

/// Where it stands in memory that is dumped.
std::string places_of(const Needle& needle) {
  std::string places;
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  constexpr std::size_t kOverlap = Secret::kBytes - 1;
  auto* const chunk = static_cast<std::byte*>(
      ::mmap(nullptr, kChunk + kOverlap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ::madvise(chunk, kChunk + kOverlap, MADV_DONTDUMP);  // what is read here is not to be found here
  for (const Range& range : dumped_memory()) {
    for (std::uintptr_t at = range.begin; at < range.end; at += kChunk) {
      const std::size_t bytes = std::min<std::size_t>(kChunk + kOverlap, range.end - at);
      const ssize_t got = ::pread(memory, chunk, bytes, static_cast<off_t>(at));
      for (ssize_t i = 0; i + static_cast<ssize_t>(Secret::kBytes) <= got; ++i)
        if (needle.is_at(chunk + i)) places += range.line + "\n";
    }
  }
  ::munmap(chunk, kChunk + kOverlap);
  ::close(memory);
  return places;
}

class SecretDump : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sanitizers::kAddress || sanitizers::kThread)
      GTEST_SKIP() << "sanitizers keep what was freed, and more memory than can be read";
    if (std::ifstream smaps("/proc/self/smaps"); !smaps) GTEST_SKIP() << "no /proc";
  }
};

TEST_F(SecretDump, what_is_in_ordinary_memory_is_found) {
  const Secret secret = Secret::random();
  const std::vector<std::byte> copy(secret.bytes().begin(), secret.bytes().end());
  EXPECT_NE(places_of(Needle(secret.bytes())), "");
}

TEST_F(SecretDump, a_rank_that_has_joined_holds_the_secret_in_no_memory_that_is_dumped) {
  for (const bool is_given : {false, true}) {
    std::vector<JoinOptions> world = test::world_of(3, test::fresh_unix_address());
    if (is_given) {
      const Secret given = Secret::random();
      for (JoinOptions& options : world) options.secret = Secret::from_bytes(given.bytes());
    }
    Engine engine;
    const std::vector<test::Joined> joined = test::join_on(engine, std::move(world));
    ASSERT_TRUE(joined[0].membership) << joined[0].error->what();
    EXPECT_EQ(places_of(Needle(joined[0].membership->secret.bytes())), "") << is_given;
  }
}

}  // namespace
}  // namespace cohort::secret_dump_test
