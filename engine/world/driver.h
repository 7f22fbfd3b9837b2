// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/world/world.h>

#include <cerrno>
#include <optional>

namespace cohort::world {

/// The driver of one process: its requests complete when the simulated sockets have something for them, in a
/// seeded order.
class WorldDriver final : public Driver, public Host {
 public:
  WorldDriver(World& world, Process process);
  ~WorldDriver() override;

  void submit(IoOperation& operation) noexcept override;
  void cancel(IoOperation& operation) noexcept override;
  bool poll() noexcept override;
  [[nodiscard]] bool has_news() const noexcept override { return ready_at() <= scheduler_.now(); }
  void sleep(TimePoint now, TimePoint until) noexcept override;
  void wake() noexcept override { scheduler_.wake(process_); }
  [[nodiscard]] bool has_futex() const noexcept override { return true; }
  [[nodiscard]] std::string description() const override { return "simulated"; }

  // Host:
  [[nodiscard]] TimePoint ready_at() const override;
  [[nodiscard]] std::string waits_for() const override;

 private:
  struct Request {
    IoOperation* operation;
    bool is_cancelled = false;
    std::optional<int> answer = std::nullopt;  ///< of what is done, and not told yet
    TimePoint due = kNever;                    ///< of a connect
    std::size_t sent = 0;
  };
  static constexpr int kNotYet = -EAGAIN;

  [[nodiscard]] TimePoint ready_at(const Request& request) const;
  [[nodiscard]] std::string describe(const Request& request) const;
  [[nodiscard]] bool complete_ready(bool may_be_late) noexcept;
  /// The result, or kNotYet.
  int attempt(Request& request);
  int attempt_send(Request& request);
  int attempt_poll(const Request& request) const;

  Scheduler& scheduler_;
  Sockets& sockets_;
  World& world_;
  const Process process_;
  std::vector<Request> requests_;
};

}  // namespace cohort::world
