// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/end_point.h>

#include <cohort/engine/error.h>
#include <cohort/net/auth/wire.h>
#include <cohort/net/verbs/ring.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x35627663;  // "cvb5"

/// But for its MTU, which is no ibv_mtu before it was looked at.
bool is_sound(const EndPoint& end) noexcept {
  const auto is_numbered = [](const EndPoint::Pair& pair) {
    return pair.number <= EndPoint::kMostNumber && pair.packet <= EndPoint::kMostNumber;
  };
  return end.pair_count >= 1 && end.pair_count <= kMostPairs && std::ranges::all_of(end.pairs, is_numbered) &&
         end.reads >= 1 && end.reads <= kMostLoans;
}

}  // namespace

std::array<std::byte, EndPoint::kBytes> encode(const EndPoint& end) noexcept {
  std::array<std::byte, EndPoint::kBytes> bytes{};
  wire::Writer writer(bytes);
  writer.put(kMagic);
  writer.put(static_cast<std::uint32_t>(kRingBytes));
  writer.put(end.ring);
  writer.put(end.key);
  writer.put(end.lid);
  writer.put(static_cast<std::uint16_t>(end.mtu));
  writer.put(std::as_bytes(std::span(end.gid.raw)));
  writer.put(end.reads);
  writer.put(end.pair_count);
  for (const EndPoint::Pair& pair : end.pairs) {
    writer.put(pair.number);
    writer.put(pair.packet);
  }
  return bytes;
}

EndPoint decode(std::span<const std::byte, EndPoint::kBytes> bytes) {
  wire::Reader reader(bytes);
  const auto magic = reader.get<std::uint32_t>();
  const auto ring_bytes = reader.get<std::uint32_t>();
  EndPoint end;
  end.ring = reader.get<std::uint64_t>();
  end.key = reader.get<std::uint32_t>();
  end.lid = reader.get<std::uint16_t>();
  const auto mtu = reader.get<std::uint16_t>();
  reader.get(std::as_writable_bytes(std::span(end.gid.raw)));
  end.reads = reader.get<std::uint16_t>();
  end.pair_count = reader.get<std::uint16_t>();
  for (EndPoint::Pair& pair : end.pairs) {
    pair.number = reader.get<std::uint32_t>();
    pair.packet = reader.get<std::uint32_t>();
  }
  const bool is_mtu = mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;
  if (magic != kMagic || ring_bytes != kRingBytes || !is_mtu || !is_sound(end))
    throw Error(
        ErrorKind::ProtocolError,
        fmt::format("the other end of an RDMA connection says what makes no sense (magic {:#x}, ring of {} "
                    "bytes, {} queue pairs, the first {}, packet {}, MTU {}, {} reads): run the same build "
                    "of cohort on all ranks",
                    magic, ring_bytes, end.pair_count, end.pairs[0].number, end.pairs[0].packet, mtu,
                    end.reads));
  end.mtu = static_cast<ibv_mtu>(mtu);
  return end;
}

}  // namespace cohort::verbs
