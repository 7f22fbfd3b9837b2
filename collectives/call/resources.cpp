// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/call/resources.h>

#include <cohort/engine/assert.h>
#include <cohort/net/shm/shm_link.h>
#include <cohort/net/tcp/tcp_link.h>

#include <fmt/format.h>

#include <cstdlib>

namespace cohort {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

std::string_view to_string(Transport transport) noexcept {
  return transport == Transport::shm ? "shm" : "tcp";
}

Resources::Resources(Engine& engine, Membership& membership, LinkHost& host, Transport transport,
                     std::size_t buffer_bytes, std::size_t heap_bytes)
    : engine_(engine),
      membership_(membership),
      host_(host),
      transport_(transport),
      buffer_bytes_(buffer_bytes),
      links_(static_cast<std::size_t>(membership.size) * kMostLanes) {
  if (transport == Transport::shm) {
    group_ = std::make_unique<host::HostGroup>(engine, membership, buffer_bytes, heap_bytes);
    return;
  }
  acceptor_ = std::make_unique<DataAcceptor>(membership);
  ccl_in_ = allocate(buffer_bytes);
  ccl_out_ = allocate(buffer_bytes);
}

Resources::~Resources() = default;

Resources::Buffer Resources::allocate(std::size_t bytes) {
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
  if (memory == nullptr)
    throw Error(ErrorKind::ResourceLimit,
                fmt::format("no memory for a buffer of {} bytes; lower COHORT_BUFFSIZE", bytes));
  return Buffer(memory);
}

void Resources::start(TaskScope& services) {
  services_ = &services;
  if (group_ && membership_.size > 1) services.spawn(group_->listen());
  if (acceptor_ && membership_.size > 1) services.spawn(acceptor_->serve());
}

Task<> Resources::provide(ResourceTag tag, const Needs& needs) {
  if (provided_.contains(tag)) co_return;
  if (needs.scratch_bytes > scratch_bytes_) {
    scratch_ = allocate(needs.scratch_bytes);
    scratch_bytes_ = needs.scratch_bytes;
  }
  for (Lane lane = 0; lane < needs.lanes; ++lane) {
    for (Rank distance = 1; distance < membership_.size; ++distance) {
      const bool is_neighbour = distance == 1 || distance + 1 == membership_.size;
      if (!needs.links_to_all && !(needs.links_to_neighbours && is_neighbour)) continue;
      co_await provide_link((membership_.rank + distance) % membership_.size, lane);
    }
  }
  provided_.emplace(tag, needs);
}

/// The higher rank connects, the lower one accepts: both run the same schedule, so both come here.
Task<> Resources::provide_link(Rank peer, Lane lane) {
  std::unique_ptr<Link>& link = place(peer, lane);
  if (link) co_return;
  if (group_) {
    link = std::make_unique<shm::ShmLink>(*group_, host_, peer, lane);
    co_return;
  }
  Socket socket;
  if (membership_.rank > peer)
    socket = co_await connect_data(engine_, membership_, peer, lane);
  else
    socket = co_await acceptor_->take(peer, lane);
  auto tcp_link =
      std::make_unique<tcp::TcpLink>(engine_, std::move(socket), host_, membership_.rank, peer, lane);
  tcp_links_.push_back(tcp_link.get());
  services_->spawn(tcp_link->serve());
  link = std::move(tcp_link);
}

Link& Resources::link(Rank peer, Lane lane) noexcept {
  Link* found = place(peer, lane).get();
  COHORT_ASSERT(found != nullptr, "the schedule uses a link to rank {} lane {} that it did not ask for", peer,
                lane);
  return *found;
}

void Resources::bind(WindowTable& windows) noexcept {
  std::byte* in = group_ ? group_->own().at(group_->layout().ccl_in()) : ccl_in_.get();
  std::byte* out = group_ ? group_->own().at(group_->layout().ccl_out()) : ccl_out_.get();
  windows.bind(WindowId::ccl_in, in, buffer_bytes_);
  windows.bind(WindowId::ccl_out, out, buffer_bytes_);
  windows.bind(WindowId::scratch, scratch_.get(), scratch_bytes_);
}

void Resources::operation_started() noexcept {
  for (tcp::TcpLink* link : tcp_links_) link->operation_started();
}

bool Resources::is_cut_off(Rank peer) const noexcept {
  return std::any_of(tcp_links_.begin(), tcp_links_.end(),
                     [peer](const tcp::TcpLink* link) { return link->peer() == peer && link->is_cut_off(); });
}

void Resources::shutdown() noexcept {
  for (tcp::TcpLink* link : tcp_links_) link->shutdown();
}

}  // namespace cohort
