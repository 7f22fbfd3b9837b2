// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/data_connections.h>

#include <utility>

namespace cohort {

DataConnections::DataConnections(Engine& engine, Membership& membership, DataConnections* root,
                                 const GroupPlace* place)
    : engine_(engine), membership_(membership), root_(root), place_(place) {
  if (root_ == nullptr) acceptor_.emplace(membership);
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (peer != membership_.rank) this->root().acceptor_->admit(rank_in_root(peer), number(peer));
}

DataConnections::~DataConnections() {
  if (root_ == nullptr) return;
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (peer != membership_.rank) root_->acceptor_->forget(rank_in_root(peer), number(peer));
}

DataConnections::Making::Making(DataConnections& root, std::span<const Rank> ranks) noexcept
    : root_(root), ranks_(ranks) {
  for (const Rank rank : ranks_)
    if (rank != root_.membership_.rank) root_.acceptor_->begin_making(rank);
}

DataConnections::Making::~Making() {
  for (const Rank rank : ranks_)
    if (rank != root_.membership_.rank) root_.acceptor_->end_making(rank);
}

void DataConnections::start(TaskScope& services) {
  if (acceptor_ && !std::exchange(is_accepting_, true)) services.spawn(acceptor_->serve());
}

void DataConnections::shutdown() noexcept {
  for (Rank peer = 0; peer < membership_.size; ++peer)
    if (peer != membership_.rank) root().acceptor_->refuse(rank_in_root(peer), number(peer));
}

Task<Socket> DataConnections::open(Rank peer, Lane lane) {
  return membership_.rank > peer ? call(peer, lane) : wait_for_call(peer, lane);
}

Task<Socket> DataConnections::call(Rank peer, Lane lane) {
  const Membership& joined = root().membership_;
  const Path path{number(membership_.rank), lane};
  CancelScope* around = co_await current_scope();
  try {
    co_return co_await connect_data(engine_, joined, rank_in_root(peer), path);
  } catch (const Error& error) {
    const bool is_of_call = around == nullptr || !around->is_cancelled();  // else the cause of the scope
    throw is_of_call && error.culprit() ? error.with_culprit(peer) : error;
  }
}

Task<Socket> DataConnections::wait_for_call(Rank peer, Lane lane) {
  return root().acceptor_->take(rank_in_root(peer), {number(peer), lane});
}

}  // namespace cohort
