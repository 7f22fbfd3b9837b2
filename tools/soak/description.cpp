// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/description.h>

#include <fmt/format.h>

#include <chrono>

namespace cohort::soak {
namespace {

std::string describe(const CallPlan& call) {
  std::string text(to_string(call.op));
  if (call.op->has_data) text += fmt::format("({} x {}", call.count, to_string(call.type));
  if (!call.counts.empty()) text += fmt::format(" at most: {}", fmt::join(call.counts, ", "));
  if (call.op->combines) text += fmt::format(" {}", to_string(call.reduce));
  if (call.op->has_root) text += fmt::format(" of rank {}", call.root);
  if (call.op->has_data) text += ")";
  if (call.is_in_place) text += " in place";
  if (call.is_allocated) text += " allocated";
  if (!call.algorithm.empty()) text += fmt::format(" by {}", call.algorithm);
  return text;
}

/// With what separates each from the one before it.
template <class Separator>
std::string joined(const std::vector<CallPlan>& calls, Separator separator) {
  std::string text;
  for (const CallPlan& call : calls)
    text += fmt::format("{}{}", text.empty() ? "" : separator(call), describe(call));
  return text;
}

std::string text_of(Duration duration) {
  constexpr std::int64_t kThousand = 1000;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  if (us != 0 && us % (kThousand * kThousand) == 0) return fmt::format("{} s", us / (kThousand * kThousand));
  if (us != 0 && us % kThousand == 0) return fmt::format("{} ms", us / kThousand);
  return fmt::format("{} us", us);
}

std::string describe_faults(const Job& job) {
  std::string text;
  if (job.world.has_core_each) text += "; each rank has a core";
  for (const auto& slow : job.world.slow)
    text += fmt::format("; rank {} is {} times slower", slow.process, slow.factor);
  for (const auto& link : job.world.degraded)
    text += fmt::format("; link {}-{} has {} times the latency", link.from, link.to, link.latency_factor);
  for (const auto& link : job.world.lost)
    text += fmt::format("; what {} sends to {} is lost from message {} and {} on", link.from, link.to,
                        link.step, text_of(link.since));
  for (const auto& link : job.world.broken)
    text += fmt::format("; the connection of message {} from {} to {} breaks", link.step, link.from, link.to);
  for (const auto& dead : job.world.dead)
    text += fmt::format("; rank {} {} at step {}{}", dead.process, dead.is_silent ? "falls silent" : "dies",
                        dead.step, dead.since_mark ? " after it has joined" : "");
  for (const auto& forking : job.world.forking)
    text += fmt::format("; rank {} forks at step {}{}", forking.process, forking.step,
                        forking.since_mark ? " after it has joined" : "");
  for (const Lateness& late : job.late)
    text += fmt::format("; rank {} {} for {} before call {} of '{}'", late.rank,
                        late.is_busy ? "computes" : "waits", text_of(late.by), late.call + 1,
                        job.communicators[late.communicator].name);
  if (const std::optional<Deed>& deed = job.deed) {
    constexpr const char* kWords[] = {"cancels", "aborts at", "leaves before", "differs in"};
    text +=
        fmt::format("; rank {} {} call {} of '{}'", deed->rank, kWords[static_cast<std::size_t>(deed->kind)],
                    deed->call + 1, job.communicators[deed->communicator].name);
    if (deed->kind == Deed::Kind::cancels) text += " after " + text_of(deed->after);
  }
  return text;
}

std::string describe_beside(const CommunicatorPlan& plan) {
  std::string text;
  if (plan.group) {
    text += fmt::format("    groups by {}, colours {}, keys {}:", plan.group->is_split ? "split" : "group",
                        fmt::join(plan.group->colors, " "), fmt::join(plan.group->keys, " "));
    text += fmt::format(" {}\n", joined(plan.group->calls, [](const CallPlan&) { return "; "; }));
  }
  if (plan.messages.empty()) return text;
  text += "    messages: ";
  for (const MessagePlan& message : plan.messages)
    text +=
        fmt::format("{}{}->{} tag {} {} B{}", &message == &plan.messages.front() ? "" : "; ", message.from,
                    message.to, message.tag, message.bytes, message.is_for_anybody ? " for anybody" : "");
  return text + "\n";
}

std::string describe_rival(const Job& job) {
  if (!job.rival) return "";
  constexpr const char* kWords[] = {"another name", "another COHORT_JOB", "another secret", "another size",
                                    "nothing that differs"};
  std::vector<std::string> begins;
  for (const Duration after : job.begins_after) begins.push_back(text_of(after));
  return fmt::format("  a second job of {} ranks with {} at that address; begun after {}\n", job.rival->ranks,
                     kWords[static_cast<std::size_t>(job.rival->kind)], fmt::join(begins, ", "));
}

std::string describe_connections(unsigned connections) {
  if (connections == kMeasuredConnections) return ", connections as measured";
  return connections > 1 ? fmt::format(", {} connections", connections) : "";
}

std::string describe_world(const world::Settings& world) {
  return fmt::format(
      "  latency {}, buffers of {} bytes; {} % tiny reads, {} % late, {} % pauses of up to {}\n",
      text_of(world.outside_latency), world.buffer_bytes, world.tiny_read_percent, world.late_percent,
      world.pause_percent, text_of(world.longest_pause));
}

}  // namespace

std::string describe(const Job& job) {
  std::string text = fmt::format("{} ranks on hosts {}{}\n", job.ranks, fmt::join(job.world.host_of, " "),
                                 describe_faults(job));
  text += describe_world(job.world);
  for (const CommunicatorPlan& plan : job.communicators) {
    text += fmt::format("  '{}' at {}{}{}, {} to join, {} a call: ", plan.name, plan.address,
                        plan.is_isolated ? ", isolated" : "", describe_connections(plan.connections),
                        text_of(plan.join_timeout), text_of(plan.timeout));
    text +=
        joined(plan.calls, [](const CallPlan& call) { return call.waits_for_last ? "; " : " + "; }) + "\n";
    text += describe_beside(plan);
  }
  return text + describe_rival(job);
}

}  // namespace cohort::soak
