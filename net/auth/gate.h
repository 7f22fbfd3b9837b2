// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/immovable.h>
#include <cohort/engine/io/socket.h>
#include <cohort/net/auth/authenticated_socket.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace cohort {

/// A connection whose other end has proven who it is.
struct Visitor {
  Visitor(Identity identity, Socket connection, std::string address)
      : peer(identity), socket(std::move(connection)), where(std::move(address)) {}

  Identity peer;
  Socket socket;
  std::string where;
};

/// Takes the connections of one listener, and lets those through that know the secret. Nobody else can
/// disturb it.
///
/// Before it has proven itself, a connection costs one place and one fixed buffer, for kAuthenticationTime.
/// There is a place for every rank of the world, so that ranks which all come at once do not drive each other
/// away, and kPlacesBeside more.
///
/// When all are taken, the oldest connection of whoever holds most of them gives way, so that idle strangers
/// cannot keep ranks out; a rank that had to give way comes again.
///
/// Once a connection was told that it is taken, it keeps its place. A newcomer costs a look at each place.
///
/// Threads: the engine's. Lifetime: the references and the handler outlive serve().
class Gate : Immovable {
 public:
  static constexpr std::size_t kPlacesBeside = 64;
  static constexpr std::size_t kLeastBeside = 8;

  class Handler {
   public:
    /// Whether it wants that connection, of which it is given nothing else. Others are refused.
    [[nodiscard]] virtual bool wants(const Identity&) const noexcept { return true; }
    /// Takes over; may stay for as long as it likes, until serve()'s scope is cancelled. What it throws ends
    /// serve().
    virtual Task<> welcome(Visitor visitor) = 0;
    /// A connection was not taken. It is closed already, and logged.
    virtual void on_refusal(const Refusal& refusal, const std::optional<Identity>& claimed) noexcept;

   protected:
    ~Handler() = default;
  };

  /// Whether connections ask for a secret before the handshake: secret_handover.h.
  enum class Handover : std::uint8_t { none, secret_is_given, secret_is_made_here };

  Gate(Listener& listener, const Secret& secret, const Identity& mine, Service service, Handler& handler,
       Handover handover = Handover::none)
      : listener_(listener),
        secret_(secret),
        mine_(mine),
        service_(service),
        handler_(handler),
        handover_(handover) {}

  /// Until its scope is cancelled. Throws that cause, or SystemError when listening itself fails.
  Task<> serve();

  /// Connections that may be proving themselves at a time.
  [[nodiscard]] std::size_t most_pending() const noexcept { return mine_.world + beside_; }
  /// Where this process may not have as many descriptors: so many places beside the ranks', if that is fewer,
  /// but at least kLeastBeside.
  void limit_places_beside(std::size_t most) noexcept { beside_ = std::clamp(most, kLeastBeside, beside_); }

 private:
  /// A connection that has not proven itself; lives in the frame of its task.
  class Pending : Immovable {
   public:
    Pending(Gate& gate, CancelScope* around, std::string whose);
    ~Pending();

    /// Lets go of the place; again: nothing.
    void leave() noexcept;

    CancelScope scope;
    const std::string source;  ///< who is answerable: a host, or on this host a process
    std::size_t& of_source;    ///< places that it holds

   private:
    Gate& gate_;
  };

  Task<> accept_all(TaskScope& visitors);
  Task<> admit(Socket socket);
  Task<Admission> examine(Socket& socket, const std::string& where);
  Task<Admission> authenticate(Socket& socket, std::string where);
  /// Makes room, and gives the count of the places that the source holds.
  [[nodiscard]] std::size_t& make_room_for(const std::string& source);
  void refuse(const Refusal& refusal, const std::optional<Identity>& claimed) noexcept;

  Listener& listener_;
  const Secret& secret_;
  const Identity mine_;
  const Service service_;
  Handler& handler_;
  const Handover handover_;
  std::size_t beside_ = kPlacesBeside;
  std::vector<Pending*> pending_;              ///< oldest first
  std::map<std::string, std::size_t> places_;  ///< that a source holds; not those that hold none
};

}  // namespace cohort
