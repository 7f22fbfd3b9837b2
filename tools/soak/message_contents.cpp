// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/message_contents.h>

namespace cohort::soak {

std::vector<std::byte> contents(const MessagePlan& message, Rank from) {
  std::vector<std::byte> bytes(message.bytes);
  const std::size_t seed = from * 31 + message.to * 17 + static_cast<std::size_t>(message.tag) * 5 + 1;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + i / 251 + seed) & 0xff);
  return bytes;
}

}  // namespace cohort::soak
