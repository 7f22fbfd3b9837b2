// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/session/session.h>

#include <cohort/collectives/selection/explanation.h>
#include <cohort/engine/error.h>
#include <cohort/net/membership.h>

#include <fmt/format.h>

#include <functional>
#include <utility>

namespace cohort::bindings {
namespace {

/// A call whose caller waits: it owns nothing.
class BlockingCall final : public Work {
 public:
  BlockingCall(Communicator& comm, TaskScope& within, const AnyCall& call, const CallSettings& settings)
      : Work(&within), comm_(comm), call_(call), settings_(settings) {
    is_quiet_ = std::holds_alternative<CollectiveCall>(call);
  }
  [[nodiscard]] const Envelope& envelope() const noexcept { return envelope_; }

 private:
  Task<> body() override { return perform(comm_, call_, settings_, envelope_); }

  Communicator& comm_;
  const AnyCall& call_;
  const CallSettings& settings_;
  Envelope envelope_;
};

/// A few statements that belong on the engine.
class OnEngine final : public Work {
 public:
  explicit OnEngine(std::function<void()> function) : function_(std::move(function)) {}

 private:
  Task<> body() override {
    function_();
    co_return;
  }
  std::function<void()> function_;
};

/// The same of a task.
class AwaitOnEngine final : public Work {
 public:
  explicit AwaitOnEngine(std::function<Task<>()> function) : function_(std::move(function)) {}

 private:
  Task<> body() override { return function_(); }
  std::function<Task<>()> function_;
};

void end_later(SharedLoop& loop, std::function<void()> function) noexcept {
  if (!loop.is_forked()) loop.start(std::make_shared<OnEngine>(std::move(function)));
}

std::vector<Rank> world_ranks_of(const Communicator& comm) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < comm.size(); ++rank) ranks.push_back(comm.world_rank(rank));
  return ranks;
}

Rank first_on_host_of(const Communicator& comm) {
  Rank rank = 0;
  while (!comm.membership().shares_host(rank)) ++rank;
  return rank;
}

}  // namespace

SharedCommunicator::SharedCommunicator(SharedLoop& loop, Communicator comm)
    : loop_(loop),
      comm_(std::move(comm)),
      rank_(comm_.rank()),
      size_(comm_.size()),
      name_(comm_.name()),
      transport_(comm_.transport()),
      world_ranks_(world_ranks_of(comm_)),
      first_of_host_(first_on_host_of(comm_)) {}

std::shared_ptr<SharedCommunicator> SharedCommunicator::adopt(SharedLoop& loop, Communicator comm) {
  return {new SharedCommunicator(loop, std::move(comm)),
          [&loop](SharedCommunicator* last) { end_later(loop, [last] { delete last; }); }};
}

Rank SharedCommunicator::call(const AnyCall& call, const CallSettings& settings, Interrupt* interrupt) {
  return call_to_end(call, settings, interrupt).from;
}

Envelope SharedCommunicator::call_message(const MessageRequest& request, const CallSettings& settings) {
  return call_to_end(request, settings, nullptr);
}

Envelope SharedCommunicator::call_to_end(const AnyCall& call, const CallSettings& settings,
                                         Interrupt* interrupt) {
  refuse_closed();
  BlockingCall work(comm_, calls_, call, settings);
  loop_.run(work, interrupt);
  return work.envelope();
}

std::optional<Envelope> SharedCommunicator::look_now(const MessageRequest& probe) {
  refuse_closed();
  loop_.nudge();
  std::optional<Envelope> found;
  OnEngine looking([&] { found = comm_.look_now(probe); });
  loop_.run(looking, nullptr);
  return found;
}

std::shared_ptr<Request> SharedCommunicator::prepare(AnyCall call, CallSettings settings,
                                                     std::shared_ptr<const void> kept) {
  return std::make_shared<Request>(
      loop_,
      [self = shared_from_this(), call = std::move(call), settings = std::move(settings),
       kept = std::move(kept)](Request& request) mutable {
        self->refuse_closed();
        if (auto* const message = std::get_if<MessageRequest>(&call)) message->posted = &request.posted;
        return perform(self->comm_, call, settings, request.envelope);
      },
      &calls_);
}

std::shared_ptr<Request> SharedCommunicator::prepare_task(std::function<Task<>()> function) {
  return std::make_shared<Request>(
      loop_,
      [self = shared_from_this(), function = std::move(function)](Request&) {
        self->refuse_closed();
        return function();
      },
      &calls_);
}

std::shared_ptr<Request> SharedCommunicator::prepare_split(int color, int key) {
  auto splitting = [self = shared_from_this(), color, key](Request& request) -> Task<> {
    self->refuse_closed();
    std::optional<Communicator> made = co_await self->comm_.split(color, key);
    if (made) request.made = adopt(self->loop_, std::move(*made));
  };
  return std::make_shared<Request>(loop_, std::move(splitting), &calls_);
}

std::shared_ptr<Request> SharedCommunicator::prepare_group(std::vector<Rank> ranks, std::string name) {
  auto grouping = [self = shared_from_this(), ranks = std::move(ranks),
                   name = std::move(name)](Request& request) -> Task<> {
    self->refuse_closed();
    Communicator made = co_await self->comm_.group(ranks, name);
    request.made = adopt(self->loop_, std::move(made));
  };
  return std::make_shared<Request>(loop_, std::move(grouping), &calls_);
}

std::shared_ptr<SharedCommunicator> SharedCommunicator::make(const std::shared_ptr<Request>& request,
                                                             Interrupt* interrupt) {
  loop_.start(request);
  request->wait(interrupt);
  return request->made;
}

std::shared_ptr<SharedCommunicator> SharedCommunicator::split(int color, int key, Interrupt* interrupt) {
  return make(prepare_split(color, key), interrupt);
}

std::shared_ptr<SharedCommunicator> SharedCommunicator::group(std::vector<Rank> ranks, std::string name,
                                                              Interrupt* interrupt) {
  return make(prepare_group(std::move(ranks), std::move(name)), interrupt);
}

std::shared_ptr<std::byte> SharedCommunicator::allocate(std::size_t bytes) {
  auto buffer = std::make_shared<SharedBuffer<std::uint8_t>>();
  OnEngine allocating([&] { *buffer = comm_.allocate<std::uint8_t>(bytes); });
  loop_.run(allocating, nullptr);
  auto* const memory = reinterpret_cast<std::byte*>(buffer->data());
  // The communicator lives as long as its memory.
  return {memory, [self = shared_from_this(), buffer = std::move(buffer)](std::byte*) mutable {
            SharedLoop& loop = self->loop_;
            end_later(loop, [self = std::move(self), buffer = std::move(buffer)]() mutable {
              *buffer = {};
              buffer.reset();
            });
          }};
}

std::optional<Error> SharedCommunicator::failure() {
  std::optional<Error> failure;
  OnEngine asking([&] {
    if (comm_.is_failed()) failure = comm_.failure();
  });
  loop_.run(asking, nullptr);
  return failure;
}

std::string SharedCommunicator::explain(Operator op, DataType type, std::size_t bytes) {
  std::string text;
  OnEngine asking([&] {
    const Explanation explanation = comm_.explain(op, type, bytes);
    text = fmt::format("{}: {}", explanation.chosen, explanation.reason);
  });
  loop_.run(asking, nullptr);
  return text;
}

bool SharedCommunicator::takes_blocks_apart(Operator op, DataType type, std::size_t bytes) {
  bool does = false;
  OnEngine asking([&] { does = comm_.takes_blocks_apart(op, type, bytes); });
  loop_.run(asking, nullptr);
  return does;
}

void SharedCommunicator::refuse_closed() const {
  if (is_closed()) [[unlikely]]
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("communicator '{}' is closed; make calls before close(), or join again", name_));
}

Task<> SharedCommunicator::close_on_engine() {
  is_closed_.store(true, std::memory_order_relaxed);
  const Mutex::Guard one_at_a_time = co_await closing_.lock();
  calls_.cancel(Error(ErrorKind::Cancelled,
                      fmt::format("'{}' was closed by this rank while the call was under way; wait for calls "
                                  "before close()",
                                  name_)));
  co_await calls_.join();
  co_await comm_.close();
}

void SharedCommunicator::close(Interrupt* interrupt) {
  AwaitOnEngine closing([this] { return close_on_engine(); });
  loop_.run(closing, interrupt);
}

std::shared_ptr<Request> SharedCommunicator::prepare_close() {
  return std::make_shared<Request>(loop_,
                                   [self = shared_from_this()](Request&) { return self->close_on_engine(); });
}

void SharedCommunicator::abort(const std::string& reason) {
  if (loop_.engine().is_current()) return comm_.abort(reason);  // in a function of a reduction
  OnEngine aborting([&] { comm_.abort(reason); });
  loop_.run(aborting, nullptr);
}

Session::Session() : loop_(std::make_unique<SharedLoop>()) {}

/// In a child it is left where it lies.
Session::~Session() {
  if (loop_->is_forked()) (void)loop_.release();
}

std::shared_ptr<Request> Session::prepare_join(CommunicatorOptions options) {
  SharedLoop& loop = *loop_;
  auto joining = [&loop, options = std::move(options)](Request& request) -> Task<> {
    Communicator comm = co_await Communicator::join(loop.engine(), options);
    request.made = SharedCommunicator::adopt(loop, std::move(comm));
  };
  return std::make_shared<Request>(loop, std::move(joining));
}

std::shared_ptr<SharedCommunicator> Session::join(CommunicatorOptions options, Interrupt* interrupt) {
  const std::shared_ptr<Request> request = prepare_join(std::move(options));
  loop_->start(request);
  request->wait(interrupt);
  return request->made;
}

}  // namespace cohort::bindings
