// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/payload.h>

#include <cohort/engine/system/copy_bytes.h>

#include <algorithm>

namespace cohort::framed {

void Payload::take(ReceiveBuffer& staging) noexcept {
  if (reducer_ != nullptr) {
    fold(staging);
    return;
  }
  const std::size_t bytes = std::min(left_, staging.size());
  if (bytes == 0) return;
  copy_bytes(to_, staging.data(), bytes);
  staging.drop(bytes);
  moved(bytes);
}

/// Whole elements; the rest of one waits for what comes next.
void Payload::fold(ReceiveBuffer& staging) noexcept {
  const std::size_t available = std::min(left_, staging.size());
  const std::size_t bytes = available - available % reducer_->element_bytes;
  if (bytes == 0) return;
  staging.align();  // behind a frame of odd size
  reducer_->fold(*reducer_, to_, staging.data(), bytes);
  staging.drop(bytes);
  moved(bytes);
}

int Payload::receive_block(ByteStream& stream, std::span<std::byte> block) noexcept {
  const std::size_t whole = block.size() - block.size() % reducer_->element_bytes;
  return stream.try_receive_some(block.first(std::min(left_, whole)));
}

/// A part of an element at its end waits in the staging block for the rest.
void Payload::fold_block(std::span<const std::byte> bytes, ReceiveBuffer& staging) noexcept {
  const std::size_t part = bytes.size() % reducer_->element_bytes;
  const auto elements = bytes.first(bytes.size() - part);
  if (!elements.empty()) reducer_->fold(*reducer_, to_, elements.data(), elements.size());
  moved(elements.size());
  if (part == 0) return;
  copy_bytes(staging.room(part).data(), bytes.data() + elements.size(), part);
  staging.append(part);
}

int Payload::receive(ByteStream& stream, ReceiveBuffer& staging) noexcept {
  const bool is_staged = reducer_ != nullptr;
  if (const std::span<std::byte> block =
          is_staged && staging.size() == 0 ? stream.borrow_block() : std::span<std::byte>();
      !block.empty()) {
    const int result = receive_block(stream, block);
    if (result > 0) fold_block(block.first(static_cast<std::size_t>(result)), staging);
    stream.return_block();
    return result;
  }
  const std::span<std::byte> into = is_staged ? staging.room(left_ - staging.size())
                                              : std::span(to_, std::min(left_, stream.piece_bytes()));
  const int result = stream.try_receive_some(into);
  if (result <= 0) return result;
  const auto bytes = static_cast<std::size_t>(result);
  if (is_staged) {
    staging.append(bytes);
    fold(staging);
  } else {
    moved(bytes);
  }
  return result;
}

}  // namespace cohort::framed
