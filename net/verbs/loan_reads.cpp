// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/loan_reads.h>

#include <algorithm>
#include <utility>

namespace cohort::verbs {
namespace {

/// The largest MTU (InfiniBand Architecture Specification, volume 1, 9.7.7).
constexpr std::size_t kMostPacketBytes = 4096;

}  // namespace

/// Into whole packets.
LoanReads::Parts LoanReads::parts_of(std::size_t bytes) const noexcept {
  const std::size_t most = std::clamp<std::size_t>(bytes / kLeastPartBytes, 1, pairs_.count());
  if (most == 1) return {bytes, 1};
  const std::size_t part_bytes =
      ((bytes + most - 1) / most + kMostPacketBytes - 1) / kMostPacketBytes * kMostPacketBytes;
  return {part_bytes, static_cast<std::uint32_t>((bytes + part_bytes - 1) / part_bytes)};
}

bool LoanReads::has_room(std::size_t bytes) const noexcept {
  if (started_ - over_ == kMostLoans) return false;
  const Parts parts = parts_of(bytes);
  for (std::uint32_t i = 0; i < parts.count; ++i) {
    const std::uint32_t pair = (next_pair_ + i) % pairs_.count();
    if (under_way_[pair] == pairs_.most_reads() || (pair == 0 && !sends_.has_room())) return false;
  }
  return true;
}

int LoanReads::start(const LoanTerms& from, std::span<std::byte> into, std::uint32_t key,
                     Regions::Region region) noexcept {
  const Parts parts = parts_of(into.size());
  const auto number = static_cast<std::uint8_t>(started_++ % kMostLoans);
  reads_[number] = {static_cast<std::uint32_t>(into.size()), parts.count, std::move(region)};
  LoanTerms rest = from;
  for (std::uint32_t i = 0; i < parts.count; ++i) {
    const auto part = into.first(std::min(into.size(), parts.bytes));
    if (const int error = post(next_pair_, number, rest, part, key); error != 0) return error;
    next_pair_ = (next_pair_ + 1) % pairs_.count();
    rest.address += part.size();
    into = into.subspan(part.size());
  }
  return 0;
}

int LoanReads::post(std::uint32_t pair, std::uint8_t read, const LoanTerms& from, std::span<std::byte> into,
                    std::uint32_t key) noexcept {
  ibv_sge piece{};
  piece.addr = reinterpret_cast<std::uintptr_t>(into.data());
  piece.length = static_cast<std::uint32_t>(into.size());
  piece.lkey = key;
  ibv_send_wr request{};
  request.wr_id = Request{Request::Kind::read, static_cast<std::uint8_t>(pair), read, into.size()}.number();
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = from.address;
  request.wr.rdma.rkey = from.key;
  ++under_way_[pair];
  return pair == 0 ? sends_.post(request, 0) : pairs_[pair].post_send(request);
}

LoanReads::Over LoanReads::finish(const Request& part) noexcept {
  --under_way_[part.pair];
  if (part.pair == 0) sends_.complete();
  --reads_[part.read].parts;
  Over over;
  for (; !is_idle() && reads_[over_ % kMostLoans].parts == 0; ++over_) {
    const Read read = std::exchange(reads_[over_ % kMostLoans], {});
    ++over.reads;
    over.bytes += read.bytes;
  }
  return over;
}

void LoanReads::give_up() noexcept {
  for (; !is_idle(); ++over_) reads_[over_ % kMostLoans] = {};
  under_way_ = {};
}

}  // namespace cohort::verbs
