// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/net/data_connections.h>
#include <cohort/net/framed/framed_link.h>
#include <cohort/net/framed/stream_packets.h>

#include <vector>

namespace cohort::framed {

/// What transports have in common whose links are framed streams, each made over a data connection.
class FramedTransport : public Transport {
 public:
  explicit FramedTransport(const TransportUse& use) : use_(use) {}

  void start(TaskScope& services) override;
  [[nodiscard]] Task<std::unique_ptr<Link>> connect(Rank peer, Lane lane) override;
  [[nodiscard]] std::unique_ptr<PacketChannel> open_packets(Rank peer, PacketHandler& handler,
                                                            TaskScope& services) override;
  [[nodiscard]] bool hears_of_collectives() const noexcept override { return true; }
  void collective_started() noexcept override;
  [[nodiscard]] bool is_cut_off(Rank peer) const noexcept override;
  [[nodiscard]] Task<> until_sent() override;
  void shutdown() noexcept override;

 protected:
  [[nodiscard]] const TransportUse& use() const noexcept { return use_; }

 private:
  [[nodiscard]] virtual Task<std::unique_ptr<FramedLink>> make_link(Rank peer, Lane lane) = 0;
  /// For large messages to that peer, which makes the same; null: they go in pieces.
  [[nodiscard]] virtual std::unique_ptr<BulkStream> make_bulk(Rank) { return nullptr; }
  // Of packets, to that peer and from it:
  [[nodiscard]] virtual Task<std::unique_ptr<ByteStream>> call_for_packets(Rank peer) = 0;
  [[nodiscard]] virtual Task<std::unique_ptr<ByteStream>> wait_for_packets(Rank peer) = 0;

  const TransportUse use_;
  TaskScope* services_ = nullptr;
  std::vector<FramedLink*> links_;
  std::vector<StreamPackets*> packets_;
  unsigned looked_at_ = 0;  ///< of these, by the loop
};

}  // namespace cohort::framed
