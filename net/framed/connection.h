// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/tuning.h>
#include <cohort/net/framed/byte_stream.h>
#include <cohort/net/link.h>
#include <cohort/net/link_owner.h>
#include <cohort/notify/notify.h>

#include <memory>

namespace cohort::framed {

/// What the two halves of a link share: the stream, who is at its ends, and whether it still works.
struct Connection : Immovable {
  Connection(Engine& on_engine, std::unique_ptr<ByteStream> connected, LinkOwner& link_host, Rank own,
             Rank other, Lane path) noexcept
      : engine(on_engine),
        owned_stream(std::move(connected)),
        stream(*owned_stream),
        host(link_host),
        self(own),
        peer(other),
        lane(path) {}

  /// Ends both directions and wakes both halves, which then end.
  void close() noexcept {
    is_open = false;
    stream.shutdown();
    wake(reader_work);
    wake(writer_work);
  }

  /// Whether whoever starts an operation may enter the kernel for it at once, to move so many bytes; else it
  /// is done in a turn of the loop. A call takes as long as to copy tuning::sockets::kSystemCall.
  [[nodiscard]] bool may_call_for(std::size_t bytes) noexcept {
    return engine.pace().may_do(tuning::sockets::kSystemCall + bytes);
  }

  static void wake(Notify& half) noexcept {
    if (half.untaken_posts() == 0) half.post();
  }

  /// Closes, and tells the owner why. Only the first failure of an open connection counts.
  void fail(const Error& error) noexcept {
    if (!is_open) return;
    close();
    host.link_failed(peer, blamed_on(error, self, peer));
  }

  Engine& engine;
  const std::unique_ptr<ByteStream> owned_stream;
  ByteStream& stream;
  LinkOwner& host;
  const Rank self;
  const Rank peer;
  const Lane lane;
  bool is_open = true;
  Notify reader_work;
  Notify writer_work;
  /// The get whose request has gone out and whose reply has not come whole.
  LinkOperation* get = nullptr;
};

}  // namespace cohort::framed
