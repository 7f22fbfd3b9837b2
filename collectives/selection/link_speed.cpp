// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/selection/link_speed.h>

#include <cohort/collectives/memory/reduction/reduce.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/figure_cache.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

namespace cohort {
namespace {

constexpr std::size_t kMessageBytes = 128;
constexpr std::size_t kLargeBytes = std::size_t{256} << 10;
// The best batch counts: others are disturbed by the ranks that measure at the same time.
constexpr int kReductionBatches = 5;
constexpr int kMessagesPerBatch = 16;
/// Looks at a stream that brings nothing before loopback is given up.
constexpr int kMostLooks = 10'000;

/// Bounds of what a peer may tell.
constexpr double kMostOfAny = 1e9;

/// The shortest of several runs of `work`, as many as there is time for, in microseconds; 0 if it does not
/// take any time that the clock knows, or there is none.
template <class Work>
double best_us(Engine& engine, TimePoint until, Work work) {
  if (engine.now() >= until) return 0;
  Duration best = Duration::max();
  for (int batch = 0; batch < kReductionBatches && engine.now() < until; ++batch) {
    const TimePoint start = engine.now();
    work();
    best = std::min(best, engine.now() - start);
  }
  return best == Duration::max() ? 0 : in_microseconds(best);
}

/// Both ends of a connection, and what passes over it.
class Loop {
 public:
  Loop(Socket one, Socket other)
      : ends_{std::move(one), std::move(other)}, out_(kLargeBytes), in_(kLargeBytes) {
    for (Socket& end : ends_) {
      end.set_no_delay();
      end.set_buffer_bytes(2 * kLargeBytes);
    }
  }

  /// Moves so many bytes from one end to the other; the next time they go back.
  void move(std::size_t bytes) noexcept {
    Socket& from = ends_[turn_ % 2];
    Socket& to = ends_[++turn_ % 2];
    std::size_t sent = 0;
    std::size_t received = 0;
    for (int looks = 0; received < bytes && !is_broken_; ++looks) {
      const std::span<const std::byte> rest = std::span(out_).subspan(sent, bytes - sent);
      if (!rest.empty()) sent += moved(from.try_send_some(rest, {}));
      received += moved(to.try_receive_some(std::span(in_).subspan(received, bytes - received)));
      is_broken_ = is_broken_ || looks == kMostLooks;
    }
  }
  [[nodiscard]] bool is_broken() const noexcept { return is_broken_; }

  void copy() noexcept { std::memcpy(out_.data(), in_.data(), kLargeBytes); }
  void combine() noexcept {
    reduce_into(DataType::float32, ReduceOp::sum, in_.data(), out_.data(), kLargeBytes / sizeof(float));
  }

 private:
  std::size_t moved(int result) noexcept {
    if (result > 0) return static_cast<std::size_t>(result);
    is_broken_ = result != -EAGAIN && result != -EINTR;
    return 0;
  }

  std::array<Socket, 2> ends_;
  std::vector<std::byte> out_;
  std::vector<std::byte> in_;
  unsigned turn_ = 0;
  bool is_broken_ = false;
};

Task<> measure_on_loopback(Engine& engine, TimePoint until, LinkSpeed& speed) {
  Listener listener(engine, Address::parse("127.0.0.1:0"));
  Socket one = co_await Socket::connect(engine, listener.local_address());
  Socket other = co_await listener.accept();
  Loop loop(std::move(one), std::move(other));
  const double small_us = best_us(engine, until, [&] {
    for (int i = 0; i < kMessagesPerBatch; ++i) loop.move(kMessageBytes);
  });
  const double large_us = best_us(engine, until, [&] { loop.move(kLargeBytes); });
  const double combine_us = best_us(engine, until, [&] { loop.combine(); });
  const double copy_us = best_us(engine, until, [&] { loop.copy(); });
  const bool is_usable = small_us > 0 && large_us > 0 && combine_us > 0 && copy_us > 0 && !loop.is_broken();
  if (!is_usable) co_return;
  speed.message_us = small_us / kMessagesPerBatch;
  speed.byte_us = std::max(large_us - speed.message_us, 0.0) / kLargeBytes;
  speed.combine_us = combine_us / kLargeBytes;
  speed.copy_us = copy_us / kLargeBytes;
  speed.is_measured = true;
}

double median_of(const std::vector<LinkSpeed>& ranks, double LinkSpeed::*field) {
  const bool is_any_measured = std::ranges::any_of(ranks, &LinkSpeed::is_measured);
  std::vector<double> values;
  for (const LinkSpeed& speed : ranks)
    if (speed.is_measured == is_any_measured) values.push_back(speed.*field);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

[[noreturn]] void refuse(std::string_view text) {
  throw Error(
      ErrorKind::ProtocolError,
      fmt::format("a rank tells its link speed as '{}', where seven numbers from 0 to {} are expected: "
                  "the other end is not a cohort of this version",
                  text, kMostOfAny));
}

}  // namespace

Task<LinkSpeed> LinkSpeed::measure(Engine& engine, double ranks_per_core, Duration budget) {
  LinkSpeed speed;
  speed.ranks_per_core = ranks_per_core;
  speed.cache_bytes = engine.platform().core_cache_bytes();
  speed.keeps_figures = FigureCache::from_environment().is_on();
  const TimePoint until = after(engine.now(), budget);
  try {
    Task<> timed = with_deadline(budget, measure_on_loopback(engine, until, speed));
    co_await timed;
  } catch (const Error& error) {
    const bool is_late = error.kind() == ErrorKind::DeadlineExceeded && engine.now() >= until;
    if (!is_late && error.kind() != ErrorKind::SystemError) throw;
  }
  co_return speed;
}

std::string LinkSpeed::text() const {
  return fmt::format("{:.4g} {:.4g} {:.4g} {:.4g} {:.4g} {} {:d}", message_us, byte_us, combine_us, copy_us,
                     ranks_per_core, std::min(cache_bytes, static_cast<std::size_t>(kMostOfAny)),
                     keeps_figures + 2 * is_measured);
}

LinkSpeed LinkSpeed::parse(std::string_view text) {
  std::array<double, 7> numbers{};
  std::string_view rest = text;
  for (double& number : numbers) {
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const bool is_sane = error == std::errc{} && number >= 0 && number <= kMostOfAny;
    if (!is_sane) refuse(text);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const bool is_last = &number == &numbers.back();
    if (rest.empty() != is_last || (!is_last && rest.front() != ' ')) refuse(text);
    if (!is_last) rest.remove_prefix(1);
  }
  LinkSpeed speed;
  speed.message_us = numbers[0];
  speed.byte_us = numbers[1];
  speed.combine_us = numbers[2];
  speed.copy_us = numbers[3];
  speed.ranks_per_core = numbers[4];
  speed.cache_bytes = static_cast<std::size_t>(numbers[5]);
  const auto flags = static_cast<unsigned>(numbers[6]);
  speed.keeps_figures = (flags & 1) != 0;
  speed.is_measured = (flags & 2) != 0;
  return speed;
}

LinkSpeed LinkSpeed::agreed(const std::vector<LinkSpeed>& of_ranks) {
  LinkSpeed all = of_ranks.front();
  all.message_us = median_of(of_ranks, &LinkSpeed::message_us);
  all.byte_us = median_of(of_ranks, &LinkSpeed::byte_us);
  all.combine_us = median_of(of_ranks, &LinkSpeed::combine_us);
  all.copy_us = median_of(of_ranks, &LinkSpeed::copy_us);
  for (const LinkSpeed& speed : of_ranks) {
    all.ranks_per_core = std::max(all.ranks_per_core, speed.ranks_per_core);
    all.cache_bytes = std::min(all.cache_bytes, speed.cache_bytes);
    all.keeps_figures = all.keeps_figures && speed.keeps_figures;
    all.is_measured = all.is_measured || speed.is_measured;
  }
  return all;
}

}  // namespace cohort
