// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/transport.h>

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>

namespace cohort::test {

/// A link of queue_transport(): one queue in each direction, which the receiving end polls.
class QueueLink final : public Link, private Source {
 public:
  QueueLink(const TransportUse& use, Rank peer, Lane lane)
      : Link(peer),
        host_(use.host),
        to_(between(use.membership.self(), use.membership.peers[peer], lane)),
        from_(between(use.membership.peers[peer], use.membership.self(), lane)) {
    use.engine.add_source(*this);
  }
  ~QueueLink() override { unlink(); }
  [[nodiscard]] std::string_view transport() const noexcept override { return "queue"; }

 private:
  using Kind = LinkOperation::Kind;
  using Bytes = std::vector<std::byte>;
  static constexpr std::size_t kRecv = kSignals, kGet = kSignals + 1, kPlaces = kSignals + 2;

  struct Message {
    Kind kind{};  ///< what the sender does; get_reduce: it answers a get
    Signal signal{};
    Slice slice{};  ///< of put and get, in the receiver's windows
    Bytes bytes{};
    std::uint64_t sequence = 0;
    Signature signature{};
  };
  using Queue = std::deque<Message>;
  static inline std::mutex mutex;
  /// By the ends' incarnations and the lane. Kept for ever, so that neither end has to be there first.
  static inline std::map<std::tuple<std::uint64_t, std::uint64_t, Lane>, Queue> queues;
  static Queue& between(const PeerInfo& from, const PeerInfo& to, Lane lane) {
    const std::lock_guard lock(mutex);
    return queues[{from.incarnation, to.incarnation, lane}];
  }
  static std::size_t place_of(Kind kind, Signal signal) {
    if (kind == Kind::get || kind == Kind::get_reduce) return kGet;
    const bool is_data = kind == Kind::send || kind == Kind::recv || kind == Kind::recv_reduce;
    return is_data ? kRecv : static_cast<std::size_t>(signal);
  }
  bool start(LinkOperation& operation) override {
    const auto& [kind, signal, local, remote, reducer] = operation.request();
    const bool is_said = kind == Kind::post || kind == Kind::put || kind == Kind::send;
    const std::size_t place = place_of(kind, signal);
    if (is_said || place == kGet) say({is_said ? kind : Kind::get, signal, remote, copy_of(local)});
    if (!is_said) waiting_[place] = &operation;
    return is_said;
  }
  void cancel(LinkOperation& operation) noexcept override {
    const std::size_t place = place_of(operation.request().kind, operation.request().signal);
    is_broken_ |= place == kGet;  // the answer to this one would be taken for another's
    waiting_[place] = nullptr;
    operation.finish();
  }
  void say(Message message) {
    message.sequence = host_.running().sequence;
    message.signature = host_.running().signature;
    const std::lock_guard lock(mutex);
    to_.push_back(std::move(message));
  }
  [[nodiscard]] bool is_waited_for() const noexcept override { return true; }
  [[nodiscard]] bool arm() noexcept override { return false; }  // nobody would wake it
  void disarm() noexcept override {}
  bool poll() noexcept override {
    const RunningOperation& running = host_.running();
    if (std::exchange(sequence_, running.sequence) != running.sequence)
      for (const auto& place : arrived_)
        if (!place.empty()) fail("something of an earlier collective was not taken");
    const bool has_come = running.is_running && take_due_message();
    for (std::size_t place = 0; place < kPlaces; ++place)
      if (waiting_[place] != nullptr && !arrived_[place].empty() && !is_broken_) complete(place);
    return has_come;
  }
  bool take_due_message() {
    std::unique_lock lock(mutex);
    if (from_.empty() || is_broken_ || from_.front().sequence > sequence_) return false;
    const Message message = std::move(from_.front());
    from_.pop_front();
    lock.unlock();
    const std::size_t place = place_of(message.kind, message.signal);
    is_broken_ = message.sequence == sequence_ && message.signature != host_.running().signature;
    if (is_broken_) host_.mismatch(peer(), message.sequence, message.signature);
    if (message.sequence < sequence_) fail("a message of an earlier collective");
    if (is_broken_) return false;
    if (message.kind == Kind::put) std::copy(message.bytes.begin(), message.bytes.end(), at(message.slice));
    if (message.kind == Kind::get) say({Kind::get_reduce, {}, {}, copy_of(message.slice)});
    if (message.kind != Kind::get) arrived_[place].push_back(place < kSignals ? Bytes() : message.bytes);
    if (place < kSignals && arrived_[place].size() > kMostUntaken) fail("too many untaken signals");
    return true;
  }
  void complete(std::size_t place) {
    const auto& [kind, signal, local, remote, reducer] = waiting_[place]->request();
    const Bytes bytes = std::move(arrived_[place].front());
    arrived_[place].pop_front();
    if (bytes.size() != local.bytes) return fail("another length than was expected");
    if (reducer.fold != nullptr) reducer.fold(reducer, at(local), bytes.data(), bytes.size());
    if (reducer.fold == nullptr) std::copy(bytes.begin(), bytes.end(), at(local));
    std::exchange(waiting_[place], nullptr)->finish();
  }
  void fail(std::string text) {
    if (std::exchange(is_broken_, true)) return;
    host_.link_failed(peer(), Error(ErrorKind::ProtocolError, std::move(text)).with_culprit(peer()));
  }
  [[nodiscard]] std::byte* at(const Slice& slice) const { return host_.running().windows.at(slice); }
  [[nodiscard]] Bytes copy_of(const Slice& from) const { return {at(from), at(from) + from.bytes}; }
  LinkOwner& host_;
  Queue &to_, &from_;
  std::array<std::deque<Bytes>, kPlaces> arrived_;
  std::array<LinkOperation*, kPlaces> waiting_{};
  std::uint64_t sequence_ = 0;
  bool is_broken_ = false;
};

class QueueTransport : public Transport {
 public:
  explicit QueueTransport(const TransportUse& use) : use_(use) {}
  static std::unique_ptr<Transport> make(const TransportUse& use) {
    return std::make_unique<QueueTransport>(use);
  }
  [[nodiscard]] Introduction introduce(Rank) const override { return {"queue", {}}; }
  void meet(Rank peer, std::string_view words, std::vector<Descriptor>) override {
    if (words != "queue") throw Error(ErrorKind::ProtocolError, "no queue").with_culprit(peer);
  }
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override {
    co_return std::make_unique<QueueLink>(use_, peer, lane);
  }

 protected:
  const TransportUse use_;
};

/// Messages between the threads of one process: the least that a transport can be, and all that it must do.
inline constexpr TransportKind kQueueTransport = {
    .name = "queue",
    .can = {},
    .reaches = [](const Membership& ranks, Rank peer) { return ranks.shares_process(peer); },
    .make = QueueTransport::make};

}  // namespace cohort::test
