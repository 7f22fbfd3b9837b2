// SPDX-License-Identifier: Apache-2.0
// Loans: large memory that the other end's device reads where it lies.
#include <cohort/net/verbs/verbs_stream.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/net/auth/wire.h>

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
  const bool has_nothing = received_.is_empty() && loans_taken_ == loans_came_;
  if (has_nothing && borrowed_.terms.bytes == 0 && !is_over() && !has_ended_) (void)reap();
  // What is being read already stays where it goes.
  const bool is_reading = borrowed_.asked != 0 || borrowed_.here != 0;
  const bool has_loan = borrowed_.terms.bytes != 0 || is_loan_bare();
  if (block_ == nullptr && has_loan && !is_reading) block_ = device_.blocks().take();
  return block_ == nullptr ? std::span<std::byte>() : std::span(block_, Blocks::kBytes);
}

/// Kept while the device writes there, and for the rest of the loan.
void VerbsStream::return_block() noexcept {
  if (block_ == nullptr || borrowed_.terms.bytes != 0) return;
  device_.blocks().give_back(std::exchange(block_, nullptr));
}

bool VerbsStream::try_lend(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  const bool is_one = second.size() <= LoanTerms::kMostBytes && first.size() <= LoanTerms::kMostBytesBefore;
  return own_loan_ == OwnLoan::none && is_one && is_worth_lending(second) && lend(first, second);
}

bool VerbsStream::lend(std::span<const std::byte> before, std::span<const std::byte> memory) noexcept {
  if (is_over() || has_ended_ || is_full_of_loans() || !sends_.has_room()) return false;
  Regions::Region region = device_.regions().of(memory, Regions::Use::lend);
  if (!region) return false;
  const std::size_t offset = kRingBytes + loans_lent_ % kMostLoans * kTermsBytes;
  wire::Writer writer(std::span(send_ring() + offset, LoanTerms::kBytes + before.size()));
  writer.put(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory.data())));
  writer.put(region->rkey);
  writer.put(static_cast<std::uint32_t>(memory.size()));
  writer.put(before);
  traffic_.copied += before.size();
  lent_[loans_lent_++ % kMostLoans] = {memory, std::move(region)};
  post(Request::Kind::loan, Immediate::loan(before.size()), offset);  // a failure is told by who asks next
  return true;
}

int VerbsStream::ask_for_loan(std::span<const std::byte> memory) noexcept {
  COHORT_ASSERT(memory.data() == own_memory_.data() && memory.size() >= own_memory_.size(),
                "other memory is sent to rank {} than was lent", peer_);
  if (own_loan_ == OwnLoan::open && !is_over() && !has_ended_) (void)reap();
  if (!failure_.empty()) return -EIO;
  if (own_loan_ == OwnLoan::open) return has_ended_ ? -EPIPE : -EAGAIN;
  own_loan_ = OwnLoan::none;
  return static_cast<int>(own_memory_.size());
}

int VerbsStream::returned() noexcept {
  if (returned_ != 0) return std::exchange(returned_, 0);
  if (!failure_.empty()) return -EIO;
  return has_ended_ && loans_lent_ != loans_back_ ? -EPIPE : 0;
}

bool VerbsStream::take_answer(const Immediate& answer) noexcept {
  const std::uint32_t open = loans_lent_ - loans_back_;
  if (answer.messages == 0 || answer.messages > open) return false;
  may_lend_ = may_lend_ && answer.kind == Kind::taken;
  wants_loan_ = false;
  for (std::uint32_t i = 0; i < answer.messages; ++i) {
    const Lent lent = std::exchange(lent_[loans_back_++ % kMostLoans], {});
    traffic_.lent += lent.memory.size();
    if (own_loan_ == OwnLoan::open && loans_back_ == loans_lent_)
      own_loan_ = OwnLoan::taken;
    else
      ++returned_;
  }
  return true;
}

bool VerbsStream::take_terms(std::uint32_t bytes) noexcept {
  if (loans_came_ - loans_told_ == kMostLoans) return false;
  const std::span<const std::byte> told(receive_ring() + kRingBytes + loans_came_ % kMostLoans * kTermsBytes,
                                        bytes);
  wire::Reader reader(told.first(LoanTerms::kBytes));
  Loan& loan = loans_[loans_came_++ % kMostLoans];
  loan.at = received_.arrived();
  loan.terms.address = reader.get<std::uint64_t>();
  loan.terms.key = reader.get<std::uint32_t>();
  loan.terms.bytes = reader.get<std::uint32_t>();
  loan.before = told.subspan(LoanTerms::kBytes);
  return loan.terms.bytes != 0 && loan.terms.bytes <= LoanTerms::kMostBytes;
}

/// The peer writes there again only once the loan was answered.
std::size_t VerbsStream::take_before_loan(std::span<std::byte> into) noexcept {
  if (!is_loan_next()) return 0;
  std::span<const std::byte>& before = loans_[loans_taken_ % kMostLoans].before;
  const std::size_t bytes = std::min(into.size(), before.size());
  std::copy_n(before.begin(), bytes, into.begin());
  before = before.subspan(bytes);
  traffic_.copied += bytes;
  return bytes;
}

bool VerbsStream::try_fetch(std::span<std::byte> into) noexcept {
  const bool is_next = borrowed_.terms.bytes == 0 && is_loan_bare() && next_loan().terms.bytes == into.size();
  if (is_over() || has_ended_ || !is_next || !reads_.has_room(into.size())) return false;
  Regions::Region region = device_.regions().of(into, Regions::Use::fill);
  if (!region) return false;
  const LoanTerms& terms = loans_[loans_taken_++ % kMostLoans].terms;
  const std::uint32_t key = region->lkey;
  check_posted(reads_.start(terms, into, key, std::move(region)));  // a failure is told by fetched()
  return true;
}

int VerbsStream::fetched() noexcept {
  if (fetched_ != 0) return std::exchange(fetched_, 0);
  return failure_.empty() ? 0 : -EIO;
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
  if (!borrowed_.region) copy_bytes(into.data(), bounce(), bytes);
  borrowed_.terms.address += bytes;
  borrowed_.terms.bytes -= bytes;
  if (borrowed_.terms.bytes == 0) {
    borrowed_ = {};
    ++answers_;
    if (sends_.has_room() && !has_ended_) tell_answer();
  }
  return static_cast<int>(bytes);
}

bool VerbsStream::begin_to_read(std::span<std::byte> into) noexcept {
  const LoanTerms& terms = borrowed_.terms.bytes != 0 ? borrowed_.terms : next_loan().terms;
  auto memory = into.first(std::min<std::size_t>(into.size(), terms.bytes));
  if (memory.empty() || is_fetching() || !reads_.has_room(memory.size())) return false;
  if (borrowed_.terms.bytes == 0) borrowed_.terms = loans_[loans_taken_++ % kMostLoans].terms;
  borrowed_.into = memory.data();
  // Kept from piece to piece: at the limit on locked memory it might not be had again.
  if (!borrowed_.covers(memory)) {
    borrowed_.region.reset();
    borrowed_.region = device_.regions().of(memory, Regions::Use::fill);
  }
  if (!borrowed_.region) {
    has_enough_ = true;
    memory = std::span(bounce(), std::min(memory.size(), kBounceBytes));
  }
  borrowed_.asked = static_cast<std::uint32_t>(memory.size());
  const std::uint32_t key = borrowed_.region ? borrowed_.region->lkey : bounce_region_->lkey;
  return check_posted(reads_.start(borrowed_.terms, memory, key, nullptr));
}

void VerbsStream::finish_reading(const Request& part) noexcept {
  const bool is_fetched = is_fetching();
  const LoanReads::Over over = reads_.finish(part);
  traffic_.read += over.bytes;
  if (is_fetched) {
    fetched_ += static_cast<int>(over.reads);
    answers_ += over.reads;
  } else if (over.reads != 0) {
    borrowed_.here = std::exchange(borrowed_.asked, 0);
  }
}

void VerbsStream::tell_answer() noexcept {
  const Kind kind = std::exchange(has_enough_, false) ? Kind::enough : Kind::taken;
  loans_told_ += answers_;
  post(Request::Kind::answer, {kind, 0, std::exchange(answers_, 0)}, 0);
}

void VerbsStream::end_loans() noexcept {
  for (; loans_back_ != loans_lent_; ++loans_back_) {
    Lent& lent = lent_[loans_back_ % kMostLoans];
    device_.regions().withdraw(lent.memory);
    lent = {};
  }
  own_loan_ = OwnLoan::none;
  reads_.give_up();
  // One that was not read whole has not been received: what stands in the ring behind it is not its bytes.
  if (borrowed_.terms.bytes != 0) --loans_taken_;
  borrowed_ = {};
}

}  // namespace cohort::verbs
