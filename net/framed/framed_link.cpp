// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/framed_link.h>

#include <cohort/engine/assert.h>
#include <cohort/engine/failure.h>
#include <cohort/engine/when_all.h>

namespace cohort::framed {

using Kind = LinkOperation::Kind;

FramedLink::FramedLink(Engine& engine, std::unique_ptr<ByteStream> stream, LinkOwner& host, Rank self,
                       Rank peer, Lane lane, std::string_view transport)
    : Link(peer),
      transport_(transport),
      connection_(engine, std::move(stream), host, self, peer, lane),
      writer_(connection_),
      reader_(connection_, writer_) {}

FramedLink::~FramedLink() {
  COHORT_ASSERT(!reader_.is_awaited() && !writer_.is_awaited(),
                "a link to rank {} ended with operations on it", peer());
}

bool FramedLink::start(LinkOperation& operation) {
  switch (operation.request().kind) {
    case Kind::wait: return reader_.start_wait(operation);
    case Kind::recv:
    case Kind::recv_reduce: return reader_.start_receive(operation);
    default: return writer_.start(operation);
  }
}

void FramedLink::cancel(LinkOperation& operation) noexcept {
  const bool is_intact = writer_.holds(operation) ? writer_.forget(operation) : reader_.forget(operation);
  if (!is_intact) {
    connection_.host.gives_up(peer());
    connection_.close();
  }
  operation.finish();
}

void FramedLink::operation_started() noexcept {
  try {
    reader_.start_collective();
  } catch (const Error& error) {
    connection_.fail(error);
  }
}

Task<> FramedLink::serve() {
  connection_.engine.add_source(writer_);
  connection_.engine.add_source(reader_);
  co_await when_all(serve_half(reader_.run()), serve_half(writer_.run()));
  reader_.unlink();
  writer_.unlink();
}

Task<> FramedLink::serve_half(Task<> half) {
  const CancelScope* const scope = co_await current_scope();
  const auto fail = [&](const Error& error) {
    if (scope == nullptr || !scope->is_cancelled()) connection_.fail(error);
  };
  try {
    co_await half;
  } catch (...) {
    fail(as_error(std::current_exception()));
  }
  connection_.close();
}

}  // namespace cohort::framed
