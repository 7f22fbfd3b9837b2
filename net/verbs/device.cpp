// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/device.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/fork_guard.h>
#include <cohort/engine/io/readiness.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <cerrno>
#include <chrono>

namespace cohort::verbs {
namespace {

/// Opens the device of that name.
Owned<ibv_context> open(const Library& library, const std::string& name) {
  int count = 0;
  ibv_device** const list = library.get_device_list(&count);
  Owned<ibv_context> context;
  errno = ENODEV;
  for (int i = 0; i < count; ++i)
    if (!context && name == library.get_device_name(list[i])) context = open_device(library, list[i]);
  const int error_number = errno;
  if (list != nullptr) library.free_device_list(list);
  if (!context) throw system_error(error_number, fmt::format("opening the RDMA device {}", name));
  return context;
}

/// Whose queue it is about; null: it is not about one queue, or does not break it.
DeviceUser* user_of(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return static_cast<DeviceUser*>(event.element.cq->cq_context);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR: return static_cast<DeviceUser*>(event.element.qp->qp_context);
    default: return nullptr;
  }
}

}  // namespace

void Release::operator()(ibv_context* context) const noexcept {
  const fork_guard::NoChild no_child;
  fork_guard::remove(context->cmd_fd);
  fork_guard::remove(context->async_fd);
  library->close_device(context);
}

void Release::operator()(ibv_comp_channel* channel) const noexcept {
  const fork_guard::NoChild no_child;
  fork_guard::remove(channel->fd);
  library->destroy_comp_channel(channel);
}

Owned<ibv_context> open_device(const Library& library, ibv_device* device) {
  const fork_guard::NoChild no_child;
  Owned<ibv_context> context(library.open_device(device), Release{&library});
  if (!context) return context;
  fork_guard::add(context->cmd_fd);
  fork_guard::add(context->async_fd);
  return context;
}

Device::Device(const Library& library, const Port& port, const Settings& settings)
    : library_(library), port_(port), settings_(settings), context_(open(library, port.device)) {
  const Release release{&library};
  if (const int error = library.query_device(context_.get(), &limits_); error != 0)
    throw refused(error, "telling its limits");
  domain_ = {library.alloc_pd(context_.get()), release};
  if (!domain_) throw refused(errno, "a protection domain");
  regions_.emplace(library, domain_.get());
  blocks_.emplace(*regions_);
  {
    const fork_guard::NoChild no_child;
    channel_ = {library.create_comp_channel(context_.get()), release};
    if (channel_) fork_guard::add(channel_->fd);
  }
  if (!channel_) throw refused(errno, "a completion channel");
  set_nonblocking(channel_->fd, "a completion channel");
  set_nonblocking(context_->async_fd, "the events of an RDMA device");
}

Error Device::refused(int error_number, std::string_view what) const {
  Error error = system_error(error_number, fmt::format("{} refuses {}", port_.device, what));
  const bool may_be_locked_memory = error_number == ENOMEM || error_number == EAGAIN;
  if (!may_be_locked_memory) return error;
  return Error(
      ErrorKind::ResourceLimit,
      fmt::format("{}: memory that a device reaches counts against the limit on locked memory: raise it "
                  "(ulimit -l unlimited; LimitMEMLOCK of a service), or use COHORT_TRANSPORT=tcp",
                  error.message()));
}

Owned<ibv_cq> Device::make_completion_queue(int entries, DeviceUser& user) {
  Owned<ibv_cq> queue(library_.create_cq(context_.get(), entries, &user, channel_.get(), 0),
                      Release{&library_});
  if (const int error = errno; !queue) throw refused(error, fmt::format("a completion queue of {}", entries));
  return queue;
}

Owned<ibv_mr> Device::register_memory(std::byte* memory, std::size_t bytes, int access) {
  const auto register_it = [&] {
    return Owned<ibv_mr>(library_.reg_mr(domain_.get(), memory, bytes, access), Release{&library_});
  };
  Owned<ibv_mr> region = register_it();
  if (!region && regions_->let_go_idle()) region = register_it();
  if (const int error = errno; !region)
    throw refused(error, fmt::format("{} bytes of registered memory", bytes));
  return region;
}

Task<> Device::watch_completions(Engine& engine) {
  for (;;) {
    co_await until_readable(engine, channel_->fd);
    ibv_cq* queue = nullptr;
    void* owner = nullptr;
    while (library_.get_cq_event(channel_.get(), &queue, &owner) == 0) {
      library_.ack_cq_events(queue, 1);
      static_cast<DeviceUser*>(owner)->completions_came();
    }
  }
}

Task<> Device::watch_events(Engine& engine) {
  for (;;) {
    co_await until_readable(engine, context_->async_fd);
    ibv_async_event event{};
    while (library_.get_async_event(context_.get(), &event) == 0) {
      DeviceUser* const user = user_of(event);
      library_.ack_async_event(&event);  // before its queue is destroyed, which waits for this
      take_event(event, user);
    }
  }
}

void Device::take_event(const ibv_async_event& event, DeviceUser* user) {
  const char* const name = library_.event_type_str(event.event_type);
  log(LogLevel::info, "{}: {}", port_.describe(), name);
  if (user != nullptr) return user->device_failed(fmt::format("{} says: {}", port_.describe(), name));
  if (event.event_type == IBV_EVENT_DEVICE_FATAL)
    return fail_all(fmt::format("{} says: {}", port_.describe(), name));
  const bool is_of_port = event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE;
  if (!is_of_port || event.element.port_num != port_.number) return;
  is_port_down_ = event.event_type == IBV_EVENT_PORT_ERR;
  if (is_port_down_ && port_went_down_.untaken_posts() == 0) port_went_down_.post();
}

void Device::fail_all(std::string_view why) noexcept {
  users_.for_each([&](DeviceUser& one) { one.device_failed(why); });
}

Task<> Device::watch_port(Engine& engine) {
  for (;;) {
    co_await port_went_down_.wait();
    co_await engine.sleep_for(settings_.patience());
    const bool is_down_since = is_port_down_ && port_went_down_.untaken_posts() == 0;
    if (is_down_since)
      fail_all(
          fmt::format("{} says: port error, and has been down for {} ms", port_.describe(),
                      std::chrono::duration_cast<std::chrono::milliseconds>(settings_.patience()).count()));
  }
}

}  // namespace cohort::verbs
