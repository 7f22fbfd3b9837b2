// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cohort::verbs {

/// What is used of libibverbs, as a table: the library is loaded when it is first wanted, so that programs
/// run where it is not installed, and tests stand in for it. Names, arguments and results are those of
/// ibv_*(3).
struct Library {
  int (*fork_init)();
  ibv_fork_status (*is_fork_initialized)();
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device)(ibv_context* context, ibv_device_attr* attributes);
  int (*query_port)(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                             std::uint32_t flags, std::size_t entry_bytes);
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);

  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* memory, std::size_t bytes, int access);
  int (*dereg_mr)(ibv_mr* region);

  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** owner);
  void (*ack_cq_events)(ibv_cq* queue, unsigned count);
  ibv_qp* (*create_qp)(ibv_pd* domain, ibv_qp_init_attr* attributes);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int (*destroy_qp)(ibv_qp* pair);

  const char* (*wc_status_str)(ibv_wc_status status);
  const char* (*event_type_str)(ibv_event_type type);

  // Of the device's own driver: no system call.
  int (*post_send)(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** bad);
  int (*poll_cq)(ibv_cq* queue, int most, ibv_wc* completions);
  int (*req_notify_cq)(ibv_cq* queue, int solicited_only);
};

/// The installed one, loaded once per process and for good; null if it cannot be, with the reason. Threads:
/// any.
[[nodiscard]] const Library* installed_library(std::string& why_not);

}  // namespace cohort::verbs
