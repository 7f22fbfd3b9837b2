// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/memory/kept_buffer.h>

#include <cohort/engine/error.h>

#include <bit>

namespace cohort {

std::byte* KeptBuffer::room_for(std::size_t bytes) {
  if (bytes <= mapped_.size()) return reinterpret_cast<std::byte*>(mapped_.data());
  if (bytes <= private_.size()) return private_.data();
  const std::size_t room = std::bit_ceil(bytes);
  try {
    mapped_ = {};
    mapped_ = SharedBuffer<std::uint8_t>(heap_, room);
    return reinterpret_cast<std::byte*>(mapped_.data());
  } catch (const Error&) {  // it is full of the user's buffers
    private_.resize(room);
    return private_.data();
  }
}

}  // namespace cohort
