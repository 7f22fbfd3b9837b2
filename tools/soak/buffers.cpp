// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/soak/buffers.h>

#include <cohort/collectives/schedules/operators/reference.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace cohort::soak {
namespace {

/// Before, between and behind the buffers; keeps them aligned.
constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};

std::size_t padded(std::size_t bytes) { return (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes; }

}  // namespace

Buffers::Buffers(const CallPlan& plan, Rank rank, Rank ranks, std::size_t index)
    : plan_(plan), rank_(rank), ranks_(ranks), index_(index) {
  if (!plan.op->has_data) return;
  const Extent extent = plan.op->extent(plan.form(ranks), rank);
  input_count_ = extent.send;
  output_count_ = extent.recv;
  const std::size_t element = size_bytes(plan.type);
  bytes_ = 3 * kGuardBytes + padded(input_count_ * element) + padded(output_count_ * element);
  own_.resize(bytes_ + kGuardBytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(own_.data());
  base_ = own_.data() + (padded(begin) - begin);
  fill();
}

void Buffers::allocate(Communicator& comm) {
  if (bytes_ == 0) return;
  shared_ = comm.allocate<std::int64_t>(bytes_ / sizeof(std::int64_t));
  base_ = reinterpret_cast<std::byte*>(shared_.data());
  fill();
}

bool Buffers::is_in_place() const noexcept {
  return (plan_.is_in_place && plan_.op->has_in_place) || plan_.op->has_one_buffer;
}

/// In place the smaller buffer lies inside the larger one.
std::span<std::byte> Buffers::input_bytes() const noexcept {
  const std::size_t element = size_bytes(plan_.type);
  const std::size_t bytes = input_count_ * element;
  const InPlace at = plan_.op->in_place(plan_.form(ranks_), rank_);
  const bool is_inside_output = is_in_place() && input_count_ < output_count_;
  if (is_inside_output) return output_bytes().subspan((at.recv_at - at.send_at) * element, bytes);
  return {base_ + kGuardBytes, bytes};
}

std::size_t Buffers::output_at() const noexcept {
  return 2 * kGuardBytes + padded(input_count_ * size_bytes(plan_.type));
}

std::span<std::byte> Buffers::output_bytes() const noexcept {
  const std::size_t element = size_bytes(plan_.type);
  const std::size_t bytes = output_count_ * element;
  const InPlace at = plan_.op->in_place(plan_.form(ranks_), rank_);
  const bool is_inside_input = is_in_place() && input_count_ >= output_count_;
  if (is_inside_input) return {base_ + kGuardBytes + (at.send_at - at.recv_at) * element, bytes};
  return {base_ + output_at(), bytes};
}

/// Small whole numbers, so that every order of combination gives the same, in every type.
double Buffers::input(Rank of, std::size_t at) const noexcept {
  const bool is_small = !is_integer(plan_.type) && size_bytes(plan_.type) < sizeof(float);
  const int most = plan_.reduce == ReduceOp::prod && is_small
                       ? 2
                       : std::clamp(reference::largest_summand(plan_.type, ranks_), 1, 4);
  return static_cast<double>(1 + (of * 3 + at * 7 + at / 64 + index_ * 5) % static_cast<std::size_t>(most));
}

double Buffers::combined(const ResultPart& part, std::size_t at) const noexcept {
  double result = input(part.first, at);
  for (Rank rank = part.first + 1; rank < part.end; ++rank)
    result = reference::combine(plan_.type, plan_.reduce, result, input(rank, at));
  const Rank contributors = part.end - part.first;
  return part.is_combined() ? reference::finish(plan_.type, plan_.reduce, result, contributors) : result;
}

void Buffers::fill() {
  std::fill_n(base_, bytes_, kGuard);
  const std::span<std::byte> bytes = input_bytes();
  const std::size_t element = size_bytes(plan_.type);
  for (std::size_t i = 0; i < input_count_; ++i)
    reference::store(plan_.type, bytes.data() + i * element, input(rank_, i));
}

Collective Buffers::call(Communicator& comm) {
  const CallArguments arguments{.type = plan_.type,
                                .reduce = plan_.reduce,
                                .root = plan_.root,
                                .in = input_bytes(),
                                .out = output_bytes(),
                                .counts = plan_.form(ranks_).counts};
  return comm.call(plan_.op, arguments);
}

std::string Buffers::find_wrong_result() const {
  const std::size_t element = size_bytes(plan_.type);
  const Result result = output_count_ != 0 ? plan_.op->result(plan_.form(ranks_), rank_) : Result();
  for (const ResultPart& part : result) {
    for (std::size_t i = 0; i < part.elements; ++i) {
      const double value = reference::load(plan_.type, output_bytes().data() + (part.at + i) * element);
      const double expected = combined(part, part.from + i);
      const bool is_right = std::abs(value - expected) <= 1e-6 * std::abs(expected);
      if (!is_right)
        return fmt::format("element {} of {} is {}, not {}", part.at + i, output_count_, value, expected);
    }
  }
  const bool is_replaced = is_in_place() && output_count_ != 0;
  for (std::size_t i = 0; i < input_count_ && !is_replaced; ++i)
    if (reference::load(plan_.type, input_bytes().data() + i * element) != input(rank_, i))
      return fmt::format("element {} of the input was changed", i);
  return "";
}

void Buffers::freeze() { frozen_.assign(base_, base_ + bytes_); }

std::string Buffers::find_touched() const {
  if (frozen_.size() != bytes_ || base_ == nullptr) return "";
  const auto [changed, was] = std::mismatch(base_, base_ + bytes_, frozen_.begin());
  if (was != frozen_.end())
    return fmt::format("byte {} of its {} bytes of buffers was changed after the call was over",
                       changed - base_, bytes_);
  const auto is_guard = [&](std::size_t at) { return base_[at] == kGuard; };
  for (std::size_t at = 0; at < kGuardBytes; ++at)
    if (!is_guard(at) || !is_guard(output_at() - 1 - at) || !is_guard(bytes_ - 1 - at))
      return "bytes beside its buffers were changed";
  return "";
}

void Buffers::overwrite() {
  constexpr std::byte kOverwritten{0x5a};
  if (base_ == nullptr) return;
  std::ranges::fill(input_bytes(), kOverwritten);
  std::ranges::fill(output_bytes(), kOverwritten);
}

void Buffers::touch() {
  if (bytes_ <= kGuardBytes || base_ == nullptr) return;
  base_[kGuardBytes] =
      std::byte{static_cast<unsigned char>(std::to_integer<unsigned>(base_[kGuardBytes]) + 1)};
}

void Buffers::close() {
  if (shared_.data() == nullptr) return;
  shared_ = SharedBuffer<std::int64_t>();
  base_ = nullptr;
}

Collective call_by(Communicator& comm, Buffers& own, std::string_view algorithm) {
  if (algorithm.empty()) return own.call(comm);
  try {
    return own.call(comm).with_algorithm(algorithm);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::InvalidArgument) throw;
  }
  return own.call(comm);
}

}  // namespace cohort::soak
