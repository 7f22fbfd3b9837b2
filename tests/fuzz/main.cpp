// SPDX-License-Identifier: Apache-2.0
// In place of libFuzzer, for compilers that have none: the files that are named, or else the same random
// inputs in every run. They find gross mistakes only; preset `fuzz` is for the rest.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr unsigned kInputs = 20'000;
constexpr std::size_t kMostBytes = 512;

/// Noise, or zeros but for the first byte and a few others: what begins with noise is mostly refused at once,
/// so that nothing behind it is tried.
std::vector<std::uint8_t> random_input(std::mt19937& random) {
  std::vector<std::uint8_t> bytes(1 + random() % kMostBytes);
  const bool is_noise = random() % 4 == 0;
  const std::size_t changes = is_noise ? bytes.size() : random() % 4;
  bytes[0] = static_cast<std::uint8_t>(random());
  for (std::size_t i = 0; i < changes; ++i)
    bytes[is_noise ? i : random() % bytes.size()] = static_cast<std::uint8_t>(random());
  return bytes;
}

void try_random_inputs() {
  std::mt19937 random(1);
  for (unsigned i = 0; i < kInputs; ++i) {
    const std::vector<std::uint8_t> input = random_input(random);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  fmt::print("{} random inputs\n", kInputs);
}

bool try_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fmt::print(stderr, "{} cannot be read\n", path);
    return false;
  }
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) try_random_inputs();
  for (int i = 1; i < argc; ++i)
    if (!try_file(argv[i])) return 1;
  return 0;
}
