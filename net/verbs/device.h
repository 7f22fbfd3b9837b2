// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/intrusive_list.h>
#include <cohort/net/verbs/blocks.h>
#include <cohort/net/verbs/port.h>
#include <cohort/net/verbs/regions.h>
#include <cohort/notify/notify.h>

#include <memory>
#include <optional>
#include <string_view>

namespace cohort::verbs {

/// Gives objects of libibverbs back.
struct Release {
  const Library* library = nullptr;

  void operator()(ibv_context* context) const noexcept;
  void operator()(ibv_pd* domain) const noexcept { library->dealloc_pd(domain); }
  void operator()(ibv_comp_channel* channel) const noexcept;
  void operator()(ibv_cq* queue) const noexcept { library->destroy_cq(queue); }
  void operator()(ibv_qp* pair) const noexcept { library->destroy_qp(pair); }
  void operator()(ibv_mr* region) const noexcept { library->dereg_mr(region); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

/// None of a child's, as its completion channels; null, with errno, if it cannot be opened.
[[nodiscard]] Owned<ibv_context> open_device(const Library& library, ibv_device* device);

/// Whoever has a completion queue on a device.
class DeviceUser : public ListHook {
 public:
  /// Its queue has completions, of which the device has told once: it tells again when it is asked again.
  virtual void completions_came() noexcept = 0;
  /// The device, its port or a queue of this is of no use any more, for that reason.
  virtual void device_failed(std::string_view why) noexcept = 0;

 protected:
  ~DeviceUser() = default;
};

/// An open device: what all queues of one communicator and its groups share. Threads: the engine's. Lifetime:
/// outlives its users and what was made on it.
class Device : Immovable {
 public:
  /// Throws Unsupported or ResourceLimit, with the device and what to do.
  Device(const Library& library, const Port& port, const Settings& settings);

  [[nodiscard]] const Library& library() const noexcept { return library_; }
  [[nodiscard]] const Port& port() const noexcept { return port_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const ibv_device_attr& limits() const noexcept { return limits_; }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_.get(); }

  [[nodiscard]] Regions& regions() noexcept { return *regions_; }
  [[nodiscard]] Blocks& blocks() noexcept { return *blocks_; }

  /// A queue for so many completions of that user, which is told of them. Throws ResourceLimit.
  [[nodiscard]] Owned<ibv_cq> make_completion_queue(int entries, DeviceUser& user);
  /// Throws ResourceLimit, with the limit on locked memory and what to do, once regions() has given back what
  /// nobody uses.
  [[nodiscard]] Owned<ibv_mr> register_memory(std::byte* memory, std::size_t bytes, int access);
  void add_user(DeviceUser& user) noexcept { users_.push_back(user); }

  /// Tell users what comes, until their scope is cancelled. Throw SystemError when the kernel does not wait.
  Task<> watch_completions(Engine& engine);
  Task<> watch_events(Engine& engine);
  /// Fails all users when the port is down for longer than a packet would be sent again: until then
  /// connections outlast it.
  Task<> watch_port(Engine& engine);

 private:
  [[nodiscard]] Error refused(int error_number, std::string_view what) const;
  /// Of that user; null: of the port or the device.
  void take_event(const ibv_async_event& event, DeviceUser* user);
  void fail_all(std::string_view why) noexcept;

  const Library& library_;
  const Port port_;
  const Settings settings_;
  Owned<ibv_context> context_;
  ibv_device_attr limits_{};
  Owned<ibv_pd> domain_;
  std::optional<Regions> regions_;  ///< from the constructor on, as its blocks
  std::optional<Blocks> blocks_;
  Owned<ibv_comp_channel> channel_;
  IntrusiveList<DeviceUser> users_;
  bool is_port_down_ = false;
  Notify port_went_down_;
};

}  // namespace cohort::verbs
