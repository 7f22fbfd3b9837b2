// SPDX-License-Identifier: Apache-2.0
// Loans: large memory that the other end's device reads where it lies.
#include <cohort/net/verbs/verbs_stream.h>

#include <cohort/engine/assert.h>
#include <cohort/net/auth/wire.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cohort::verbs {

using Kind = Immediate::Kind;

void VerbsStream::will_receive_into(std::span<std::byte> memory) {
  COHORT_ASSERT(reused_ == nullptr, "a stream from rank {} receives into two memories", peer_);
  device_.regions().declare(memory);
  reused_ = memory.data();
}

std::span<std::byte> VerbsStream::borrow_block() noexcept {
  const bool has_nothing = received_.is_empty() && borrowed_.terms.bytes == 0;
  if (has_nothing && !is_over() && !has_ended_) (void)reap();
  // What is being read already stays where it goes.
  const bool is_reading = borrowed_.asked != 0 || borrowed_.here != 0;
  const bool is_next = received_.is_empty() && borrowed_.before.empty();
  const bool has_loan = is_next && borrowed_.terms.bytes != 0 && !is_reading;
  if (block_ == nullptr && has_loan) block_ = device_.blocks().take();
  return block_ == nullptr ? std::span<std::byte>() : std::span(block_, Blocks::kBytes);
}

/// Kept while the device writes there, and for the rest of the loan.
void VerbsStream::return_block() noexcept {
  if (block_ == nullptr || borrowed_.terms.bytes != 0) return;
  device_.blocks().give_back(std::exchange(block_, nullptr));
}

bool VerbsStream::lend(std::span<const std::byte> before, std::span<const std::byte> memory) noexcept {
  if (is_over() || has_ended_ || !has_request()) return false;
  const auto lent = memory.first(std::min<std::size_t>(memory.size(), LoanTerms::kMostBytes));
  Regions::Region region = device_.regions().of(lent, Regions::Use::lend);
  if (!region) return false;
  wire::Writer writer(std::span(send_ring() + kRingBytes, LoanTerms::kBytes + before.size()));
  writer.put(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(lent.data())));
  writer.put(region->rkey);
  writer.put(static_cast<std::uint32_t>(lent.size()));
  writer.put(before);
  traffic_.copied += before.size();
  lent_ = {Lent::At::open, lent, std::move(region)};
  return post(Request::loan, Immediate::loan(before.size()), kRingBytes);
}

int VerbsStream::ask_for_loan(std::span<const std::byte> memory) noexcept {
  COHORT_ASSERT(memory.data() == lent_.memory.data() && memory.size() >= lent_.memory.size(),
                "other memory is sent to rank {} than was lent", peer_);
  if (lent_.at == Lent::At::open && !is_over() && !has_ended_) (void)reap();
  if (!failure_.empty()) return -EIO;
  if (lent_.at == Lent::At::open) return has_ended_ ? -EPIPE : -EAGAIN;
  const Lent lent = std::exchange(lent_, {});
  if (lent.at == Lent::At::taken) {
    traffic_.lent += lent.memory.size();
    return static_cast<int>(lent.memory.size());
  }
  may_lend_ = false;
  return try_send_copies({}, memory);
}

bool VerbsStream::take_answer(Kind answer) noexcept {
  if (lent_.at != Lent::At::open) return false;
  lent_.at = answer == Kind::taken ? Lent::At::taken : Lent::At::refused;
  return true;
}

bool VerbsStream::take_terms(std::uint32_t bytes) noexcept {
  const bool has_one = borrowed_.terms.bytes != 0 || borrowed_.answer.has_value();
  const std::byte* const before = receive_ring() + kRingBytes + LoanTerms::kBytes;
  wire::Reader reader(std::span<const std::byte>(receive_ring() + kRingBytes, LoanTerms::kBytes));
  borrowed_.terms.address = reader.get<std::uint64_t>();
  borrowed_.terms.key = reader.get<std::uint32_t>();
  borrowed_.terms.bytes = reader.get<std::uint32_t>();
  borrowed_.before = {before, bytes - LoanTerms::kBytes};
  borrowed_.has_begun = false;
  return !has_one && borrowed_.terms.bytes != 0 && borrowed_.terms.bytes <= LoanTerms::kMostBytes;
}

/// The peer writes there again only once the loan was answered.
std::size_t VerbsStream::take_before_loan(std::span<std::byte> into) noexcept {
  const std::size_t bytes = std::min(into.size(), borrowed_.before.size());
  std::copy_n(borrowed_.before.begin(), bytes, into.begin());
  borrowed_.before = borrowed_.before.subspan(bytes);
  traffic_.copied += bytes;
  return bytes;
}

int VerbsStream::read_loan(std::span<std::byte> into) noexcept {
  if (borrowed_.asked == 0 && borrowed_.here == 0) {
    if (begin_to_read(into)) (void)reap();
    if (!failure_.empty()) return -EIO;
  }
  if (borrowed_.here == 0) return -EAGAIN;
  COHORT_ASSERT(into.data() == borrowed_.into && into.size() >= borrowed_.here,
                "other memory is received into from rank {} than is being written", peer_);
  const std::uint32_t bytes = std::exchange(borrowed_.here, 0);
  borrowed_.has_begun = true;
  borrowed_.terms.address += bytes;
  borrowed_.terms.bytes -= bytes;
  traffic_.read += bytes;
  if (borrowed_.terms.bytes == 0) answer_loan(Kind::taken);
  return static_cast<int>(bytes);
}

/// False: nothing is being read; the loan may have been refused.
bool VerbsStream::begin_to_read(std::span<std::byte> into) noexcept {
  if (into.empty() || !has_request()) return false;
  const auto memory = into.first(std::min<std::size_t>(into.size(), borrowed_.terms.bytes));
  // Kept from piece to piece: at the limit on locked memory it might not be had again.
  if (!borrowed_.covers(memory)) {
    borrowed_.region.reset();
    borrowed_.region = device_.regions().of(memory, Regions::Use::fill);
  }
  if (!borrowed_.region) {
    if (borrowed_.has_begun)
      fail(
          fmt::format("{}: what rank {} has lent can be read no further: no more memory may be registered; "
                      "raise the limit on locked memory (ulimit -l unlimited)",
                      device_.port().device, peer_));
    else
      answer_loan(Kind::refused);
    return false;
  }
  ibv_sge piece{};
  piece.addr = reinterpret_cast<std::uintptr_t>(memory.data());
  piece.length = static_cast<std::uint32_t>(memory.size());
  piece.lkey = borrowed_.region->lkey;
  ibv_send_wr request{};
  request.wr_id = static_cast<std::uint64_t>(Request::read) << kRequestAt | memory.size();
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = borrowed_.terms.address;
  request.wr.rdma.rkey = borrowed_.terms.key;
  borrowed_.asked = piece.length;
  borrowed_.into = memory.data();
  return post(Request::read, request, 0);
}

void VerbsStream::finish_reading() noexcept { borrowed_.here = std::exchange(borrowed_.asked, 0); }

void VerbsStream::answer_loan(Kind answer) noexcept {
  borrowed_.terms = {};
  borrowed_.region.reset();
  borrowed_.answer = answer;
  if (has_request() && !has_ended_) tell_answer();
}

void VerbsStream::tell_answer() noexcept {
  const Immediate answer{*std::exchange(borrowed_.answer, std::nullopt), 0, 0};
  (void)post(Request::answer, answer, 0);
}

void VerbsStream::end_loans() noexcept {
  if (lent_.at == Lent::At::open) device_.regions().withdraw(lent_.memory);
  lent_ = {};
  borrowed_ = {};
}

}  // namespace cohort::verbs
