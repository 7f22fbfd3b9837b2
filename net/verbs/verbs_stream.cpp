// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/verbs_stream.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/copy_bytes.h>
#include <cohort/engine/system/memory_map.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace cohort::verbs {
namespace {

constexpr std::size_t kBatch = 16;
/// What one look takes at most: the rest of the loop has its turn.
constexpr int kBatchesOfALook = 8;

std::byte* allocate(std::size_t bytes) {
  const std::size_t page = memory_map::page_bytes();
  void* const memory = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

constexpr std::uint32_t big_endian(std::uint32_t word) noexcept {
  if constexpr (std::endian::native == std::endian::big) return word;
  return word << 24 | (word & 0xff00) << 8 | (word >> 8 & 0xff00) | word >> 24;
}

/// Copies from the front of one, then of the other.
void take_front(std::span<const std::byte>& from, std::byte*& to, std::size_t& left) noexcept {
  const std::size_t bytes = std::min(from.size(), left);
  if (bytes == 0) return;
  copy_bytes(to, from.data(), bytes);
  from = from.subspan(bytes);
  to += bytes;
  left -= bytes;
}

}  // namespace

VerbsStream::VerbsStream(Engine& engine, Device& device, Rank peer, LargePieces large)
    : device_(device),
      peer_(peer),
      memory_(allocate(2 * kRegionBytes + kBounceBytes)),
      send_region_(device.register_memory(send_ring(), kRegionBytes, 0)),
      receive_region_(device.register_memory(receive_ring(), kRegionBytes,
                                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)),
      bounce_region_(device.register_memory(bounce(), kBounceBytes, IBV_ACCESS_LOCAL_WRITE)),
      pairs_(device, *this, large == LargePieces::lent ? device.settings().pairs : 1),
      may_lend_(large == LargePieces::lent) {
  engine.add_source(*this);
  device.add_user(*this);
}

VerbsStream::~VerbsStream() {
  pairs_.destroy();
  end_loans();
  return_block();
  if (reused_ != nullptr) device_.regions().forget(reused_);
  log(LogLevel::info, "{}: RDMA with rank {} is over (queue pairs: {}): {} bytes copied, {} lent, {} read",
      device_.port().device, peer_, pairs_.count(), traffic_.copied, traffic_.lent, traffic_.read);
  Source::unlink();
  DeviceUser::unlink();
}

EndPoint VerbsStream::end_point() const noexcept {
  EndPoint own{.key = receive_region_->rkey,
               .ring = reinterpret_cast<std::uintptr_t>(receive_ring()),
               .lid = device_.port().lid,
               .mtu = device_.port().mtu,
               .gid = device_.port().gid.gid};
  pairs_.tell(own);
  return own;
}

void VerbsStream::connect(const EndPoint& theirs) {
  if (failure_.empty()) renew_receives();
  if (!failure_.empty()) throw Error(ErrorKind::LinkFault, failure_);
  pairs_.connect(theirs);
  their_ring_ = theirs.ring;
  their_key_ = theirs.key;
}

bool VerbsStream::is_writable() const noexcept {
  const bool waits_for_answer = own_loan_ == OwnLoan::open || wants_loan_;
  const bool has_room = !waits_for_answer && sent_.room() != 0 && sends_.has_room();
  return is_over() || has_ended_ || has_room;
}

bool VerbsStream::is_readable() const noexcept {
  const bool is_reading = borrowed_.terms.bytes != 0;
  const bool has_more = is_reading ? borrowed_.asked == 0 : !received_.is_empty() || is_loan_next();
  return has_more || (has_ended_ && !is_fetching()) || is_over();
}

int VerbsStream::try_send_some(std::span<const std::byte> first, std::span<const std::byte> second) noexcept {
  wants_loan_ = false;
  if (own_loan_ != OwnLoan::none) return ask_for_loan(second);
  if (!is_worth_lending(second)) return try_send_copies(first, second);
  if (first.size() > LoanTerms::kMostBytesBefore) return try_send_copies(first, {});
  if (is_full_of_loans()) (void)reap();
  if (is_full_of_loans() && !is_over() && !has_ended_) {
    wants_loan_ = true;
    return -EAGAIN;
  }
  const auto lent = second.first(std::min<std::size_t>(second.size(), LoanTerms::kMostBytes));
  if (!lend(first, lent)) return try_send_copies(first, second);
  own_loan_ = OwnLoan::open;
  own_memory_ = lent;
  return first.empty() ? -EAGAIN : static_cast<int>(first.size());
}

int VerbsStream::try_send_copies(std::span<const std::byte> first,
                                 std::span<const std::byte> second) noexcept {
  const std::size_t all = first.size() + second.size();
  std::size_t left = all;
  while (left != 0) {
    if (!is_over() && (sent_.room() == 0 || !sends_.has_room())) (void)reap();
    if (!failure_.empty()) return -EIO;
    if (is_closed_ || has_ended_) return -EPIPE;
    if (sent_.room() == 0 || !sends_.has_room()) break;
    left -= send_message(first, second);
  }
  if (!failure_.empty()) return -EIO;
  return left == all && all != 0 ? -EAGAIN : static_cast<int>(all - left);
}

std::size_t VerbsStream::send_message(std::span<const std::byte>& first,
                                      std::span<const std::byte>& second) noexcept {
  const std::size_t bytes = std::min(first.size() + second.size(), sent_.room());
  const std::size_t offset = sent_.offset();
  std::byte* to = send_ring() + offset;
  std::size_t left = bytes;
  take_front(first, to, left);
  take_front(second, to, left);
  sent_.add(bytes);
  traffic_.copied += bytes;
  post(Request::Kind::data, {Immediate::Kind::data, static_cast<std::uint32_t>(bytes), 0}, offset);
  return bytes;
}

void VerbsStream::post(Request::Kind what, const Immediate& immediate, std::size_t offset) noexcept {
  using Kind = Request::Kind;
  const std::size_t bytes = what == Kind::data || what == Kind::loan ? immediate.bytes : 0;
  ibv_sge piece{};
  piece.addr = reinterpret_cast<std::uintptr_t>(send_ring() + offset);
  piece.length = static_cast<std::uint32_t>(bytes);
  piece.lkey = send_region_->lkey;
  ibv_send_wr request{};
  request.wr_id = Request{.kind = what, .bytes = bytes}.number();
  request.sg_list = &piece;
  request.num_sge = bytes == 0 ? 0 : 1;
  request.opcode = what == Kind::marker ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = big_endian(immediate.encode());
  request.wr.rdma.remote_addr = their_ring_ + offset;
  request.wr.rdma.rkey = their_key_;
  if (bytes != 0 && bytes <= pairs_.first().most_inline_bytes()) request.send_flags |= IBV_SEND_INLINE;
  if (what == Kind::end || what == Kind::marker) request.send_flags |= IBV_SEND_SIGNALED;
  check_posted(sends_.post(request, bytes));
}

bool VerbsStream::check_posted(int error) noexcept {
  if (error == 0) return true;
  fail_saying([&] {
    return fmt::format("{}: a request to send to rank {} was refused: {}", device_.port().device, peer_,
                       std::generic_category().message(error));
  });
  return false;
}

int VerbsStream::try_receive_some(std::span<std::byte> into) noexcept {
  const bool has_looked = std::exchange(has_just_looked_, false);
  if (received_.is_empty() && !is_over() && !has_ended_ && !has_looked) (void)reap();
  if (const std::size_t bytes = take_bytes(into); bytes != 0) {
    if (!is_over()) tell_credit();
    return static_cast<int>(bytes);
  }
  if (!failure_.empty()) return -EIO;
  if (is_closed_) return 0;
  const bool is_reading = borrowed_.asked != 0 || borrowed_.here != 0;
  const bool has_loan = borrowed_.terms.bytes != 0 || is_loan_bare();
  if (is_reading || (has_loan && !has_ended_)) return read_loan(into);
  return has_ended_ && !is_fetching() ? 0 : -EAGAIN;
}

/// Up to the next loan: what comes before it in its request, too.
std::size_t VerbsStream::take_bytes(std::span<std::byte> into) noexcept {
  if (borrowed_.terms.bytes != 0) return 0;
  std::size_t done = 0;
  while (done < into.size() && !received_.is_empty() && !is_loan_next()) {
    std::size_t bytes = std::min(into.size() - done, received_.readable());
    if (loans_taken_ != loans_came_)
      bytes = std::min(bytes, static_cast<std::size_t>(next_loan().at - received_.consumed()));
    copy_bytes(into.data() + done, receive_ring() + received_.offset(), bytes);
    received_.consume(bytes);
    done += bytes;
    traffic_.copied += bytes;
  }
  return done + take_before_loan(into.subspan(done));
}

void VerbsStream::Waiter::wake() noexcept {
  if (std::exchange(is_waiting, false) && notify.untaken_posts() == 0) notify.post();
}

Task<> VerbsStream::until_writable() {
  if (is_writable()) co_return;
  writer_.is_waiting = true;
  co_await writer_.notify.wait();
}

Task<> VerbsStream::until_readable() {
  if (is_readable()) co_return;
  reader_.is_waiting = true;
  co_await reader_.notify.wait();
}

Task<int> VerbsStream::receive_some(std::span<std::byte> into) {
  co_await until_readable();
  co_return try_receive_some(into);
}

/// A request that asks for its completion, which those before it have had then, and that tells the peer
/// nothing.
Task<> VerbsStream::until_sent() {
  while (!is_sent()) {
    if (sends_.has_unsignaled() && sends_.has_room()) post(Request::Kind::marker, {}, 0);
    (void)reap();
    if (is_sent()) co_return;
    closer_.is_waiting = true;
    co_await closer_.notify.wait();
  }
}

/// The end is told if the peer has room for it, which it keeps for that; who is gone is told of by others.
/// What the device writes into is the caller's again, so it has to stop. That the end leaves is not waited
/// for: who leaves an intact communicator has said so by the control connection.
void VerbsStream::shutdown() noexcept {
  if (is_closed_) return;
  const bool is_connected = their_ring_ != 0;
  if (failure_.empty() && is_connected && reads_.is_idle())
    post(Request::Kind::end, {Immediate::Kind::end, 0, 0}, 0);
  is_closed_ = true;
  if (!reads_.is_idle()) let_go();
  end_loans();
  wake_waiters();
}

void VerbsStream::wake_waiters() noexcept {
  if (is_readable()) reader_.wake();
  if (is_writable()) writer_.wake();
  if (is_sent() || (sends_.has_unsignaled() && sends_.has_room())) closer_.wake();
}

bool VerbsStream::arm() noexcept {
  if (is_over()) return true;
  if (!is_armed_) {
    if (const int error = pairs_.ask_for_event(); error != 0) {
      fail_saying([&] {
        return fmt::format("{}: it does not tell of completions: {}", device_.port().device,
                           std::generic_category().message(error));
      });
      return false;
    }
    is_armed_ = true;
  }
  return !reap();  // what came before it was asked is not told of
}

void VerbsStream::completions_came() noexcept {
  is_armed_ = false;
  (void)reap();
}

void VerbsStream::device_failed(std::string_view why) noexcept {
  if (!is_over()) fail_saying([&] { return std::string(why); });
}

bool VerbsStream::poll() noexcept {
  const bool found = reap();
  has_just_looked_ = !found;
  return found;
}

bool VerbsStream::reap() noexcept {
  if (is_over()) return false;
  std::array<ibv_wc, kBatch> completions;
  bool found = false;
  for (int batch = 0; batch < kBatchesOfALook && !is_over(); ++batch) {
    const int count = pairs_.poll(completions);
    if (count < 0)
      fail_saying([&] { return fmt::format("{}: its completions cannot be read", device_.port().device); });
    take_all(std::span(completions).first(static_cast<std::size_t>(std::max(count, 0))));
    found |= count > 0;
    const bool may_be_late = count > 0 && spent_receives_ < kLateReceives;
    if (!is_over() && !may_be_late) renew_receives();
    if (count < static_cast<int>(kBatch)) break;
  }
  if (!found) return false;
  if (!is_over()) tell_credit();
  wake_waiters();
  return true;
}

/// In order, those behind a failed one too: bytes that have come can be read before the failure is told.
void VerbsStream::take_all(std::span<const ibv_wc> completions) noexcept {
  const bool was_taking = std::exchange(is_taking_, true);
  for (const ibv_wc& completion : completions) take(completion);
  is_taking_ = was_taking;
  if (!failure_.empty()) let_go();
}

void VerbsStream::take(const ibv_wc& completion) noexcept {
  if (completion.status != IBV_WC_SUCCESS) return fail_request(completion);
  const Request request = Request::of(completion.wr_id);
  switch (request.kind) {
    case Request::Kind::receive: return take_message(completion);
    case Request::Kind::read: return finish_reading(request);
    default: return sends_.complete();
  }
}

void VerbsStream::take_message(const ibv_wc& completion) noexcept {
  ++spent_receives_;
  const auto immediate = Immediate::decode(big_endian(completion.imm_data));
  const bool has_immediate =
      completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (completion.wc_flags & IBV_WC_WITH_IMM) != 0;
  bool is_sound = has_immediate && immediate.has_value() && !has_ended_;
  if (is_sound) {
    switch (immediate->kind) {
      case Immediate::Kind::data:
        is_sound = completion.byte_len == immediate->bytes && received_.add(immediate->bytes);
        break;
      case Immediate::Kind::credit: is_sound = sent_.credit(immediate->bytes, immediate->messages); break;
      case Immediate::Kind::end: has_ended_ = true; break;
      case Immediate::Kind::loan:
        is_sound = completion.byte_len == immediate->bytes && take_terms(immediate->bytes);
        break;
      case Immediate::Kind::taken:
      case Immediate::Kind::enough: is_sound = take_answer(*immediate); break;
    }
  }
  if (!is_sound && !is_over())
    fail_saying([&] {
      return fmt::format(
          "rank {} says by RDMA what makes no sense here (immediate {:#x}, {} bytes): run the same build "
          "of cohort on all ranks",
          peer_, big_endian(completion.imm_data), completion.byte_len);
    });
}

void VerbsStream::renew_receives() noexcept {
  const std::uint32_t count = std::exchange(spent_receives_, 0);
  if (const int error = pairs_.first().post_receives(count); error != 0)
    fail_saying([&] {
      return fmt::format("{}: a request to receive from rank {} was refused: {}", device_.port().device,
                         peer_, std::generic_category().message(error));
    });
}

void VerbsStream::tell_credit() noexcept {
  if (has_ended_) return;  // nobody is there to be told
  if (answers_ != 0 && sends_.has_room()) tell_answer();
  if (received_.is_credit_due() && sends_.has_room()) post(Request::Kind::credit, received_.take_credit(), 0);
}

void VerbsStream::fail_request(const ibv_wc& completion) noexcept {
  const bool is_flush = completion.status == IBV_WC_WR_FLUSH_ERR;
  if (is_closed_ || (!failure_.empty() && (!is_flush_ || is_flush))) return;
  const Request request = Request::of(completion.wr_id);
  is_flush_ = is_flush;
  fail_saying([&] {
    return fmt::format(
        "{} (queue pair {}): a {} of {} bytes for rank {} failed: {} (status {}, vendor error {:#x})",
        device_.port().device, completion.qp_num, request.name(), request.bytes, peer_,
        device_.library().wc_status_str(completion.status), static_cast<int>(completion.status),
        completion.vendor_err);
  });
}

template <class Why>
void VerbsStream::fail_saying(const Why& why) noexcept {
  try {
    failure_ = why();
  } catch (const std::bad_alloc&) {
    failure_ = "out of memory";  // short enough to need none
  }
  let_go();
  wake_waiters();
}

/// No pair goes on while another one is asked. Completions are read while the pairs are there, which take
/// them with them: one of them may tell more than what was found first. There are no more of them than
/// requests, and none is posted any more.
void VerbsStream::let_go() noexcept {
  if (is_taking_ || pairs_.is_destroyed()) return;
  is_taking_ = true;
  pairs_.stop();
  std::array<ibv_wc, kBatch> completions;
  for (int count = pairs_.poll(completions); count > 0; count = pairs_.poll(completions))
    take_all(std::span(completions).first(static_cast<std::size_t>(count)));
  is_taking_ = false;
  pairs_.destroy();
  end_loans();
}

std::string VerbsStream::explain(int error_number) const {
  if (error_number == EIO && !failure_.empty()) return failure_;
  if (error_number == EPIPE) return fmt::format("rank {} has closed the connection", peer_);
  return std::string(system_error(error_number, "the RDMA connection broke").message());
}

}  // namespace cohort::verbs
