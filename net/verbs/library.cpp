// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/library.h>

#include <cohort/engine/log.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <system_error>

namespace cohort::verbs {
namespace {

constexpr const char* kFile = "libibverbs.so.1";

struct Loaded {
  Library library{};
  std::string failure;  ///< empty: it is loaded

  Loaded() {
    // Its providers register themselves and are never unloaded.
    file_ = ::dlopen(kFile, RTLD_NOW | RTLD_NODELETE);
    if (file_ == nullptr) {
      failure =
          fmt::format("{} cannot be loaded ({}): install libibverbs1 and ibverbs-providers", kFile, reason());
      return;
    }
    find_device_calls();
    find_queue_calls();
    if (failure.empty()) keep_from_children();
    library.post_send = [](ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** bad) {
      return pair->context->ops.post_send(pair, requests, bad);
    };
    library.post_recv = [](ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** bad) {
      return pair->context->ops.post_recv(pair, requests, bad);
    };
    library.poll_cq = [](ibv_cq* queue, int most, ibv_wc* completions) {
      return queue->context->ops.poll_cq(queue, most, completions);
    };
    library.req_notify_cq = [](ibv_cq* queue, int solicited_only) {
      return queue->context->ops.req_notify_cq(queue, solicited_only);
    };
  }

 private:
  /// Before anything is registered: else what a child writes may be what the device reads, or the reverse.
  void keep_from_children() const {
    if (const int error = library.fork_init(); error != 0)
      log(LogLevel::warn,
          "{} cannot keep what devices reach from children: {}; use COHORT_TRANSPORT=tcp in programs that "
          "fork",
          kFile, std::generic_category().message(error));
  }
  void find_device_calls() {
    find(library.fork_init, "ibv_fork_init");
    find(library.is_fork_initialized, "ibv_is_fork_initialized");
    find(library.get_device_list, "ibv_get_device_list");
    find(library.free_device_list, "ibv_free_device_list");
    find(library.get_device_name, "ibv_get_device_name");
    find(library.open_device, "ibv_open_device");
    find(library.close_device, "ibv_close_device");
    find(library.query_device, "ibv_query_device");
    find(library.query_port, "ibv_query_port");
    find(library.query_gid_table, "_ibv_query_gid_table");
    find(library.get_async_event, "ibv_get_async_event");
    find(library.ack_async_event, "ibv_ack_async_event");
    find(library.alloc_pd, "ibv_alloc_pd");
    find(library.dealloc_pd, "ibv_dealloc_pd");
    find(library.reg_mr, "ibv_reg_mr");
    find(library.dereg_mr, "ibv_dereg_mr");
  }
  void find_queue_calls() {
    find(library.create_comp_channel, "ibv_create_comp_channel");
    find(library.destroy_comp_channel, "ibv_destroy_comp_channel");
    find(library.create_cq, "ibv_create_cq");
    find(library.destroy_cq, "ibv_destroy_cq");
    find(library.get_cq_event, "ibv_get_cq_event");
    find(library.ack_cq_events, "ibv_ack_cq_events");
    find(library.create_qp, "ibv_create_qp");
    find(library.modify_qp, "ibv_modify_qp");
    find(library.destroy_qp, "ibv_destroy_qp");
    find(library.wc_status_str, "ibv_wc_status_str");
    find(library.event_type_str, "ibv_event_type_str");
  }
  template <class Function>
  void find(Function*& into, const char* name) {
    into = std::bit_cast<Function*>(::dlsym(file_, name));
    if (into == nullptr && failure.empty())
      failure = fmt::format("{} has no {}: it is older than rdma-core 35; install a newer libibverbs1", kFile,
                            name);
  }
  static std::string reason() {
    const char* const text = ::dlerror();
    return text == nullptr ? "for no reason given" : text;
  }

  void* file_ = nullptr;
};

}  // namespace

const Library* installed_library(std::string& why_not) {
  static const Loaded kLoaded;
  if (kLoaded.failure.empty()) return &kLoaded.library;
  why_not = kLoaded.failure;
  return nullptr;
}

}  // namespace cohort::verbs
