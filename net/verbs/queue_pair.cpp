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

constexpr std::uint32_t kMagic = 0x34627663;  // "cvb4"
constexpr std::uint32_t kMost24Bits = (1U << 24) - 1;

/// A header and a little more goes with the request, so that the device fetches nothing.
constexpr std::size_t kWantedInlineBytes = 220;
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
  return reader.get<std::uint32_t>() & kMost24Bits;
}

}  // namespace

std::array<std::byte, EndPoint::kBytes> encode(const EndPoint& end) noexcept {
  std::array<std::byte, EndPoint::kBytes> bytes{};
  wire::Writer writer(bytes);
  writer.put(kMagic);
  writer.put(static_cast<std::uint32_t>(kRingBytes));
  writer.put(end.number);
  writer.put(end.packet);
  writer.put(end.ring);
  writer.put(end.key);
  writer.put(end.lid);
  writer.put(static_cast<std::uint16_t>(end.mtu));
  writer.put(std::as_bytes(std::span(end.gid.raw)));
  writer.put(end.reads);
  return bytes;
}

EndPoint decode(std::span<const std::byte, EndPoint::kBytes> bytes) {
  wire::Reader reader(bytes);
  const auto magic = reader.get<std::uint32_t>();
  const auto ring_bytes = reader.get<std::uint32_t>();
  EndPoint end;
  end.number = reader.get<std::uint32_t>();
  end.packet = reader.get<std::uint32_t>();
  end.ring = reader.get<std::uint64_t>();
  end.key = reader.get<std::uint32_t>();
  end.lid = reader.get<std::uint16_t>();
  const auto mtu = reader.get<std::uint16_t>();
  end.mtu = static_cast<ibv_mtu>(mtu);
  reader.get(std::as_writable_bytes(std::span(end.gid.raw)));
  end.reads = reader.get<std::uint16_t>();
  const bool is_sound = magic == kMagic && ring_bytes == kRingBytes && end.number <= kMost24Bits &&
                        end.packet <= kMost24Bits && mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 &&
                        end.reads >= 1 && end.reads <= kMostLoans;
  if (!is_sound)
    throw Error(
        ErrorKind::ProtocolError,
        fmt::format("the other end of an RDMA connection says what makes no sense (magic {:#x}, ring of {} "
                    "bytes, queue pair {}, packet {}, MTU {}, {} reads): run the same build of cohort on all "
                    "ranks",
                    magic, ring_bytes, end.number, end.packet, mtu, end.reads));
  return end;
}

QueuePair::QueuePair(Device& device, DeviceUser& user, int sends, int receives)
    : device_(device),
      library_(device.library()),
      first_packet_(random_packet()),
      completions_(device.make_completion_queue(sends + receives, user)) {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = completions_.get();
  attributes.recv_cq = completions_.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.qp_context = &user;
  for (const std::size_t inline_bytes : {kWantedInlineBytes, std::size_t{0}}) {
    attributes.cap = {static_cast<std::uint32_t>(sends), static_cast<std::uint32_t>(receives), 1, 1,
                      static_cast<std::uint32_t>(inline_bytes)};
    pair_ = {library_.create_qp(device.domain(), &attributes), Release{&library_}};
    if (pair_) break;
  }
  if (const int error_number = errno; !pair_)
    throw system_error(error_number,
                       fmt::format("{}: making a queue pair of {} sends and {} receives; it has {} at most",
                                   device.port().device, sends, receives, device.limits().max_qp));
  inline_bytes_ = attributes.cap.max_inline_data;
  ibv_qp_attr initial{};
  initial.qp_state = IBV_QPS_INIT;
  initial.port_num = device.port().number;
  initial.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
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

void QueuePair::connect(const EndPoint& theirs) {
  most_reads_ = static_cast<std::uint32_t>(
      std::clamp(device_.limits().max_qp_init_rd_atom, 1, static_cast<int>(theirs.reads)));
  ibv_qp_attr receiving{};
  receiving.qp_state = IBV_QPS_RTR;
  receiving.path_mtu = std::min(theirs.mtu, device_.port().mtu);
  receiving.dest_qp_num = theirs.number;
  receiving.rq_psn = theirs.packet;
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

int QueuePair::poll(std::span<ibv_wc> completions) noexcept {
  return library_.poll_cq(completions_.get(), static_cast<int>(completions.size()), completions.data());
}

int QueuePair::ask_for_event() noexcept { return library_.req_notify_cq(completions_.get(), 0); }

}  // namespace cohort::verbs
