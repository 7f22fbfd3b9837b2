// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/identity.h>

#include <cohort/net/auth/crypto.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>

namespace cohort {

JobId job_id(std::string_view communicator_name, std::string_view start) {
  std::string both(communicator_name);
  if (!start.empty()) both.append(1, '\0').append(start);
  const crypto::Digest digest = crypto::sha256(std::as_bytes(std::span(both)));
  JobId job;
  std::copy_n(digest.begin(), job.bytes.size(), job.bytes.begin());
  return job;
}

std::string to_string(const JobId& job) {
  std::string text;
  for (const std::byte byte : job.bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

std::string_view to_string(Purpose purpose) noexcept {
  switch (purpose) {
    case Purpose::join: return "join";
    case Purpose::control: return "control";
    case Purpose::data: return "data";
  }
  return "unknown";
}

std::uint64_t random_incarnation() {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  crypto::fill_random(bytes);
  return std::bit_cast<std::uint64_t>(bytes);
}

}  // namespace cohort
