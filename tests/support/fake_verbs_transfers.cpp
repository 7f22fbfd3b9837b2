// SPDX-License-Identifier: Apache-2.0
// What the library that is made up does with requests.
#include <cohort/engine/assert.h>
#include <cohort/tests/support/fake_verbs_objects.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cohort::test {
namespace {

ibv_wc completion_of(const ibv_qp& pair, std::uint64_t request, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = request;
  completion.qp_num = pair.qp_num;
  completion.status = status;
  return completion;
}

}  // namespace

void FakeVerbs::make_transfer_calls() {
  library_.post_send = [](ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr**) {
    return self().post_send(pair, requests);
  };
  library_.post_recv = [](ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr**) {
    return self().post_recv(pair, requests);
  };
  library_.poll_cq = [](ibv_cq* queue, int most, ibv_wc* completions) {
    auto& waiting = reinterpret_cast<Queue*>(queue)->completions;
    ++self().polls;
    const int count = std::min(most, static_cast<int>(waiting.size()));
    std::copy_n(waiting.begin(), count, completions);
    waiting.erase(waiting.begin(), waiting.begin() + count);
    return count;
  };
  library_.req_notify_cq = [](ibv_cq* queue, int) {
    reinterpret_cast<Queue*>(queue)->is_armed = true;
    return 0;
  };
}

int FakeVerbs::post_send(ibv_qp* seen, ibv_send_wr* request) {
  auto& pair = *reinterpret_cast<Pair*>(seen);
  const bool is_inline = (request->send_flags & IBV_SEND_INLINE) != 0;
  const bool is_too_long = is_inline && request->num_sge == 1 && request->sg_list->length > pair.most_inline;
  if (!pair.is_ready || is_too_long || request->num_sge > 1) return EINVAL;
  if (pair.sends == pair.most_sends) return ENOMEM;
  if (const int refused = refuses_send(*request); refused != 0) return refused;
  ++pair.sends;
  ++sends_posted;
  sends_signaled += (request->send_flags & IBV_SEND_SIGNALED) != 0 ? 1 : 0;
  sends_inline += is_inline ? 1 : 0;
  reads += request->opcode == IBV_WR_RDMA_READ ? 1 : 0;
  Pending pending{.pair = &pair, .request = *request};
  if (request->num_sge == 1) pending.piece = *request->sg_list;
  if (is_inline) {  // others are read when they are sent, as by a device
    const auto* const from = reinterpret_cast<const std::byte*>(pending.piece.addr);
    pending.bytes.assign(from, from + pending.piece.length);
  }
  pending_.push_back(std::move(pending));
  if (!is_holding) carry_out_all();
  return 0;
}

int FakeVerbs::post_recv(ibv_qp* seen, const ibv_recv_wr* requests) {
  auto& pair = *reinterpret_cast<Pair*>(seen);
  if (refuses_receives != 0) return refuses_receives;
  for (; requests != nullptr; requests = requests->next) {
    if (pair.receives.size() == pair.most_receives) return ENOMEM;
    pair.receives.push_back(requests->wr_id);
    ++receives_posted;
  }
  return 0;
}

bool FakeVerbs::carry_out() {
  if (pending_.empty()) return false;
  Pending oldest = std::move(pending_.front());
  pending_.pop_front();
  carry_out(std::move(oldest));
  return true;
}

bool FakeVerbs::carry_out_of(std::uint32_t pair) {
  const auto found =
      std::ranges::find_if(pending_, [&](const Pending& one) { return one.pair->seen.qp_num == pair; });
  if (found == pending_.end()) return false;
  Pending oldest = std::move(*found);
  pending_.erase(found);
  carry_out(std::move(oldest));
  return true;
}

std::vector<std::uint32_t> FakeVerbs::waiting() const {
  std::vector<std::uint32_t> pairs;
  for (const Pending& one : pending_) pairs.push_back(one.pair->seen.qp_num);
  return pairs;
}

void FakeVerbs::carry_out(Pending pending) {
  Pair& pair = *pending.pair;
  ibv_wc_status status = pair.is_broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
  if (status == IBV_WC_SUCCESS && status_of) status = status_of(pending.request);
  if (status == IBV_WC_SUCCESS) status = move(pending);
  if (status != IBV_WC_SUCCESS) return break_pair(pair, pending, status);
  ++pair.unsignaled;
  if ((pending.request.send_flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc done = completion_of(pair.seen, pending.request.wr_id, IBV_WC_SUCCESS);
  done.opcode = pending.request.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
  complete(*pair.queue, done);
  pair.sends -= std::exchange(pair.unsignaled, 0);
}

FakeVerbs::Pair* FakeVerbs::pair_of(std::uint32_t number) const {
  const auto found =
      std::ranges::find_if(pairs_, [&](const Pair* pair) { return pair->seen.qp_num == number; });
  return found == pairs_.end() ? nullptr : *found;
}

unsigned FakeVerbs::access_of(std::uint32_t pair) const { return pair_of(pair)->access; }

bool FakeVerbs::reaches(std::uint32_t key, std::uintptr_t at, std::size_t bytes, int access) const {
  const auto found = regions_.find(key);
  if (found == regions_.end()) return bytes == 0;
  const Region& region = found->second;
  const bool is_within =
      at >= region.begin && bytes <= region.bytes && at - region.begin <= region.bytes - bytes;
  return bytes == 0 || (is_within && (region.access & access) == access);
}

ibv_wc_status FakeVerbs::move(const Pending& pending) {
  Pair* const other = pair_of(pending.pair->other);
  const bool is_connected = other != nullptr && other->other == pending.pair->seen.qp_num;
  if (!is_connected || other->is_broken) return IBV_WC_RETRY_EXC_ERR;
  const bool is_read = pending.request.opcode == IBV_WR_RDMA_READ;
  const ibv_sge& piece = pending.piece;
  const bool is_own_allowed = !pending.bytes.empty() || reaches(piece.lkey, piece.addr, piece.length,
                                                                is_read ? IBV_ACCESS_LOCAL_WRITE : 0);
  if (!is_own_allowed) return IBV_WC_LOC_PROT_ERR;
  const int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const bool is_allowed = (other->access & static_cast<unsigned>(access)) != 0 &&
                          reaches(remote_key(pending.request.wr.rdma.rkey),
                                  pending.request.wr.rdma.remote_addr, piece.length, access);
  if (!is_allowed) {
    other->is_broken = true;
    flush(*other, nullptr);
    return IBV_WC_REM_ACCESS_ERR;
  }
  if (!is_read) return write(pending, *other);
  std::memcpy(reinterpret_cast<void*>(piece.addr),
              reinterpret_cast<const void*>(pending.request.wr.rdma.remote_addr), piece.length);
  return IBV_WC_SUCCESS;
}

ibv_wc_status FakeVerbs::write(const Pending& pending, Pair& other) {
  const std::uintptr_t to = pending.request.wr.rdma.remote_addr;
  const std::size_t bytes = pending.piece.length;
  const void* const from =
      pending.bytes.empty() ? reinterpret_cast<const void*>(pending.piece.addr) : pending.bytes.data();
  if (bytes != 0) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  if (pending.request.opcode == IBV_WR_RDMA_WRITE) return IBV_WC_SUCCESS;
  const bool is_received = receive(other, pending.request.imm_data, static_cast<std::uint32_t>(bytes));
  return is_received ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;
}

bool FakeVerbs::receive(Pair& pair, std::uint32_t immediate, std::uint32_t bytes) {
  if (pair.receives.empty()) return false;
  ibv_wc came = completion_of(pair.seen, pair.receives.front(), IBV_WC_SUCCESS);
  pair.receives.pop_front();
  came.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  came.wc_flags = IBV_WC_WITH_IMM;
  came.imm_data = immediate;
  came.byte_len = bytes;
  complete(*pair.queue, came);
  return true;
}

void FakeVerbs::say_to(std::uint32_t pair, std::uint32_t immediate, std::uint32_t bytes) {
  const bool is_received = receive(*pair_of(pair), immediate, bytes);
  COHORT_ASSERT(is_received, "pair {} has no receive left", pair);
}

void FakeVerbs::complete(Queue& queue, const ibv_wc& completion) {
  COHORT_ASSERT(queue.completions.size() < queue.most, "a queue of {} completions is full", queue.most);
  queue.completions.push_back(completion);
  if (!std::exchange(queue.is_armed, false)) return;
  queue.channel->told.push_back(&queue);
  tell(queue.channel->seen.fd);
}

void FakeVerbs::break_pair(Pair& pair, const Pending& cause, ibv_wc_status status) {
  pair.is_broken = true;
  const ibv_wc failed = completion_of(pair.seen, cause.request.wr_id, status);
  flush(pair, &failed);
}

void FakeVerbs::flush(Pair& pair, const ibv_wc* failed) {
  std::vector<ibv_wc> flushed;
  for (const std::uint64_t id : std::exchange(pair.receives, {}))
    flushed.push_back(completion_of(pair.seen, id, IBV_WC_WR_FLUSH_ERR));
  if (failed != nullptr) flushed.insert(flushes_receives_first ? flushed.end() : flushed.begin(), *failed);
  for (const ibv_wc& completion : flushed) complete(*pair.queue, completion);
}

}  // namespace cohort::test
