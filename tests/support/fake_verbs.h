// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/net/verbs/library.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cohort::test {

/// A device of a host, as far as libibverbs tells of it.
struct FakeDevice {
  std::string name = "fake0";
  ibv_transport_type transport = IBV_TRANSPORT_IB;
  bool opens = true;
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool is_ethernet = true;
  std::vector<ibv_gid_entry> gids{};
};

/// libibverbs without a kernel: devices that are made up, and reliable connections within this process.
///
/// Requests to send are carried out one by one, in order, when they are posted, or, with is_holding, by
/// carry_out(), or those of a pair by carry_out_of(). One at a time exists, since the library's calls have no
/// place for an object. Threads: one.
class FakeVerbs : Immovable {
 public:
  explicit FakeVerbs(std::vector<FakeDevice> those = {});
  ~FakeVerbs();

  [[nodiscard]] const verbs::Library& library() const noexcept { return library_; }
  [[nodiscard]] static ibv_gid_entry ipv4(std::uint32_t index, std::uint8_t last_byte = 1);
  [[nodiscard]] static ibv_gid_entry gid(std::uint32_t index, std::uint32_t type, std::uint8_t first_byte);

  std::vector<FakeDevice> devices;

  // What goes wrong:
  bool is_holding = false;                 ///< requests wait for carry_out()
  std::size_t most_memory = ~0UL;          ///< that may be registered
  std::size_t locked_memory_limit = ~0UL;  ///< that this process knows of
  int refuses_memory = 0;                  ///< the error number of reg_mr
  int refuses_to_change = 0;               ///< the error number of modify_qp
  int refuses_receives = 0;                ///< the error number of post_recv
  int refuses_pairs = 0;                   ///< the error number of create_qp
  std::size_t most_pairs = ~0UL;           ///< that there may be
  /// The error number of post_send, of such a request.
  std::function<int(const ibv_send_wr&)> refuses_send = [](const ibv_send_wr&) { return 0; };
  ibv_fork_status fork_status = IBV_FORK_UNNEEDED;
  /// Asked for every request to send that is carried out.
  std::function<ibv_wc_status(const ibv_send_wr&)> status_of;
  /// Of a broken pair, completions of receives come before those of sends.
  bool flushes_receives_first = false;

  // What has been done:
  std::size_t registered_bytes = 0;
  int objects = 0;  ///< that have not been given back
  int sends_posted = 0;
  int sends_signaled = 0;
  int sends_inline = 0;
  int reads = 0;
  int pairs_stopped = 0;  ///< brought to their error state
  int polls = 0;
  int receives_posted = 0;
  int registrations = 0;
  int refused_registrations = 0;
  std::vector<int> descriptors;  ///< of open devices and channels

  /// The oldest request that waits, of any pair. False: there is none.
  bool carry_out();
  /// The oldest that waits of that pair.
  bool carry_out_of(std::uint32_t pair);
  /// The pairs of all requests that wait, the oldest first.
  [[nodiscard]] std::vector<std::uint32_t> waiting() const;
  void carry_out_all() {
    while (carry_out()) continue;
  }
  /// What the other end of that pair may do.
  [[nodiscard]] unsigned access_of(std::uint32_t pair) const;
  /// An event of that port, which every open device tells.
  void raise(ibv_event_type type, int port);
  /// One of that pair, or of its completion queue.
  void raise_of_pair(ibv_event_type type, std::uint32_t pair);
  /// As if this pair's peer had sent that: an immediate behind so many bytes that nobody wrote.
  void say_to(std::uint32_t pair, std::uint32_t immediate, std::uint32_t bytes);

  struct Pair;
  struct Queue;

 private:
  struct Pending {
    Pair* pair = nullptr;
    ibv_send_wr request{};
    ibv_sge piece{};                 ///< its only one
    std::vector<std::byte> bytes{};  ///< of an inline one
  };

  static FakeVerbs& self();
  void carry_out(Pending pending);
  void make_device_calls();
  void make_questions();
  void make_memory_calls();
  void make_queue_calls();
  void make_pair_calls();
  void make_transfer_calls();
  int post_send(ibv_qp* seen, ibv_send_wr* request);
  int post_recv(ibv_qp* seen, const ibv_recv_wr* requests);
  /// Registered memory, by its local key.
  struct Region {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    int access = 0;
  };
  [[nodiscard]] bool reaches(std::uint32_t key, std::uintptr_t at, std::size_t bytes, int access) const;
  [[nodiscard]] ibv_wc_status move(const Pending& pending);
  [[nodiscard]] ibv_wc_status write(const Pending& pending, Pair& other);
  [[nodiscard]] bool receive(Pair& pair, std::uint32_t immediate, std::uint32_t bytes);
  int make_event();
  static void tell(int descriptor);
  void close_event(int descriptor);
  void raise(const ibv_async_event& event);
  static void complete(Queue& queue, const ibv_wc& completion);
  void break_pair(Pair& pair, const Pending& cause, ibv_wc_status status);
  /// What it had under way is flushed, behind that failure if there is one.
  void flush(Pair& pair, const ibv_wc* failed);
  [[nodiscard]] Pair* pair_of(std::uint32_t number) const;

  verbs::Library library_{};
  std::deque<Pending> pending_;
  std::vector<Pair*> pairs_;
  std::map<std::uint32_t, Region> regions_;
  std::uint32_t next_key_ = 1;
  std::deque<ibv_async_event> events_;
  std::uint32_t next_number_ = 100;
  std::vector<int> event_descriptors_;    ///< of open devices
  const void* unacknowledged_ = nullptr;  ///< whose event was told
};

}  // namespace cohort::test
