// SPDX-License-Identifier: Apache-2.0
// Lists of hosts and of counts: any text is refused with an Error or expanded, and what was expanded comes
// back from its short form.
#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/net/join/hostlist.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {
namespace {

/// Mostly of the characters that mean something: noise is refused at once.
std::string text_of(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kLetters = "ab01239[],-(x)";
  std::string text;
  for (std::size_t i = 0; i < size; ++i)
    text += data[i] < 250 ? kLetters[data[i] % kLetters.size()] : static_cast<char>(data[i] - 128);
  return text;
}

void try_hosts(const std::string& text) {
  try {
    const std::vector<std::string> hosts = expand_hostlist(text, "fuzz");
    const std::string brief = compress_hostlist(hosts);
    COHORT_ASSERT(expand_hostlist(brief, "fuzz") == hosts, "'{}' became '{}'", text, brief);
  } catch (const Error& error) {
    COHORT_ASSERT(error.kind() == ErrorKind::InvalidArgument, "'{}': {}", text, error.what());
  }
}

void try_counts(const std::string& text) {
  try {
    (void)expand_counts(text, "fuzz");
  } catch (const Error& error) {
    COHORT_ASSERT(error.kind() == ErrorKind::InvalidArgument, "'{}': {}", text, error.what());
  }
}

}  // namespace
}  // namespace cohort

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const std::size_t bytes : {size, size % 12}) {
    const std::string text = cohort::text_of(data, bytes);
    cohort::try_hosts(text);
    cohort::try_counts(text);
  }
  return 0;
}
