// SPDX-License-Identifier: Apache-2.0
// What ranks of a job do beside the calls of a communicator: groups and messages.
#include <cohort/engine/when_all.h>
#include <cohort/tools/soak/job_run.h>
#include <cohort/tools/soak/message_contents.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::soak {
std::vector<Rank> JobRun::group_of(Process process, std::size_t communicator) const {
  const std::optional<GroupPlan>& plan = job_.communicators[communicator].group;
  return plan ? plan->members(plan->colors[process]) : std::vector<Rank>();
}

void JobRun::prepare_beside(Process process, std::size_t communicator) {
  const CommunicatorPlan& plan = job_.communicators[communicator];
  CommunicatorOutcome& outcome = outcomes_[process][communicator];
  outcome.messages.resize(plan.messages.size());
  parcels_[process][communicator].resize(plan.messages.size());
  const std::vector<Rank> members = group_of(process, communicator);
  if (members.empty()) return;
  const auto size = static_cast<Rank>(members.size());
  const auto rank = static_cast<Rank>(std::ranges::find(members, process) - members.begin());
  outcome.group.calls.resize(plan.group->calls.size());
  for (std::size_t i = 0; i < plan.group->calls.size(); ++i) {
    CallPlan call = plan.group->calls[i];
    call.root %= size;
    group_buffers_[process][communicator].push_back(std::make_unique<Buffers>(call, rank, size, 100 + i));
  }
}

Task<> JobRun::use_group(Communicator& comm, Process process, std::size_t communicator) {
  GroupOutcome& outcome = outcomes_[process][communicator].group;
  const bool is_member = !group_of(process, communicator).empty();
  const TimePoint start = comm.engine().now();
  outcome.is_asked = is_member;
  try {
    co_await make_and_use_group(comm, process, communicator);
  } catch (const Error& error) {
    outcome.make_error = error;
    outcome.make_took = comm.engine().now() - start;
    world_.note(process, "could not make its group", communicator, static_cast<std::uint64_t>(error.kind()));
  }
}

Task<> JobRun::make_and_use_group(Communicator& comm, Process process, std::size_t communicator) {
  const GroupPlan& plan = *job_.communicators[communicator].group;
  GroupOutcome& outcome = outcomes_[process][communicator].group;
  const int color = plan.colors[process];
  const TimePoint start = comm.engine().now();
  std::optional<Communicator> group;
  if (plan.is_split) {
    std::optional<Communicator> made = co_await comm.split(color, plan.keys[process]);
    if (made) group.emplace(std::move(*made));
  } else if (color >= 0) {
    Communicator made = co_await comm.group(plan.members(color), fmt::format("color{}", color));
    group.emplace(std::move(made));
  }
  if (!group) co_return;
  outcome.is_made = true;
  outcome.make_took = comm.engine().now() - start;
  world_.note(process, "has made its group", communicator);
  for (std::size_t i = 0; i < plan.calls.size() && !group->is_failed(); ++i)
    co_await call_in_group(*group, outcome, *group_buffers_[process][communicator][i], i);
  if (group->is_failed()) {
    const std::optional<Error> later = co_await error_of(group->barrier());
    outcome.later_error = later;
  }
  const std::optional<Error> last = co_await error_of(group->close());
  outcome.end_error = last;
}

Task<> JobRun::call_in_group(Communicator& group, GroupOutcome& outcome, Buffers& own, std::size_t index) {
  CallOutcome& call = outcome.calls[index];
  call.is_asked = true;
  const TimePoint start = group.engine().now();
  try {
    co_await own.call(group);
    call.wrong_result = own.find_wrong_result();
  } catch (const Error& error) {
    call.error = error;
  }
  own.freeze();
  call.is_over = true;
  call.ended = group.engine().now();
  call.took = call.ended - start;
}

Task<> JobRun::exchange_messages(Communicator& comm, Process process, std::size_t communicator) {
  const std::vector<MessagePlan>& plans = job_.communicators[communicator].messages;
  std::vector<Task<>> messages;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (plans[i].from == process || plans[i].to == process)
      messages.push_back(take_part_in_message(comm, process, communicator, i));
  if (!messages.empty()) co_await when_all(messages);
}

Task<> JobRun::take_part_in_message(Communicator& comm, Process process, std::size_t communicator,
                                    std::size_t index) {
  const MessagePlan& plan = job_.communicators[communicator].messages[index];
  MessageOutcome& outcome = outcomes_[process][communicator].messages[index];
  Parcel& parcel = parcels_[process][communicator][index];
  const bool sends = plan.from == process;
  parcel.bytes = sends ? contents(plan, process) : std::vector<std::byte>(plan.bytes);
  outcome.is_asked = true;
  outcome.from = plan.from;
  const TimePoint start = comm.engine().now();
  try {
    if (sends) {
      co_await comm.send(parcel.bytes, plan.to, plan.tag);
    } else if (plan.is_for_anybody) {
      const Rank from = co_await comm.recv_any(parcel.bytes, plan.tag);
      outcome.from = from;
    } else {
      co_await comm.recv(parcel.bytes, plan.from, plan.tag);
    }
    if (!sends && parcel.bytes != contents(plan, outcome.from))
      outcome.wrong_result =
          fmt::format("{} bytes are not those that rank {} sent", plan.bytes, outcome.from);
  } catch (const Error& error) {
    outcome.error = error;
  }
  parcel.frozen = parcel.bytes;
  outcome.is_over = true;
  outcome.ended = comm.engine().now();
  outcome.took = outcome.ended - start;
  world_.note(process, outcome.error ? "message fails" : "message is done", index,
              outcome.error ? static_cast<std::uint64_t>(outcome.error->kind()) : 0);
}

std::string JobRun::find_touched_beside(Process process, std::size_t communicator) const {
  const std::string& name = job_.communicators[communicator].name;
  const CommunicatorOutcome& of = outcome(process, communicator);
  for (std::size_t i = 0; i < of.messages.size(); ++i) {
    const Parcel& parcel = parcels_[process][communicator][i];
    if (of.messages[i].is_over && parcel.bytes != parcel.frozen)
      return fmt::format("bytes of message {} of '{}' were changed after it was over", i + 1, name);
  }
  const auto& buffers = group_buffers_[process][communicator];
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (const std::string touched = buffers[i]->find_touched(); !touched.empty())
      return fmt::format("call {} of the group in '{}': {}", i + 1, name, touched);
  return "";
}

}  // namespace cohort::soak
