// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/processes/stops.h>

namespace cohort::soak {
namespace {

using std::chrono::microseconds;

/// A process that is stopped for as long as this lives.
class Stopped : Immovable {
 public:
  explicit Stopped(ChildProcess& process) : process_(process) { process_.signal(ProcessSignal::stop); }
  ~Stopped() { process_.signal(ProcessSignal::resume); }

 private:
  ChildProcess& process_;
};

microseconds draw(world::Random& random, microseconds most) {
  return microseconds(random.between(1, static_cast<std::uint64_t>(most.count())));
}

/// Most are short, as they are where a machine is busy.
microseconds draw_stop(world::Random& random, Duration longest) {
  const auto most = std::max(std::chrono::duration_cast<microseconds>(longest), microseconds(1));
  return draw(random, draw(random, most));
}

}  // namespace

Task<> stop_now_and_then(Engine& engine, std::vector<ChildProcess*> processes, world::Random random,
                         Duration longest, std::uint64_t& stops) {
  constexpr microseconds kLongestBetween{50'000};
  for (;;) {
    const Duration between = draw(random, kLongestBetween);
    co_await engine.sleep_for(between);
    ChildProcess& process = *processes[random.below(processes.size())];
    if (process.has_ended()) continue;
    const Stopped stopped(process);
    ++stops;
    const Duration stop = draw_stop(random, longest);
    co_await engine.sleep_for(stop);
  }
}

}  // namespace cohort::soak
