// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/asio/asio_headers.h>
#include <cohort/bindings/session/request.h>
#include <cohort/bindings/session/shared_loop.h>
#include <cohort/net/rank.h>

#include <exception>
#include <memory>
#include <utility>

namespace cohort::bindings {

/// What a request came to, without the communicator that the request keeps.
struct Outcome {
  std::exception_ptr failure;                  ///< null: none
  Rank from = 0;                               ///< of a message
  std::shared_ptr<SharedCommunicator> made{};  ///< of joining or making a group; null: none for this rank
};

/// Starts the request for a handler of Asio's: complete(handler, outcome) is posted to the handler's
/// executor, or else to `fallback`, once it is over, and its cancellation slot cancels it. `fallback` has
/// work until then.
template <class Handler, class Complete>
void start_for_asio(SharedLoop& loop, const std::shared_ptr<Request>& request,
                    const asio::any_io_executor& fallback, Handler handler, Complete complete) {
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected())
    slot.assign([asked = std::weak_ptr<Request>(request)](asio::cancellation_type) {
      if (const auto known = asked.lock()) known->cancel();
    });
  auto executor = asio::prefer(asio::get_associated_executor(handler, fallback),
                               asio::execution::outstanding_work_t::tracked);
  // What tells has to be copyable, and may be anywhere: all that is the program's is moved out of it, to end
  // on its own executor.
  auto waiting = std::make_shared<Handler>(std::move(handler));
  request->when_over([waiting = std::move(waiting), executor = std::move(executor), slot,
                      complete = std::move(complete)](Request& over) mutable {
    asio::post(executor, [waiting = std::move(*waiting), slot, complete = std::move(complete),
                          over = over.shared_from_this()]() mutable {
      if (slot.is_connected()) slot.clear();
      Outcome outcome{over->failure(), over->envelope.from, std::move(over->made)};
      over.reset();  // a handler may end the session
      Handler one = std::move(waiting);
      complete(std::move(one), std::move(outcome));
    });
  });
  loop.start(request);
}

}  // namespace cohort::bindings
