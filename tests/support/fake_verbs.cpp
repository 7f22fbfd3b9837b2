// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/fake_verbs.h>

#include <cohort/engine/assert.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cohort::test {
namespace {
FakeVerbs* current = nullptr;

/// The library's objects begin with what callers see of them.
struct Context {
  ibv_context seen{};
  FakeDevice* device = nullptr;
};

template <class T>
T* made(FakeVerbs& fake, T* object) {
  ++fake.objects;
  return object;
}
template <class T>
int gave_back(T* object) {
  --current->objects;
  delete object;
  return 0;
}

/// By which peers reach what this device reaches by its local key; its own inverse.
constexpr std::uint32_t remote_key(std::uint32_t local_key) { return ~local_key; }

ibv_wc completion_of(const ibv_qp& pair, std::uint64_t request, ibv_wc_status status) {
  ibv_wc completion{};
  completion.wr_id = request;
  completion.qp_num = pair.qp_num;
  completion.status = status;
  return completion;
}

void tell(int descriptor) {
  const std::uint64_t one = 1;
  COHORT_ASSERT(::write(descriptor, &one, sizeof one) == sizeof one, "eventfd {}", descriptor);
}
void take(int descriptor) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor, &count, sizeof count);
}

}  // namespace

struct Channel {
  ibv_comp_channel seen{};
  std::deque<FakeVerbs::Queue*> told;
};

struct FakeVerbs::Queue {
  ibv_cq seen{};
  Channel* channel = nullptr;
  std::deque<ibv_wc> completions;
  std::size_t most = 0;
  bool is_armed = false;
};

struct FakeVerbs::Pair {
  ibv_qp seen{};
  Queue* queue = nullptr;
  std::uint32_t most_sends = 0;
  std::uint32_t most_receives = 0;
  std::uint32_t most_inline = 0;
  unsigned access = 0;      ///< of the other end
  bool is_ready = false;    ///< to send
  std::uint32_t sends = 0;  ///< posted, and not known to be complete
  std::uint32_t unsignaled = 0;
  std::deque<std::uint64_t> receives{};
  std::uint32_t other = 0;
  bool is_broken = false;
};

FakeVerbs::FakeVerbs(std::vector<FakeDevice> those) : devices(std::move(those)) {
  COHORT_ASSERT(current == nullptr, "{} fake libraries at once", 2);
  current = this;
  make_device_calls();
  make_questions();
  make_memory_calls();
  make_queue_calls();
  make_pair_calls();
  make_transfer_calls();
}

FakeVerbs::~FakeVerbs() { current = nullptr; }

FakeVerbs& FakeVerbs::self() { return *current; }

int FakeVerbs::make_event() {
  descriptors.push_back(::eventfd(0, EFD_CLOEXEC));
  return descriptors.back();
}

void FakeVerbs::close_event(int descriptor) {
  std::erase(descriptors, descriptor);
  ::close(descriptor);
}

ibv_gid_entry FakeVerbs::ipv4(std::uint32_t index, std::uint8_t last_byte) {
  ibv_gid_entry entry = gid(index, IBV_GID_TYPE_ROCE_V2, 0);
  const std::uint8_t tail[] = {0xff, 0xff, 10, 0, 0, last_byte};
  std::copy(std::begin(tail), std::end(tail), entry.gid.raw + 10);
  return entry;
}

ibv_gid_entry FakeVerbs::gid(std::uint32_t index, std::uint32_t type, std::uint8_t first_byte) {
  ibv_gid_entry entry{};
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = type;
  entry.gid.raw[0] = first_byte;
  if (first_byte == 0xfe) entry.gid.raw[1] = 0x80;
  entry.gid.raw[15] = static_cast<std::uint8_t>(first_byte == 0 ? 0 : index + 1);
  return entry;
}

void FakeVerbs::make_device_calls() {
  library_.fork_init = [] { return 0; };
  library_.is_fork_initialized = [] { return self().fork_status; };
  library_.get_device_list = [](int* count) -> ibv_device** {
    *count = static_cast<int>(self().devices.size());
    auto** const list = new ibv_device*[self().devices.size() + 1]();
    for (std::size_t i = 0; i < self().devices.size(); ++i) {
      list[i] = made(self(), new ibv_device());
      list[i]->transport_type = self().devices[i].transport;
      std::strncpy(list[i]->name, self().devices[i].name.c_str(), sizeof list[i]->name - 1);
    }
    return list;
  };
  library_.free_device_list = [](ibv_device** list) {
    for (ibv_device** device = list; *device != nullptr; ++device) gave_back(*device);
    delete[] list;
  };
  library_.get_device_name = [](ibv_device* device) -> const char* { return device->name; };
  library_.open_device = [](ibv_device* device) -> ibv_context* {
    for (FakeDevice& one : self().devices) {
      if (one.name != device->name || !one.opens) continue;
      auto* const context = made(self(), new Context{.seen = {}, .device = &one});
      context->seen.cmd_fd = self().make_event();
      context->seen.async_fd = self().make_event();
      self().event_descriptors_.push_back(context->seen.async_fd);
      return &context->seen;
    }
    errno = EACCES;
    return nullptr;
  };
  library_.close_device = [](ibv_context* context) {
    std::erase(self().event_descriptors_, context->async_fd);
    self().close_event(context->async_fd);
    self().close_event(context->cmd_fd);
    return gave_back(reinterpret_cast<Context*>(context));
  };
}

void FakeVerbs::make_questions() {
  library_.query_device = [](ibv_context*, ibv_device_attr* attributes) {
    *attributes = {};
    attributes->phys_port_cnt = 1;
    attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 20;
    attributes->max_qp = 1000;
    return 0;
  };
  library_.query_port = [](ibv_context* context, std::uint8_t, ibv_port_attr* attributes) {
    const FakeDevice& device = *reinterpret_cast<Context*>(context)->device;
    *attributes = {};
    attributes->state = device.state;
    attributes->active_mtu = IBV_MTU_4096;
    attributes->link_layer = device.is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    return 0;
  };
  library_.query_gid_table = [](ibv_context* context, ibv_gid_entry* entries, std::size_t most, std::uint32_t,
                                std::size_t) -> ssize_t {
    const auto& gids = reinterpret_cast<Context*>(context)->device->gids;
    const std::size_t count = std::min(most, gids.size());
    std::copy_n(gids.begin(), count, entries);
    return static_cast<ssize_t>(count);
  };
  library_.get_async_event = [](ibv_context* context, ibv_async_event* event) {
    if (self().events_.empty()) return -1;
    take(context->async_fd);
    *event = self().events_.front();
    self().events_.pop_front();
    const bool is_of_queue =
        event->event_type <= IBV_EVENT_PATH_MIG_ERR && event->event_type != IBV_EVENT_CQ_ERR;
    if (event->event_type == IBV_EVENT_CQ_ERR) self().unacknowledged_ = event->element.cq;
    if (is_of_queue) self().unacknowledged_ = event->element.qp;
    return 0;
  };
  library_.ack_async_event = [](ibv_async_event*) { self().unacknowledged_ = nullptr; };
  library_.event_type_str = [](ibv_event_type type) -> const char* {
    return type >= IBV_EVENT_DEVICE_FATAL ? "port error" : "queue error";
  };
  library_.wc_status_str = [](ibv_wc_status status) -> const char* {
    return status == IBV_WC_WR_FLUSH_ERR    ? "flushed"
           : status == IBV_WC_RETRY_EXC_ERR ? "retries exceeded"
                                            : "error";
  };
}

void FakeVerbs::make_memory_calls() {
  library_.alloc_pd = [](ibv_context* context) {
    auto* const domain = made(self(), new ibv_pd());
    domain->context = context;
    return domain;
  };
  library_.dealloc_pd = [](ibv_pd* domain) { return gave_back(domain); };
  library_.reg_mr = [](ibv_pd*, void* memory, std::size_t bytes, int access) -> ibv_mr* {
    const bool is_too_much = self().registered_bytes + bytes > self().most_memory;
    if (is_too_much || self().refuses_memory != 0) {
      ++self().refused_registrations;
      errno = is_too_much ? ENOMEM : self().refuses_memory;
      return nullptr;
    }
    self().registered_bytes += bytes;
    ++self().registrations;
    auto* const region = made(self(), new ibv_mr());
    region->addr = memory;
    region->length = bytes;
    region->lkey = self().next_key_++;
    region->rkey = remote_key(region->lkey);
    self().regions_[region->lkey] = {reinterpret_cast<std::uintptr_t>(memory), bytes, access};
    return region;
  };
  library_.dereg_mr = [](ibv_mr* region) {
    self().registered_bytes -= region->length;
    self().regions_.erase(region->lkey);
    return gave_back(region);
  };
}

void FakeVerbs::make_queue_calls() {
  library_.create_comp_channel = [](ibv_context*) -> ibv_comp_channel* {
    auto* const channel = made(self(), new Channel());
    channel->seen.fd = self().make_event();
    return &channel->seen;
  };
  library_.destroy_comp_channel = [](ibv_comp_channel* channel) {
    self().close_event(channel->fd);
    return gave_back(reinterpret_cast<Channel*>(channel));
  };
  library_.create_cq = [](ibv_context*, int entries, void* owner, ibv_comp_channel* channel, int) -> ibv_cq* {
    auto* const queue = made(self(), new Queue());
    queue->seen.cq_context = owner;
    queue->channel = reinterpret_cast<Channel*>(channel);
    queue->most = static_cast<std::size_t>(entries);
    return &queue->seen;
  };
  library_.destroy_cq = [](ibv_cq* queue) {
    auto* const gone = reinterpret_cast<Queue*>(queue);
    COHORT_ASSERT(self().unacknowledged_ != queue, "queue {} is destroyed, which waits for ever for an event",
                  static_cast<void*>(queue));
    std::erase(gone->channel->told, gone);
    return gave_back(gone);
  };
  library_.get_cq_event = [](ibv_comp_channel* channel, ibv_cq** queue, void** owner) {
    auto& told = reinterpret_cast<Channel*>(channel)->told;
    take(channel->fd);
    if (told.empty()) return -1;
    *queue = &told.front()->seen;
    *owner = told.front()->seen.cq_context;
    told.pop_front();
    if (!told.empty()) tell(channel->fd);
    return 0;
  };
  library_.ack_cq_events = [](ibv_cq*, unsigned) {};
}

void FakeVerbs::make_pair_calls() {
  library_.create_qp = [](ibv_pd*, ibv_qp_init_attr* attributes) -> ibv_qp* {
    if (errno = self().refuses_pairs; errno != 0) return nullptr;
    auto* const pair = made(self(), new Pair());
    pair->queue = reinterpret_cast<Queue*>(attributes->send_cq);
    pair->most_sends = attributes->cap.max_send_wr;
    pair->most_receives = attributes->cap.max_recv_wr;
    pair->most_inline = attributes->cap.max_inline_data;
    pair->seen.qp_context = attributes->qp_context;
    pair->seen.send_cq = attributes->send_cq;
    pair->seen.qp_num = self().next_number_++;
    self().pairs_.push_back(pair);
    return &pair->seen;
  };
  library_.modify_qp = [](ibv_qp* seen, ibv_qp_attr* attributes, int) {
    auto& pair = *reinterpret_cast<Pair*>(seen);
    if (attributes->qp_state == IBV_QPS_RTR && self().refuses_to_change != 0) return self().refuses_to_change;
    if (attributes->qp_state == IBV_QPS_INIT) pair.access = attributes->qp_access_flags;
    if (attributes->qp_state == IBV_QPS_RTR) pair.other = attributes->dest_qp_num;
    if (attributes->qp_state == IBV_QPS_RTS) pair.is_ready = true;
    if (attributes->qp_state == IBV_QPS_ERR) pair.is_broken = true;
    return 0;
  };
  library_.destroy_qp = [](ibv_qp* pair) {
    auto* const gone = reinterpret_cast<Pair*>(pair);
    COHORT_ASSERT(self().unacknowledged_ != pair, "pair {} is destroyed, which waits for ever for an event",
                  pair->qp_num);
    std::erase_if(gone->queue->completions, [&](const ibv_wc& one) { return one.qp_num == pair->qp_num; });
    std::erase(self().pairs_, gone);
    std::erase_if(self().pending_, [&](const Pending& pending) { return pending.pair == gone; });
    return gave_back(gone);
  };
}

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
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  Pair& pair = *pending.pair;
  ibv_wc_status status = pair.is_broken ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
  if (status == IBV_WC_SUCCESS && status_of) status = status_of(pending.request);
  if (status == IBV_WC_SUCCESS) status = move(pending);
  if (status != IBV_WC_SUCCESS) {
    break_pair(pair, pending, status);
    return true;
  }
  ++pair.unsignaled;
  if ((pending.request.send_flags & IBV_SEND_SIGNALED) == 0) return true;
  ibv_wc done = completion_of(pair.seen, pending.request.wr_id, IBV_WC_SUCCESS);
  done.opcode = pending.request.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
  complete(*pair.queue, done);
  pair.sends -= std::exchange(pair.unsignaled, 0);
  return true;
}

FakeVerbs::Pair* FakeVerbs::pair_of(std::uint32_t number) const {
  const auto found =
      std::ranges::find_if(pairs_, [&](const Pair* pair) { return pair->seen.qp_num == number; });
  return found == pairs_.end() ? nullptr : *found;
}

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
  if (other == nullptr || other->is_broken) return IBV_WC_RETRY_EXC_ERR;
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

void FakeVerbs::raise(ibv_event_type type, int port) {
  raise(ibv_async_event{.element = {.port_num = port}, .event_type = type});
}

void FakeVerbs::raise_of_pair(ibv_event_type type, std::uint32_t pair) {
  ibv_qp& seen = pair_of(pair)->seen;
  ibv_async_event event{};
  event.event_type = type;
  if (type == IBV_EVENT_CQ_ERR)
    event.element.cq = seen.send_cq;
  else
    event.element.qp = &seen;
  raise(event);
}

void FakeVerbs::raise(const ibv_async_event& event) {
  for (const int descriptor : event_descriptors_) {
    events_.push_back(event);
    tell(descriptor);
  }
}

}  // namespace cohort::test
