// SPDX-License-Identifier: Apache-2.0
#include <cohort/tests/support/fake_verbs.h>

#include <cohort/engine/assert.h>
#include <cohort/tests/support/fake_verbs_objects.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace cohort::test {
namespace {
FakeVerbs* current = nullptr;

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

void take(int descriptor) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor, &count, sizeof count);
}

}  // namespace

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

void FakeVerbs::tell(int descriptor) {
  const std::uint64_t one = 1;
  COHORT_ASSERT(::write(descriptor, &one, sizeof one) == sizeof one, "eventfd {}", descriptor);
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
    errno = self().pairs_.size() < self().most_pairs ? self().refuses_pairs : ENOMEM;
    if (errno != 0) return nullptr;
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
    if (attributes->qp_state == IBV_QPS_ERR) {
      pair.is_broken = true;
      ++self().pairs_stopped;
    }
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
