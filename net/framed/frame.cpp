// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/frame.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>

namespace cohort::framed {
namespace {

constexpr std::uint32_t kMagic = 0x50435443;  // "CTCP"
constexpr std::uint8_t kVersion = 1;

constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 5;
constexpr std::size_t kSignalAt = 6;
constexpr std::size_t kWindowAt = 7;
constexpr std::size_t kLaneAt = 8;
constexpr std::size_t kZeroAt = 10;
constexpr std::size_t kSourceAt = 12;
constexpr std::size_t kSequenceAt = 16;
constexpr std::size_t kWhatAt = 24;
constexpr std::size_t kCountAt = 32;
constexpr std::size_t kOffsetAt = 40;
constexpr std::size_t kBytesAt = 48;
constexpr std::size_t kMoreZeroAt = 56;
static_assert(kMoreZeroAt + sizeof(std::uint64_t) == kFrameBytes);

template <std::unsigned_integral T>
void put(FrameBytes& frame, std::size_t at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) frame[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <std::unsigned_integral T>
T get(std::span<const std::byte, kFrameBytes> frame, std::size_t at) noexcept {
  std::array<std::byte, sizeof(T)> bytes{};
  std::copy_n(frame.begin() + static_cast<std::ptrdiff_t>(at), sizeof(T), bytes.begin());
  if constexpr (std::endian::native == std::endian::big) std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

void expect(bool holds, std::string_view field, std::uint64_t came, std::string_view expected) {
  if (holds) return;
  throw Error(
      ErrorKind::ProtocolError,
      fmt::format("a frame header has {} {:#x} where {} is expected: the other end is not a cohort of this "
                  "version, or the stream is damaged",
                  field, came, expected));
}

}  // namespace

std::string_view to_string(FrameType type) noexcept {
  switch (type) {
    case FrameType::signal: return "signal";
    case FrameType::put: return "put";
    case FrameType::get: return "get";
    case FrameType::get_reply: return "get_reply";
    case FrameType::data: return "data";
  }
  return "unknown";
}

FrameBytes encode(const FrameHeader& header) noexcept {
  FrameBytes frame{};
  put(frame, kMagicAt, kMagic);
  put(frame, kVersionAt, kVersion);
  put(frame, kTypeAt, static_cast<std::uint8_t>(header.type));
  put(frame, kSignalAt, static_cast<std::uint8_t>(header.signal));
  put(frame, kWindowAt, static_cast<std::uint8_t>(header.window));
  put(frame, kLaneAt, header.lane);
  put(frame, kSourceAt, header.source);
  put(frame, kSequenceAt, header.sequence);
  put(frame, kWhatAt, header.signature.what);
  put(frame, kCountAt, header.signature.count);
  put(frame, kOffsetAt, header.offset);
  put(frame, kBytesAt, header.bytes);
  return frame;
}

FrameHeader decode(std::span<const std::byte, kFrameBytes> bytes) {
  const auto magic = get<std::uint32_t>(bytes, kMagicAt);
  const auto version = get<std::uint8_t>(bytes, kVersionAt);
  const auto type = get<std::uint8_t>(bytes, kTypeAt);
  const auto signal = get<std::uint8_t>(bytes, kSignalAt);
  const auto window = get<std::uint8_t>(bytes, kWindowAt);
  const auto zero = get<std::uint16_t>(bytes, kZeroAt);
  const auto more_zero = get<std::uint64_t>(bytes, kMoreZeroAt);
  expect(magic == kMagic, "magic", magic, "0x50435443");
  expect(version == kVersion, "version", version, "1");
  expect(type >= 1 && type <= static_cast<std::uint8_t>(FrameType::data), "type", type, "1 to 5");
  expect(signal < kSignals, "signal", signal, "0 to 2");
  expect(window < kNamedWindows, "window", window, "0 to 4");
  expect(zero == 0, "reserved bytes", zero, "zero");
  expect(more_zero == 0, "reserved bytes", more_zero, "zero");
  FrameHeader header;
  header.type = static_cast<FrameType>(type);
  header.signal = static_cast<Signal>(signal);
  header.window = static_cast<WindowId>(window);
  header.lane = get<std::uint16_t>(bytes, kLaneAt);
  header.source = get<std::uint32_t>(bytes, kSourceAt);
  header.sequence = get<std::uint64_t>(bytes, kSequenceAt);
  header.signature.what = get<std::uint64_t>(bytes, kWhatAt);
  header.signature.count = get<std::uint64_t>(bytes, kCountAt);
  header.offset = get<std::uint64_t>(bytes, kOffsetAt);
  header.bytes = get<std::uint64_t>(bytes, kBytesAt);
  expect(header.type != FrameType::signal || header.bytes == 0, "bytes of a signal", header.bytes, "zero");
  return header;
}

}  // namespace cohort::framed
