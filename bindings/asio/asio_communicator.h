// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/asio/asio_request.h>
#include <cohort/bindings/session/session.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

/// A communicator whose calls take completion tokens of Asio's:
///
///   co_await comm.async_all_reduce(grad, ReduceOp::sum, asio::use_awaitable);
///
/// Handlers get an std::exception_ptr first: null, or an Error, which use_awaitable and use_future throw.
/// Calls start where they are initiated, in that order, which has to be the same on all ranks; any number may
/// be under way. Buffers belong to a call until it completes, counts too.
///
/// Cancelling one, by whatever kind, gives the communicator up, on all ranks, once it has begun: the buffers
/// are free when the handler runs.
///
/// A copy is another hold on the same; the end of the last one closes it. Threads: any. The context of its
/// executor runs until all has completed.
class AsioCommunicator {
 public:
  /// None: its calls complete with InvalidArgument.
  AsioCommunicator() = default;

  [[nodiscard]] Rank rank() const noexcept { return comm_ ? comm_->rank() : 0; }
  [[nodiscard]] Rank size() const noexcept { return comm_ ? comm_->size() : 0; }
  [[nodiscard]] std::string_view name() const noexcept { return comm_ ? comm_->name() : std::string_view(); }
  [[nodiscard]] explicit operator bool() const noexcept { return comm_ != nullptr; }
  /// For all that has no completion: blocking calls, memory, explanations. Null: there is none.
  [[nodiscard]] const std::shared_ptr<bindings::SharedCommunicator>& shared() const noexcept { return comm_; }
  /// Gives up: calls of all ranks fail with PeerAborted and this reason.
  void abort(const std::string& reason) {
    if (comm_) comm_->abort(reason);
  }

  /// The same with another time limit, or algorithm, for the calls that are made on it.
  [[nodiscard]] AsioCommunicator with(bindings::CallSettings settings) const {
    AsioCommunicator other = *this;
    other.settings_ = std::move(settings);
    return other;
  }

  /// Any call, with types known at run time only. Completes with void(std::exception_ptr).
  template <class Token>
  auto async_call(bindings::AnyCall call, Token&& token) {
    return asio::async_initiate<Token, void(std::exception_ptr)>(
        [](auto handler, AsioCommunicator self, bindings::AnyCall what) {
          const auto request = self.comm_ ? self.comm_->prepare(std::move(what), self.settings_) : nullptr;
          self.start(request, std::move(handler), [](auto&& of, bindings::Outcome&& outcome) {
            std::move(of)(std::move(outcome.failure));
          });
        },
        token, *this, std::move(call));
  }

  template <class Token>
  auto async_barrier(Token&& token) {
    return async_call(bindings::CollectiveCall{operator_of<Barrier>}, std::forward<Token>(token));
  }

  // Shapes are those of Communicator's calls.

  template <class Data, class Token>
  auto async_broadcast(Data&& data, Rank root, Token&& token) {
    const detail::Output to = detail::output_of<Data>(data);
    return collective(operator_of<Broadcast>, {.type = to.type, .root = root, .out = to.bytes}, token);
  }
  /// Elements of any trivially copyable type, or one such value.
  template <class Data, class Token>
  auto async_broadcast_bytes(Data&& data, Rank root, Token&& token) {
    const detail::Output to = detail::output_bytes_of<Data>(data);
    return collective(operator_of<Broadcast>, {.type = to.type, .root = root, .out = to.bytes}, token);
  }

  template <class In, class Out, class Token>
  auto async_all_reduce(In&& in, Out&& out, Combination op, Token&& token) {
    return collective(operator_of<AllReduce>, detail::typed_arguments<In, Out>(in, out, op), token);
  }
  template <class InOut, class Token>
  auto async_all_reduce(InOut&& inout, Combination op, Token&& token) {
    return collective(operator_of<AllReduce>, detail::typed_arguments<InOut, InOut>(inout, inout, op), token);
  }
  template <class In, class Out, class Token>
  auto async_reduce(In&& in, Out&& out, Combination op, Rank root, Token&& token) {
    return collective(operator_of<Reduce>, detail::typed_arguments<In, Out>(in, out, op, root), token);
  }
  template <class InOut, class Token>
  auto async_reduce(InOut&& inout, Combination op, Rank root, Token&& token) {
    return collective(operator_of<Reduce>, detail::typed_arguments<InOut, InOut>(inout, inout, op, root),
                      token);
  }
  template <class In, class Out, class Token>
  auto async_reduce_scatter(In&& in, Out&& out, Combination op, Token&& token) {
    return collective(operator_of<ReduceScatter>, detail::typed_arguments<In, Out>(in, out, op), token);
  }
  template <class In, class Out, class Token>
  auto async_scan(In&& in, Out&& out, Combination op, Token&& token) {
    return collective(operator_of<Scan>, detail::typed_arguments<In, Out>(in, out, op), token);
  }
  template <class In, class Out, class Token>
  auto async_exclusive_scan(In&& in, Out&& out, Combination op, Token&& token) {
    return collective(operator_of<ExclusiveScan>, detail::typed_arguments<In, Out>(in, out, op), token);
  }

  // One value of each rank: void(std::exception_ptr, T), with the result.

  template <detail::Value V, class Token>
  auto async_broadcast(V&& value, Rank root, Token&& token) {
    return on_value<std::remove_cvref_t<V>>(operator_of<Broadcast>, value, ReduceOp::sum, root, token);
  }
  template <detail::Value V, class Token>
  auto async_all_reduce(V&& value, Combination op, Token&& token) {
    return on_value<std::remove_cvref_t<V>>(operator_of<AllReduce>, value, op, 0, token);
  }

  template <class In, class Out, class Token>
  auto async_all_gather(In&& in, Out&& out, Token&& token) {
    return collective(operator_of<AllGather>, detail::typed_arguments<In, Out>(in, out), token);
  }
  template <class In, class Out, class Token>
  auto async_gather(In&& in, Out&& out, Rank root, Token&& token) {
    return collective(operator_of<Gather>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root),
                      token);
  }
  template <class In, class Out, class Token>
  auto async_scatter(In&& in, Out&& out, Rank root, Token&& token) {
    return collective(operator_of<Scatter>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root),
                      token);
  }
  template <class In, class Out, class Token>
  auto async_all_to_all(In&& in, Out&& out, Token&& token) {
    return collective(operator_of<AllToAll>, detail::typed_arguments<In, Out>(in, out), token);
  }

  template <class In, class Out, class Counts, class Token>
  auto async_all_gather_v(In&& in, Out&& out, Counts&& counts, Token&& token) {
    return with_counts(operator_of<AllGatherV>, detail::typed_arguments<In, Out>(in, out),
                       detail::counts_of<Counts>(counts), token);
  }
  template <class In, class Out, class Counts, class Token>
  auto async_reduce_scatter_v(In&& in, Out&& out, Counts&& counts, Combination op, Token&& token) {
    return with_counts(operator_of<ReduceScatterV>, detail::typed_arguments<In, Out>(in, out, op),
                       detail::counts_of<Counts>(counts), token);
  }
  template <class In, class Out, class Counts, class Token>
  auto async_gather_v(In&& in, Out&& out, Counts&& counts, Rank root, Token&& token) {
    return with_counts(operator_of<GatherV>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root),
                       detail::counts_of<Counts>(counts), token);
  }
  template <class In, class Out, class Counts, class Token>
  auto async_scatter_v(In&& in, Out&& out, Counts&& counts, Rank root, Token&& token) {
    return with_counts(operator_of<ScatterV>, detail::typed_arguments<In, Out>(in, out, ReduceOp::sum, root),
                       detail::counts_of<Counts>(counts), token);
  }
  template <class In, class Out, class Matrix, class Token>
  auto async_all_to_all_vc(In&& in, Out&& out, Matrix&& matrix, Token&& token) {
    return with_counts(operator_of<AllToAllVc>, detail::typed_arguments<In, Out>(in, out),
                       detail::counts_of<Matrix>(matrix), token);
  }
  template <class In, class SendCounts, class Out, class RecvCounts, class Token>
  auto async_all_to_all_v(In&& in, SendCounts&& send_counts, Out&& out, RecvCounts&& recv_counts,
                          Token&& token) {
    CallArguments of = detail::typed_arguments<In, Out>(in, out);
    of.counts = detail::counts_of<SendCounts>(send_counts);
    of.recv_counts = detail::counts_of<RecvCounts>(recv_counts);
    const auto counts = bindings::CollectiveCall::Counts::of_rank;
    return async_call(bindings::CollectiveCall{operator_of<AllToAllVc>, of, counts},
                      std::forward<Token>(token));
  }

  template <class Data, class Token>
  auto async_send(Data&& data, Rank to, std::int32_t tag, Token&& token) {
    const std::span<const std::byte> bytes = detail::input_bytes_of<Data>(data).bytes;
    const std::span<std::byte> only_read(const_cast<std::byte*>(bytes.data()), bytes.size());
    using bindings::MessageCall;
    return async_call(MessageCall{MessageCall::Direction::send, to, tag, only_read},
                      std::forward<Token>(token));
  }
  template <class Data, class Token>
  auto async_recv(Data&& data, Rank from, std::int32_t tag, Token&& token) {
    using bindings::MessageCall;
    const MessageCall call{MessageCall::Direction::recv, from, tag,
                           detail::output_bytes_of<Data>(data).bytes};
    return async_call(call, std::forward<Token>(token));
  }
  /// From whoever sends with that tag first. Completes with void(std::exception_ptr, Rank): who that was.
  template <class Data, class Token>
  auto async_recv_any(Data&& data, std::int32_t tag, Token&& token) {
    using bindings::MessageCall;
    const MessageCall call{MessageCall::Direction::recv_any, 0, tag,
                           detail::output_bytes_of<Data>(data).bytes};
    return asio::async_initiate<Token, void(std::exception_ptr, Rank)>(
        [](auto handler, AsioCommunicator self, MessageCall what) {
          const auto request = self.comm_ ? self.comm_->prepare(what, self.settings_) : nullptr;
          self.start(request, std::move(handler), [](auto&& of, bindings::Outcome&& outcome) {
            std::move(of)(std::move(outcome.failure), outcome.from);
          });
        },
        token, *this, call);
  }

  // Groups: void(std::exception_ptr, AsioCommunicator); of a split, none for a negative colour.

  template <class Token>
  auto async_split(int color, int key, Token&& token) {
    return async_make([color, key](bindings::SharedCommunicator& of) { return of.prepare_split(color, key); },
                      token);
  }
  template <class Token>
  auto async_group(std::vector<Rank> ranks, std::string name, Token&& token) {
    auto make = [ranks = std::move(ranks), name = std::move(name)](bindings::SharedCommunicator& of) {
      return of.prepare_group(ranks, name);
    };
    return async_make(std::move(make), token);
  }

  /// Says goodbye; calls that are under way complete with Cancelled before. Fails with what was wrong with
  /// the last collective, if this rank could not hear of it before.
  template <class Token>
  auto async_close(Token&& token) {
    return asio::async_initiate<Token, void(std::exception_ptr)>(
        [](auto handler, AsioCommunicator self) {
          const auto request = self.comm_ ? self.comm_->prepare_close() : nullptr;
          self.start(request, std::move(handler), [](auto&& of, bindings::Outcome&& outcome) {
            std::move(of)(std::move(outcome.failure));
          });
        },
        token, *this);
  }

 private:
  friend class AsioSession;
  AsioCommunicator(std::shared_ptr<bindings::Session> session, asio::any_io_executor executor,
                   std::shared_ptr<bindings::SharedCommunicator> comm)
      : session_(std::move(session)), executor_(std::move(executor)), comm_(std::move(comm)) {}

  template <class Token>
  auto collective(Operator op, const CallArguments& of, Token& token) {
    return async_call(bindings::CollectiveCall{op, of}, std::forward<Token>(token));
  }
  template <class T, class Token>
  auto on_value(Operator op, T value, Combination reduce, Rank root, Token& token) {
    return asio::async_initiate<Token, void(std::exception_ptr, T)>(
        [](auto handler, AsioCommunicator self, Operator of_call, T in, Combination how, Rank from) {
          const auto result = std::make_shared<T>(in);
          const std::span<T> place(result.get(), 1);
          const bindings::CollectiveCall call{
              of_call,
              detail::typed_arguments<const std::span<T>, const std::span<T>>(place, place, how, from)};
          const auto request = self.comm_ ? self.comm_->prepare(call, self.settings_, result) : nullptr;
          self.start(request, std::move(handler), [result](auto&& of, bindings::Outcome&& outcome) {
            std::move(of)(std::move(outcome.failure), *result);
          });
        },
        token, *this, op, value, reduce, root);
  }
  /// Which are not optional here, whatever there are none of.
  template <class Token>
  auto with_counts(Operator op, CallArguments of, std::span<const std::size_t> counts, Token& token) {
    of.counts = counts;
    return async_call(bindings::CollectiveCall{op, of, bindings::CollectiveCall::Counts::needed},
                      std::forward<Token>(token));
  }

  template <class Make, class Token>
  auto async_make(Make make, Token& token) {
    return asio::async_initiate<Token, void(std::exception_ptr, AsioCommunicator)>(
        [](auto handler, AsioCommunicator self, Make prepare) {
          const auto request = self.comm_ ? prepare(*self.comm_) : nullptr;
          self.start(request, std::move(handler), [self](auto&& of, bindings::Outcome&& outcome) mutable {
            self.comm_ = std::move(outcome.made);
            std::move(of)(std::move(outcome.failure), std::move(self));
          });
        },
        token, *this, std::move(make));
  }

  /// `complete` gets the handler and the outcome. Null: there is no communicator.
  template <class Handler, class Complete>
  void start(const std::shared_ptr<bindings::Request>& request, Handler handler, Complete complete) const {
    if (request == nullptr) {
      const Error none(ErrorKind::InvalidArgument,
                       "a call on an AsioCommunicator that is none; give it one that async_join made");
      const auto executor = asio::get_associated_executor(handler, executor_);
      asio::post(executor, [handler = std::move(handler), complete = std::move(complete), none]() mutable {
        complete(std::move(handler), bindings::Outcome{std::make_exception_ptr(none)});
      });
      return;
    }
    // A context that is stopped may end with the request in it, after the session's last other owner.
    auto keeping = [session = session_, complete = std::move(complete)](auto&& of,
                                                                        bindings::Outcome&& outcome) mutable {
      session.reset();
      complete(std::move(of), std::move(outcome));
    };
    bindings::start_for_asio(session_->loop(), request, executor_, std::move(handler), std::move(keeping));
  }

  std::shared_ptr<bindings::Session> session_;
  asio::any_io_executor executor_;
  std::shared_ptr<bindings::SharedCommunicator> comm_;
  bindings::CallSettings settings_;
};

/// Where programs of Asio's join: owns an engine, which the session's own thread drives.
///
///   AsioSession session(context);
///   AsioCommunicator comm = co_await session.async_join(CommunicatorOptions::from_environment(),
///   asio::use_awaitable);
///
/// Threads: any. What is made of it keeps what it needs of it.
class AsioSession {
 public:
  /// Handlers without an executor of their own run there. Throws ResourceLimit and what making an engine
  /// throws.
  explicit AsioSession(asio::any_io_executor executor) : executor_(std::move(executor)) {}
  template <class Context>
  requires requires(Context& context) { context.get_executor(); }
  explicit AsioSession(Context& context) : AsioSession(asio::any_io_executor(context.get_executor())) {}

  /// As Communicator::join. Completes with void(std::exception_ptr, AsioCommunicator).
  template <class Token>
  auto async_join(CommunicatorOptions options, Token&& token) {
    return asio::async_initiate<Token, void(std::exception_ptr, AsioCommunicator)>(
        [](auto handler, std::shared_ptr<bindings::Session> session, asio::any_io_executor executor,
           CommunicatorOptions how) {
          const auto request = session->prepare_join(std::move(how));
          auto complete = [session, executor](auto&& of, bindings::Outcome&& outcome) mutable {
            AsioCommunicator made(std::move(session), std::move(executor), std::move(outcome.made));
            std::move(of)(std::move(outcome.failure), std::move(made));
          };
          bindings::start_for_asio(session->loop(), request, executor, std::move(handler),
                                   std::move(complete));
        },
        token, session_, executor_, std::move(options));
  }

  /// For what has no completion.
  [[nodiscard]] bindings::Session& session() noexcept { return *session_; }

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<bindings::Session> session_ = std::make_shared<bindings::Session>();
};

}  // namespace cohort
