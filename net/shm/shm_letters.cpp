// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/shm/shm_letters.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/system/copy_bytes.h>

#include <fmt/format.h>

#include <cstring>

namespace cohort::shm {
namespace {

/// Letters between two words of the receiver's on how far it has read: a part of the ring.
constexpr std::uint32_t kReadInARow = host::kLetters / 4;

}  // namespace

void ShmLetters::fail(std::string text) noexcept {
  if (std::exchange(is_broken_, true)) return;
  host_.link_failed(peer_, blamed_on(Error(ErrorKind::ProtocolError, std::move(text)), group_.rank(), peer_));
}

bool ShmLetters::has_room() noexcept {
  if (is_broken_) return false;
  if (sent_ - read_by_peer_ < host::kLetters) return true;
  read_by_peer_ = group_.segment(peer_).letters_read(group_.rank()).load(std::memory_order_seq_cst);
  if (sent_ - read_by_peer_ > host::kLetters)
    fail(fmt::format("rank {} has read {} letters, and was sent {}", peer_, read_by_peer_, sent_));
  return sent_ - read_by_peer_ < host::kLetters;
}

bool ShmLetters::try_send(const Letter& letter, const std::byte* payload) noexcept {
  if (!has_room()) return false;
  host::LetterCell& cell = out_[sent_ % host::kLetters];
  cell.kind = static_cast<std::uint8_t>(letter.kind);
  cell.where = static_cast<std::uint8_t>(letter.where);
  cell.tag = letter.tag;
  cell.id = letter.id;
  cell.bytes = letter.bytes;
  cell.place = letter.place;
  const std::size_t bytes = letter.payload_bytes();
  COHORT_ASSERT(bytes <= most_payload(), "a letter of {} bytes", bytes);
  if (bytes <= sizeof cell.beside)
    copy_few_bytes(cell.beside, payload, bytes);
  else
    copy_bytes(group_.own().letter_payload(peer_, sent_), payload, bytes);
  cell.stamp.store(++sent_, std::memory_order_seq_cst);
  group_.notify(peer_);
  return true;
}

bool ShmLetters::peek(Letter& letter) noexcept {
  const host::LetterCell& cell = next_in();
  if (is_broken_ || cell.stamp.load(std::memory_order_seq_cst) != taken_ + 1) return false;
  const std::uint8_t kind = cell.kind;
  const std::uint8_t where = cell.where;
  letter.kind = static_cast<Letter::Kind>(kind);
  letter.where = static_cast<Letter::Where>(where);
  letter.tag = cell.tag;
  letter.id = cell.id;
  letter.bytes = cell.bytes;
  letter.place = cell.place;
  next_bytes_ = letter.payload_bytes();
  const bool is_sound = kind >= static_cast<std::uint8_t>(Letter::Kind::message) &&
                        kind <= static_cast<std::uint8_t>(Letter::Kind::credit) &&
                        where <= static_cast<std::uint8_t>(Letter::Where::process) &&
                        next_bytes_ <= most_payload();
  if (!is_sound)
    fail(fmt::format("rank {} sends a letter of kind {} with {} bytes, which is none", peer_, kind,
                     next_bytes_));
  return is_sound;
}

bool ShmLetters::take(std::byte* into) noexcept {
  const host::LetterCell& cell = next_in();
  if (next_bytes_ <= sizeof cell.beside)
    copy_few_bytes(into, cell.beside, next_bytes_);
  else
    copy_bytes(into, group_.segment(peer_).letter_payload(group_.rank(), taken_), next_bytes_);
  if (++taken_ % kReadInARow == 0) {
    group_.own().letters_read(peer_).store(taken_, std::memory_order_seq_cst);
    group_.notify(peer_);
  }
  return true;
}

bool ShmLetters::spin() noexcept {
  if (is_broken_) return false;
  return group_.spin_for(next_in().stamp, taken_ + 1);
}

void ShmLetters::locate(Letter& offer, const std::byte* data) const noexcept {
  SharedMemory& own = group_.own().memory();
  if (group_.is_in_process(peer_)) {
    offer.where = Letter::Where::address;
    offer.place = reinterpret_cast<std::uintptr_t>(data);
  } else if (own.contains(data, offer.bytes)) {
    offer.where = Letter::Where::segment;
    offer.place = static_cast<std::uint64_t>(data - own.data());
  } else {
    offer.where = Letter::Where::process;
    offer.place = reinterpret_cast<std::uintptr_t>(data);
  }
}

const std::byte* ShmLetters::mapped(const Letter& offer) const noexcept {
  if (offer.where == Letter::Where::address && group_.is_in_process(peer_))
    return reinterpret_cast<const std::byte*>(offer.place);
  const SharedMemory& theirs = group_.segment(peer_).memory();
  const bool fits = offer.place <= theirs.size_bytes() && offer.bytes <= theirs.size_bytes() - offer.place;
  return offer.where == Letter::Where::segment && fits ? theirs.data() + offer.place : nullptr;
}

}  // namespace cohort::shm
