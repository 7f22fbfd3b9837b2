// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/auth/gate.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/net/auth/secret_handover.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

/// The host of a TCP peer; the process at the other end of a Unix socket.
std::string source_of(const Socket& socket) {
  if (socket.local_address().is_unix()) return fmt::format("pid {}", socket.peer_credentials().process);
  return socket.remote_address().with_any_port().to_string();
}

}  // namespace

void Gate::Handler::on_refusal(const Refusal&, const std::optional<Identity>&) noexcept {}

Gate::Pending::Pending(Gate& gate, CancelScope* around, std::string whose)
    : scope(around), source(std::move(whose)), of_source(gate.make_room_for(source)), gate_(gate) {
  gate_.pending_.push_back(this);
  ++of_source;
}

Gate::Pending::~Pending() { leave(); }

void Gate::Pending::leave() noexcept {
  if (std::erase(gate_.pending_, this) != 0 && --of_source == 0) gate_.places_.erase(source);
}

Task<> Gate::serve() {
  CancelScope* around = co_await current_scope();
  TaskScope visitors(around);
  visitors.spawn(accept_all(visitors));
  co_await visitors.join();
}

Task<> Gate::accept_all(TaskScope& visitors) {
  for (;;) {
    Socket socket = co_await listener_.accept();
    visitors.spawn(admit(std::move(socket)));
  }
}

Task<> Gate::admit(Socket socket) {
  CancelScope* around = co_await current_scope();
  std::string where;
  Admission admission;
  try {
    where = address_for_people(socket);
    Admission outcome = co_await examine(socket, where);
    admission = std::move(outcome);
  } catch (const Error& error) {
    if (around->is_cancelled())
      throw;  // not an eviction, and not a connection that was gone before we looked
    admission.refusal = Refusal{RefusalReason::truncated, false, std::string(error.message())};
  }
  if (!admission.refusal && !handler_.wants(*admission.peer))
    admission.refusal =
        Refusal{RefusalReason::wrong_purpose, true,
                fmt::format("rank {} at {} (pid {}) connects for its group {}, which is over here",
                            admission.peer->rank, where, admission.peer->pid, admission.peer->group)};
  // It holds no place any more, so nothing can come between what it is told and what is done.
  if (!admission.refusal && !tell_taken(socket))
    admission.refusal = Refusal{RefusalReason::truncated, false, fmt::format("{} has left", where)};
  if (admission.refusal) {
    socket = Socket();
    refuse(*admission.refusal, admission.claimed);
    co_return;
  }
  Visitor visitor(*admission.peer, std::move(socket), std::move(where));
  co_await handler_.welcome(std::move(visitor));
}

/// In a place of its own, which it may lose.
Task<Admission> Gate::examine(Socket& socket, const std::string& where) {
  CancelScope* around = co_await current_scope();
  Pending pending(*this, around, source_of(socket));
  Task<Admission> authentication = authenticate(socket, where);
  Task<Admission> evictable = with_scope(pending.scope, std::move(authentication));
  co_return co_await evictable;
}

Task<Admission> Gate::authenticate(Socket& socket, std::string where) {
  Admission refused;
  if (!is_own_user(socket)) {
    const PeerCredentials who = socket.peer_credentials();
    refused.refusal =
        Refusal{RefusalReason::bad_mac, false,
                fmt::format("process {} of user {} tried to join at {}: only the user of this process may",
                            who.process, who.user, where)};
    co_return refused;
  }
  if (handover_ != Handover::none) {
    const bool is_made_here = handover_ == Handover::secret_is_made_here;
    const std::optional<Refusal> refusal = co_await offer_secret(socket, secret_, is_made_here, where);
    refused.refusal = refusal;
    if (refusal) co_return refused;
  }
  co_return co_await authenticate_as_server(socket, secret_, mine_, service_, std::move(where));
}

std::size_t& Gate::make_room_for(const std::string& source) {
  if (pending_.size() < most_pending()) return places_[source];
  const auto most = std::ranges::max_element(
      pending_, {}, [](const Pending* pending) { return pending->of_source; });  // the oldest of equals
  Pending& loser = **most;
  loser.leave();
  loser.scope.cancel(
      Error(ErrorKind::ResourceLimit,
            fmt::format("{} had to give way: {} connections that have not proven who they are is the most",
                        loser.source, most_pending())));
  return places_[source];
}

void Gate::refuse(const Refusal& refusal, const std::optional<Identity>& claimed) noexcept {
  log(LogLevel::debug, "connection refused ({}): {}", to_string(refusal.reason), refusal.text);
  handler_.on_refusal(refusal, claimed);
}

}  // namespace cohort
