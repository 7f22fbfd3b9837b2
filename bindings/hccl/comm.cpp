// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/comm.h>

#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/log.h>

#include <fmt/format.h>

#include <utility>

namespace cohort::bindings::hccl {

/// The lock keeps turns in the order in which streams have them: a stream that had a later one first would
/// wait for itself. Every wait for a turn is for work that was added before, which ends within its own time
/// limit.
void Comm::add(Stream& stream, Call call) {
  refuse_child();
  const std::lock_guard lock(adding_);
  const std::uint64_t turn = given_;
  auto shared = std::make_shared<const Call>(std::move(call));
  const auto self = shared_from_this();
  stream.add({.run = [self, turn, shared] { self->perform(turn, *shared); },
              .skip =
                  [self, turn, shared](const std::exception_ptr& failure) {
                    self->await_turn(turn);
                    self->give_up(*shared, failure, "was not begun, because its stream had failed");
                    self->end_turn();
                  }});
  ++given_;
}

/// Before any lock, which a thread of the parent's may have held.
void Comm::refuse_child() const {
  if (session_->is_forked()) [[unlikely]]
    refuse_handle(
        "this process was forked from the one that made the communicator, and is none of its ranks; make one "
        "here (HcclCommInitRootInfo)");
}

void Comm::await_turn(std::uint64_t turn) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return turn_ == turn; });
}

void Comm::end_turn() noexcept {
  const std::lock_guard lock(mutex_);
  ++turn_;
  changed_.notify_all();
}

void Comm::begin(const Call& call, std::vector<std::shared_ptr<Request>>& started) {
  if (call.before) call.before();
  std::vector<std::shared_ptr<Request>> prepared;
  for (const AnyCall& one : call.calls) prepared.push_back(comm_->prepare(one, {}, call.kept));
  started.reserve(prepared.size());
  for (std::shared_ptr<Request>& request : prepared) {
    comm_->start(request);
    started.push_back(std::move(request));
  }
}

void Comm::give_up(const Call& call, const std::exception_ptr& failure, const char* reason) noexcept {
  try {
    comm_->abort(fmt::format("{} {}: {}", call.name, reason, text_of(failure)));
  } catch (...) {  // it is given up, or closed, already
  }
}

bool Comm::has_failed() noexcept {
  try {
    return comm_->failure().has_value();
  } catch (...) {  // no memory to ask with
    return false;
  }
}

void Comm::perform(std::uint64_t turn, const Call& call) {
  std::vector<std::shared_ptr<Request>> started;
  std::exception_ptr failure;
  await_turn(turn);
  {
    const std::lock_guard lock(mutex_);
    ++under_way_;
  }
  try {
    begin(call, started);
  } catch (...) {
    failure = std::current_exception();
    give_up(call, failure, "was not begun, because this rank could not");
  }
  end_turn();
  for (const std::shared_ptr<Request>& request : started) {
    try {
      request->wait();
    } catch (...) {
      if (failure) continue;
      failure = std::current_exception();
      if (!has_failed()) give_up(call, failure, "failed on this rank alone");
    }
  }
  try {
    if (!failure && call.after) call.after();
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    --under_way_;
    changed_.notify_all();
  }
  if (!failure) return;
  log(LogLevel::warn, "{} on '{}': {}", call.name, comm_->name(), text_of(failure));
  std::rethrow_exception(failure);
}

std::shared_ptr<Comm> Comm::group(std::vector<Rank> ranks, const std::string& name) {
  refuse_child();
  return std::make_shared<Comm>(session_, comm_->group(std::move(ranks), name));
}

std::shared_ptr<std::byte> Comm::allocate(std::size_t bytes) {
  refuse_child();
  std::shared_ptr<std::byte> memory = comm_->allocate(bytes);
  std::byte* const first = memory.get();
  return {first,
          [self = shared_from_this(), memory = std::move(memory)](std::byte*) mutable { memory.reset(); }};
}

void Comm::close() {
  refuse_child();
  {
    const std::lock_guard lock(adding_);
    std::unique_lock waiting(mutex_);
    changed_.wait(waiting, [this] { return turn_ == given_ && under_way_ == 0; });
  }
  comm_->close();
}

}  // namespace cohort::bindings::hccl
