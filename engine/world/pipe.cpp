// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/world/pipe.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cohort::world {

Pipe::~Pipe() {
  for (const Chunk& chunk : chunks_)
    for (const int descriptor : chunk.descriptors) ::close(descriptor);
}

void Pipe::push(std::span<const std::byte> bytes, TimePoint arrives, std::vector<int> descriptors) {
  last_arrival_ = std::max(last_arrival_, arrives);
  held_bytes_ += bytes.size();
  chunks_.push_back({{bytes.begin(), bytes.end()}, last_arrival_, std::move(descriptors)});
}

std::size_t Pipe::held_descriptors() const noexcept {
  std::size_t held = 0;
  for (const Chunk& chunk : chunks_) held += chunk.descriptors.size();
  return held;
}

std::size_t Pipe::coming_bytes(TimePoint now) const noexcept {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.arrives > now ? chunk.bytes.size() : 0;
  return bytes;
}

TimePoint Pipe::readable_at() const noexcept {
  const TimePoint end = std::min(ends_at_, reset_at_);
  return chunks_.empty() ? end : std::min(chunks_.front().arrives, end);
}

std::size_t Pipe::readable_bytes(TimePoint now) const noexcept {
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks_) {
    if (!is_there(chunk, now)) break;
    bytes += chunk.bytes.size() - chunk.taken;
  }
  return bytes;
}

int Pipe::read(std::span<std::byte> into, TimePoint now, std::vector<int>& descriptors) {
  std::size_t done = 0;
  while (done < into.size() && !chunks_.empty() && is_there(chunks_.front(), now)) {
    Chunk& chunk = chunks_.front();
    if (done != 0 && !chunk.descriptors.empty()) break;
    for (const int descriptor : std::exchange(chunk.descriptors, {})) descriptors.push_back(descriptor);
    const std::size_t bytes = std::min(into.size() - done, chunk.bytes.size() - chunk.taken);
    std::memcpy(into.data() + done, chunk.bytes.data() + chunk.taken, bytes);
    done += bytes;
    chunk.taken += bytes;
    if (chunk.taken == chunk.bytes.size()) chunks_.pop_front();
  }
  held_bytes_ -= done;
  if (done != 0 || into.empty()) return static_cast<int>(done);
  if (reset_at_ <= now) return std::exchange(has_told_reset_, true) ? 0 : -ECONNRESET;
  return ends_at_ <= now && chunks_.empty() ? 0 : -EAGAIN;
}

}  // namespace cohort::world
