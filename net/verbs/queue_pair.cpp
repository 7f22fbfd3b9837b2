// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/queue_pair.h>

#include <cohort/engine/error.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/auth/wire.h>
#include <cohort/net/verbs/ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace cohort::verbs {
namespace {

/// Until a message is sent again for which no receive stood ready: 0.64 ms. Credits see to it that none is.
constexpr std::uint8_t kNotReadyTimer = 12;
constexpr std::uint8_t kNotReadyRetries = 6;
constexpr std::uint8_t kHops = 64;

/// Requests to receive that all queue pairs post, since none has memory or a number, and libraries only read
/// them: made once, as two kilobytes written in each turn of a loop would be what polling costs.
class Receives {
 public:
  constexpr Receives() noexcept {
    for (std::size_t i = 0; i + 1 < kReceives; ++i) requests_[i].next = &requests_[i + 1];
  }
  /// A list of so many.
  [[nodiscard]] ibv_recv_wr* last(std::uint32_t count) noexcept { return &requests_[kReceives - count]; }

 private:
  std::array<ibv_recv_wr, kReceives> requests_{};
};
constinit Receives unfilled;

std::uint32_t random_packet() {
  std::array<std::byte, 4> bytes{};
  crypto::fill_random(bytes);
  wire::Reader reader(bytes);
  return reader.get<std::uint32_t>() & EndPoint::kMostNumber;
}

}  // namespace

QueuePair::QueuePair(Device& device, DeviceUser& user, ibv_cq* completions, const Use& use)
    : device_(device), library_(device.library()), first_packet_(random_packet()) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = completions;
  attributes.recv_cq = completions;
  attributes.qp_type = IBV_QPT_RC;
  attributes.qp_context = &user;
  for (const std::uint32_t inline_bytes : {use.inline_bytes, 0U}) {
    attributes.cap = {use.sends, use.receives, 1, 1, inline_bytes};
    pair_ = {library_.create_qp(device.domain(), &attributes), Release{&library_}};
    if (pair_) break;
  }
  if (const int error_number = errno; !pair_)
    throw system_error(
        error_number,
        fmt::format("{}: making a queue pair of {} sends and {} receives; it has {} at most, and "
                    "each connection takes {} (COHORT_IB_QPS_PER_CONNECTION)",
                    device.port().device, use.sends, use.receives, device.limits().max_qp,
                    device.settings().pairs));
  inline_bytes_ = attributes.cap.max_inline_data;
  ibv_qp_attr initial{};
  initial.qp_state = IBV_QPS_INIT;
  initial.port_num = device.port().number;
  initial.qp_access_flags = use.access;
  change(initial, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

void QueuePair::change(ibv_qp_attr& attributes, int mask, std::string_view into) {
  const int error = library_.modify_qp(pair_.get(), &attributes, mask);
  if (error == 0) return;
  throw Error(
      ErrorKind::LinkFault,
      fmt::format("{}: its queue pair {} cannot be brought to {}: {}; are both ends in one network, and is "
                  "COHORT_IB_GID_INDEX right?",
                  device_.port().describe(), number(), into, std::generic_category().message(error)));
}

ibv_ah_attr QueuePair::path_to(const EndPoint& theirs) const noexcept {
  const Port& port = device_.port();
  ibv_ah_attr path{};
  path.port_num = port.number;
  path.sl = device_.settings().service_level;
  path.dlid = theirs.lid;
  path.is_global = port.is_ethernet ? 1 : 0;
  path.grh.dgid = theirs.gid;
  path.grh.sgid_index = static_cast<std::uint8_t>(port.gid.gid_index);
  path.grh.hop_limit = kHops;
  path.grh.traffic_class = device_.settings().traffic_class;
  return path;
}

std::uint16_t QueuePair::reads_served() const noexcept {
  return static_cast<std::uint16_t>(std::clamp(device_.limits().max_qp_rd_atom, 1, int{kMostLoans}));
}

void QueuePair::connect(const EndPoint& theirs, const EndPoint::Pair& pair) {
  most_reads_ = static_cast<std::uint32_t>(
      std::clamp(device_.limits().max_qp_init_rd_atom, 1, static_cast<int>(theirs.reads)));
  ibv_qp_attr receiving{};
  receiving.qp_state = IBV_QPS_RTR;
  receiving.path_mtu = std::min(theirs.mtu, device_.port().mtu);
  receiving.dest_qp_num = pair.number;
  receiving.rq_psn = pair.packet;
  receiving.max_dest_rd_atomic = static_cast<std::uint8_t>(reads_served());
  receiving.min_rnr_timer = kNotReadyTimer;
  receiving.ah_attr = path_to(theirs);
  change(receiving,
         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
         "RTR");
  ibv_qp_attr sending{};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = device_.settings().timeout;
  sending.retry_cnt = device_.settings().retry_count;
  sending.rnr_retry = kNotReadyRetries;
  sending.sq_psn = first_packet_;
  sending.max_rd_atomic = static_cast<std::uint8_t>(most_reads_);
  change(sending,
         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "RTS");
}

void QueuePair::stop() noexcept {
  ibv_qp_attr stopped{};
  stopped.qp_state = IBV_QPS_ERR;
  (void)library_.modify_qp(pair_.get(), &stopped, IBV_QP_STATE);  // who refuses it is destroyed all the same
}

int QueuePair::post_send(ibv_send_wr& request) noexcept {
  ibv_send_wr* bad = nullptr;
  return library_.post_send(pair_.get(), &request, &bad);
}

int QueuePair::post_receives(std::uint32_t count) noexcept {
  if (count == 0) return 0;
  ibv_recv_wr* bad = nullptr;
  return library_.post_recv(pair_.get(), unfilled.last(count), &bad);
}

}  // namespace cohort::verbs
