// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/loop/source.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/rank.h>
#include <cohort/net/verbs/loan_reads.h>
#include <cohort/net/verbs/queue_pairs.h>
#include <cohort/net/verbs/request.h>
#include <cohort/net/verbs/ring.h>
#include <cohort/net/verbs/send_queue.h>
#include <cohort/notify/notify.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace cohort::verbs {

static_assert(kMostLoans <= framed::ByteStream::kMostAtOnce);

/// What becomes of them: lent, and read by all queue pairs of the device's settings; or copied like all
/// others, so that try_send_some() holds on to no memory, by one pair.
enum class LargePieces : std::uint8_t { lent, copied };

/// The bytes of one reliable connection: a ring in each direction, which the peer's device writes.
///
/// A message is copied into the own ring and from there written into the peer's, by RDMA WRITE WITH
/// IMMEDIATE; the immediate says how many bytes it was, and takes one of the receives that stand ready there.
/// What the receiver has used up it tells by immediates too: credits, so that neither ring nor receives run
/// out.
///
/// Small messages are inline, every sixteenth request or so asks for a completion, and completions are taken
/// in batches, in every turn of the loop, or when the completion channel wakes it.
///
/// A large piece of memory that the device may reach is lent instead: behind the bytes before it the peer is
/// told where it lies, reads it from there to where it belongs (RDMA READ, by all queue pairs that the
/// connection has: LoanReads), and says so.
///
/// Each loan has its place among the bytes: those that came before it are received first, those behind it
/// later. At most kMostLoans are open in a direction; try_send_some() has one at a time, and nothing follows
/// that one until it was answered.
///
/// Who cannot reach the memory that it is to be read into reads it in small pieces through a block of the
/// stream's, and asks that all goes through the ring from then on.
///
/// A peer can write nothing but the receiving ring, and read what was lent, with the rest of its region.
///
/// What breaks ends the stream: all its queue pairs are stopped, what had completed is taken, the pairs are
/// destroyed, so that no device touches anything any more, and then calls answer EIO. Threads: the engine's.
class VerbsStream final : public framed::ByteStream, private Source, private DeviceUser {
 public:
  /// Throws ResourceLimit, Unsupported.
  VerbsStream(Engine& engine, Device& device, Rank peer, LargePieces large = LargePieces::lent);
  ~VerbsStream() override;

  /// What the peer has to know.
  [[nodiscard]] EndPoint end_point() const noexcept;
  /// Throws LinkFault. Nothing may be sent before the peer has done the same.
  void connect(const EndPoint& theirs);

  [[nodiscard]] int try_send_some(std::span<const std::byte> first,
                                  std::span<const std::byte> second) noexcept override;
  [[nodiscard]] int try_receive_some(std::span<std::byte> into) noexcept override;
  [[nodiscard]] bool try_lend(std::span<const std::byte> first,
                              std::span<const std::byte> second) noexcept override;
  [[nodiscard]] int returned() noexcept override;
  [[nodiscard]] bool try_fetch(std::span<std::byte> into) noexcept override;
  [[nodiscard]] int fetched() noexcept override;
  [[nodiscard]] bool asks_kernel() const noexcept override { return false; }
  [[nodiscard]] bool is_readable() const noexcept override;
  [[nodiscard]] std::size_t piece_bytes() const noexcept override { return LoanTerms::kMostBytes; }
  [[nodiscard]] std::size_t combining_bytes() const noexcept override { return kCombiningBytes; }
  [[nodiscard]] std::span<std::byte> borrow_block() noexcept override;
  void return_block() noexcept override;
  void will_receive_into(std::span<std::byte> memory) override;
  [[nodiscard]] Task<> until_writable() override;
  [[nodiscard]] Task<> until_readable() override;
  [[nodiscard]] Task<int> receive_some(std::span<std::byte> into) override;
  [[nodiscard]] Task<> until_sent() override;
  void shutdown() noexcept override;
  [[nodiscard]] std::string explain(int error_number) const override;

  /// How many bytes went which way, in both directions together.
  struct Traffic {
    std::uint64_t copied = 0;  ///< by this process, into its ring or out of it
    std::uint64_t lent = 0;    ///< read from here by the peer's device
    std::uint64_t read = 0;    ///< from there by this one's
  };
  [[nodiscard]] const Traffic& traffic() const noexcept { return traffic_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  /// Someone who waits for what reap() may bring.
  struct Waiter {
    Notify notify;
    bool is_waiting = false;
    void wake() noexcept;
  };

  // Source:
  bool poll() noexcept override;
  [[nodiscard]] bool is_waited_for() const noexcept override {
    return reader_.is_waiting || writer_.is_waiting || closer_.is_waiting;
  }
  [[nodiscard]] bool arm() noexcept override;
  void disarm() noexcept override {}

  // DeviceUser:
  void completions_came() noexcept override;
  void device_failed(std::string_view why) noexcept override;

  [[nodiscard]] bool is_over() const noexcept { return is_closed_ || !failure_.empty(); }
  [[nodiscard]] bool is_writable() const noexcept;
  /// A peer that has ended needs nothing any more, and may have taken its queue pair with it.
  [[nodiscard]] bool is_sent() const noexcept { return is_over() || has_ended_ || sends_.is_done(); }

  /// Takes what has completed, and does what that asks for. True if anything had.
  bool reap() noexcept;
  void take_all(std::span<const ibv_wc> completions) noexcept;
  void take(const ibv_wc& completion) noexcept;
  void take_message(const ibv_wc& completion) noexcept;
  void renew_receives() noexcept;
  void tell_credit() noexcept;
  /// Copies what has come; how much it was.
  [[nodiscard]] std::size_t take_bytes(std::span<std::byte> into) noexcept;
  void wake_waiters() noexcept;

  /// Posts an immediate, behind so many bytes of the ring from that offset. Where that is refused, the stream
  /// has failed.
  void post(Request::Kind what, const Immediate& immediate, std::size_t offset) noexcept;
  /// What posting a request has answered. False: the stream has failed.
  bool check_posted(int error) noexcept;
  /// One attempt to send through the ring.
  [[nodiscard]] int try_send_copies(std::span<const std::byte> first,
                                    std::span<const std::byte> second) noexcept;
  /// The next message: as many bytes as fit.
  [[nodiscard]] std::size_t send_message(std::span<const std::byte>& first,
                                         std::span<const std::byte>& second) noexcept;

  // verbs_stream_loans.cpp:
  [[nodiscard]] bool is_worth_lending(std::span<const std::byte> memory) const noexcept {
    return may_lend_ && memory.size() >= kRingBytes;
  }
  [[nodiscard]] bool is_full_of_loans() const noexcept { return loans_lent_ - loans_back_ == kMostLoans; }
  /// With the bytes before it, which are copied. False: all has to go through the ring.
  [[nodiscard]] bool lend(std::span<const std::byte> before, std::span<const std::byte> memory) noexcept;
  /// What became of the loan of this memory, try_send_some()'s: its bytes once they were read.
  [[nodiscard]] int ask_for_loan(std::span<const std::byte> memory) noexcept;
  /// Behind the ring stand so many bytes: the terms and what comes before the loan.
  [[nodiscard]] bool take_terms(std::uint32_t bytes) noexcept;
  /// Receives what comes before the loan; how much it was.
  [[nodiscard]] std::size_t take_before_loan(std::span<std::byte> into) noexcept;
  /// So many loans were read.
  [[nodiscard]] bool take_answer(const Immediate& answer) noexcept;
  /// Whether a loan is what is received next, or what comes before it and in its request.
  [[nodiscard]] bool is_loan_next() const noexcept {
    return loans_taken_ != loans_came_ && next_loan().at == received_.consumed();
  }
  /// Whether the loan itself is.
  [[nodiscard]] bool is_loan_bare() const noexcept { return is_loan_next() && next_loan().before.empty(); }
  [[nodiscard]] bool is_fetching() const noexcept { return !reads_.is_idle() && borrowed_.asked == 0; }
  /// Reads on in what the peer has lent.
  [[nodiscard]] int read_loan(std::span<std::byte> into) noexcept;
  /// False: nothing is being read.
  [[nodiscard]] bool begin_to_read(std::span<std::byte> into) noexcept;
  void finish_reading(const Request& part) noexcept;
  void tell_answer() noexcept;
  /// What the peer was told of it can read no longer, and nothing of its own is read.
  void end_loans() noexcept;

  void fail_request(const ibv_wc& completion) noexcept;
  template <class Why>
  void fail_saying(const Why& why) noexcept;
  void let_go() noexcept;

  [[nodiscard]] std::byte* send_ring() const noexcept { return memory_.get(); }
  [[nodiscard]] std::byte* receive_ring() const noexcept { return memory_.get() + kRegionBytes; }
  [[nodiscard]] std::byte* bounce() const noexcept { return memory_.get() + 2 * kRegionBytes; }

  Device& device_;
  const Rank peer_;
  const std::unique_ptr<std::byte, Free> memory_;  ///< the sending ring, the receiving one, and bounce()
  const Owned<ibv_mr> send_region_;
  const Owned<ibv_mr> receive_region_;
  const Owned<ibv_mr> bounce_region_;
  QueuePairs pairs_;
  std::uint64_t their_ring_ = 0;  ///< the peer's receiving one; 0: they are not connected
  std::uint32_t their_key_ = 0;

  SendRing sent_;
  SendQueue sends_{pairs_.first(), sent_};
  ReceiveRing received_;
  std::uint32_t spent_receives_ = kReceives;  ///< to be posted

  /// Memory of the caller's that the peer was told of: loans_back_ to loans_lent_, by their number.
  struct Lent {
    std::span<const std::byte> memory;
    Regions::Region region;
  };
  std::array<Lent, kMostLoans> lent_;
  std::uint32_t loans_lent_ = 0;
  std::uint32_t loans_back_ = 0;  ///< of them, answered
  int returned_ = 0;              ///< of these, the ones that nobody was told of
  /// The loan of try_send_some(), the last one.
  enum class OwnLoan : std::uint8_t { none, open, taken };
  OwnLoan own_loan_ = OwnLoan::none;
  std::span<const std::byte> own_memory_;
  bool may_lend_;
  bool wants_loan_ = false;  ///< who sends was told to wait for an answer

  /// The peer's memory: loans_taken_ to loans_came_, by their number, are yet to be received.
  struct Loan {
    std::uint64_t at = 0;  ///< behind so many bytes of the ring
    LoanTerms terms;
    std::span<const std::byte> before{};  ///< it, and has not been received
  };
  std::array<Loan, kMostLoans> loans_;
  std::uint32_t loans_came_ = 0;
  std::uint32_t loans_taken_ = 0;
  std::uint32_t loans_told_ = 0;  ///< of these, answered
  std::uint32_t answers_ = 0;     ///< to be told
  bool has_enough_ = false;       ///< to be told with them: of loans
  [[nodiscard]] const Loan& next_loan() const noexcept { return loans_[loans_taken_ % kMostLoans]; }

  /// What is being read: of try_fetch(), or a piece of borrowed_.
  LoanReads reads_{pairs_, sends_};
  int fetched_ = 0;  ///< by try_fetch(), and nobody was told of them

  /// The loan that try_receive_some() reads, piece by piece; nothing is fetched meanwhile.
  struct Borrowed {
    LoanTerms terms;          ///< of what has not been read; no bytes: none
    std::uint32_t asked = 0;  ///< that the device is reading
    std::uint32_t here = 0;   ///< that it has read, and nobody was told of
    std::byte* into = nullptr;
    Regions::Region region;  ///< null: by way of bounce()

    /// Whether the region does.
    [[nodiscard]] bool covers(std::span<const std::byte> memory) const noexcept {
      if (!region) return false;
      const auto* const begin = static_cast<const std::byte*>(region->addr);
      return !std::less()(memory.data(), begin) &&
             !std::less()(begin + region->length, memory.data() + memory.size());
    }
  };
  Borrowed borrowed_;
  std::byte* reused_ = nullptr;  ///< of will_receive_into()
  std::byte* block_ = nullptr;   ///< of borrow_block(): from the device's, while it reads what is combined
  Traffic traffic_;

  Waiter reader_;
  Waiter writer_;
  Waiter closer_;                 ///< in until_sent()
  bool is_armed_ = false;         ///< the device will tell of the next completion
  bool has_ended_ = false;        ///< the peer has
  bool is_closed_ = false;        ///< by shutdown()
  bool has_just_looked_ = false;  ///< poll() has, in vain: who asks next need not
  bool is_taking_ = false;        ///< completions that were polled wait to be looked at
  bool is_flush_ = false;         ///< failure_ is but the consequence of another one
  std::string failure_;
};

}  // namespace cohort::verbs
