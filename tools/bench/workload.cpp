// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/workload.h>

#include <cohort/engine/engine.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace cohort::bench {
namespace {

constexpr std::align_val_t kPage{4096};
constexpr std::byte kPoison{0xA5};

/// How late the last rank comes to a barrier that is verified.
constexpr Duration kLate = std::chrono::milliseconds(1);

}  // namespace

void Buffer::Release::operator()(std::byte* memory) const noexcept { ::operator delete(memory, kPage); }

Buffer::Buffer(Communicator& comm, std::size_t bytes, bool is_shared) {
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  if (is_shared) {
    shared_ = comm.allocate<double>((wanted + sizeof(double) - 1) / sizeof(double));
    data_ = reinterpret_cast<std::byte*>(shared_.data());
  } else {
    own_.reset(static_cast<std::byte*>(::operator new(wanted, kPage)));
    data_ = own_.get();
  }
  std::memset(data_, 1, wanted);
}

Workload::Workload(Communicator& comm, const Options& options, Board& board)
    : comm_(comm),
      options_(options),
      board_(board),
      element_bytes_(size_bytes(options.type)),
      data_(options.type, options.reduce, options.ranks),
      in_buffer_(comm, largest(false), options.is_shared),
      out_buffer_(comm, largest(true), options.is_shared) {}

std::size_t Workload::largest(bool of_output) const {
  std::size_t elements = 0;
  for (const Exercise exercise : options_.exercises) {
    // One buffer is enough in place: the larger side of the operation.
    const bool uses_output = !is_in_place(exercise);
    for (const std::size_t bytes : options_.sizes_bytes) {
      const Shape shape = shape_of(exercise, bytes, element_bytes_, options_.ranks);
      const std::size_t in = uses_output ? shape.in : std::max(shape.in, shape.out);
      elements = std::max(elements, of_output ? (uses_output ? shape.out : 0) : in);
    }
  }
  return elements * element_bytes_;
}

void Workload::select(const Point& point) {
  point_ = point;
  shape_ = shape_of(point.exercise, point.bytes, element_bytes_, options_.ranks);
  const Extent extent = point.exercise->extent(form(), comm_.rank());
  const std::size_t in = extent.send * element_bytes_;
  const std::size_t out = extent.recv * element_bytes_;
  if (!is_in_place(point.exercise)) {
    in_ = in_buffer_.first(in);
    out_ = out_buffer_.first(out);
    return;
  }
  // The smaller one lies inside the larger one.
  const std::span<std::byte> whole = in_buffer_.first(std::max(in, out));
  const InPlace at = point.exercise->in_place(form(), comm_.rank());
  in_ = in < out ? whole.subspan((at.recv_at - at.send_at) * element_bytes_, in) : whole;
  out_ = out < in ? whole.subspan((at.send_at - at.recv_at) * element_bytes_, out) : whole;
}

bool Workload::keeps_input() const noexcept { return !options_.is_in_place || !point_.exercise->combines; }

void Workload::poison() const {
  if (!out_.empty()) std::memset(out_.data(), std::to_integer<int>(kPoison), out_.size());
}

void Workload::write_input(std::uint64_t sequence) {
  sequence_ = sequence;
  if (!in_.empty()) data_.input.write(in_, TestData::first_of(comm_.rank(), sequence));
}

Task<> Workload::enter() {
  if (point_.exercise->has_data) co_return;
  const bool is_late = comm_.rank() == comm_.size() - 1;
  if (is_late) co_await comm_.engine().sleep_for(kLate);
  board_.slots[comm_.rank()].entered.store(++entered_, std::memory_order_release);
}

Collective Workload::make() const {
  const CallArguments arguments{
      .type = options_.type, .reduce = options_.reduce, .root = options_.root, .in = in_, .out = out_};
  if (options_.algorithm.empty()) return comm_.call(point_.exercise.op(), arguments);
  return comm_.call(point_.exercise.op(), arguments).with_algorithm(options_.algorithm);
}

Task<> Workload::run() const {
  if (!point_.exercise.is_messages()) {
    Collective operation = make();
    co_await std::move(operation);
  } else if (comm_.rank() == 0) {
    co_await comm_.send(in_, 1);
    co_await comm_.recv(out_, 1);
  } else if (comm_.rank() == 1) {
    co_await comm_.recv(out_, 0);
    co_await comm_.send(out_, 0);
  }
}

std::size_t Workload::count_not_entered() const {
  const auto has_not_entered = [this](const Board::Slot& slot) {
    return slot.entered.load(std::memory_order_acquire) < entered_;
  };
  const std::span slots = std::span(board_.slots).first(comm_.size());
  return static_cast<std::size_t>(std::count_if(slots.begin(), slots.end(), has_not_entered));
}

const Pattern& Workload::combined(Rank ranks) const {
  if (ranks == options_.ranks) return data_.combined;
  if (combined_of_some_ranks_ != ranks) {
    data_of_some_.emplace(options_.type, options_.reduce, ranks);
    combined_of_some_ranks_ = ranks;
  }
  return data_of_some_->combined;
}

/// By the operator's definition.
std::size_t Workload::count_wrong() const {
  if (!point_.exercise->has_data) return options_.is_joined ? 0 : count_not_entered();
  if (out_.empty()) return 0;
  std::size_t wrong = 0;
  for (const ResultPart& part : point_.exercise->result(form(), comm_.rank())) {
    const std::span<std::byte> stretch =
        out_.subspan(part.at * element_bytes_, part.elements * element_bytes_);
    // Of all ranks' inputs the combination is a pattern, too.
    const Pattern& pattern = part.is_combined() ? combined(part.end - part.first) : data_.input;
    const Rank of = part.is_combined() ? 0 : part.first;
    wrong += pattern.count_wrong(stretch, part.from + TestData::first_of(of, sequence_));
  }
  return wrong;
}

}  // namespace cohort::bench
