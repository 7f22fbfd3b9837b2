// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/workload.h>

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
  for (const Operator op : options_.operators) {
    // One buffer is enough in place: the larger side of the operation.
    const bool uses_output = !options_.is_in_place && op != Operator::broadcast;
    for (const std::size_t bytes : options_.sizes_bytes) {
      const Shape shape = shape_of(op, bytes, element_bytes_, options_.ranks);
      const std::size_t in = uses_output ? shape.in : std::max(shape.in, shape.out);
      elements = std::max(elements, of_output ? (uses_output ? shape.out : 0) : in);
    }
  }
  return elements * element_bytes_;
}

void Workload::select(const Point& point) {
  point_ = point;
  shape_ = shape_of(point.op, point.bytes, element_bytes_, options_.ranks);
  const std::size_t in = shape_.in * element_bytes_;
  const std::size_t out = shape_.out * element_bytes_;
  if (!options_.is_in_place && point.op != Operator::broadcast) {
    in_ = in_buffer_.first(in);
    out_ = out_buffer_.first(out);
    return;
  }
  const std::span<std::byte> whole = in_buffer_.first(std::max(in, out));
  const std::size_t own_block = comm_.rank() * std::min(in, out);
  in_ = in < out ? whole.subspan(own_block, in) : whole;
  out_ = out < in ? whole.subspan(own_block, out) : whole;
}

bool Workload::keeps_input() const noexcept { return !options_.is_in_place || !is_reducing(point_.op); }

void Workload::poison() const {
  if (!out_.empty()) std::memset(out_.data(), std::to_integer<int>(kPoison), out_.size());
}

void Workload::write_input(std::uint64_t sequence) {
  sequence_ = sequence;
  const bool contributes = point_.op != Operator::broadcast || comm_.rank() == options_.root;
  if (contributes) data_.input.write(in_, TestData::first_of(comm_.rank(), sequence));
}

Task<> Workload::enter() {
  if (point_.op != Operator::barrier) co_return;
  const bool is_late = comm_.rank() == comm_.size() - 1;
  if (is_late) co_await comm_.engine().sleep_for(kLate);
  board_.slots[comm_.rank()].entered.store(++entered_, std::memory_order_release);
}

Collective Workload::make() const {
  Collective operation = make_default();
  if (options_.algorithm) return std::move(operation).with_algorithm(*options_.algorithm);
  return operation;
}

Collective Workload::make_default() const {
  const DataType type = options_.type;
  switch (point_.op) {
    case Operator::barrier: return comm_.barrier();
    case Operator::broadcast: return comm_.broadcast(type, out_, options_.root);
    case Operator::all_reduce: return comm_.all_reduce(type, in_, out_, options_.reduce);
    case Operator::all_gather: return comm_.all_gather(type, in_, out_);
    case Operator::reduce_scatter: return comm_.reduce_scatter(type, in_, out_, options_.reduce);
  }
  throw Error(ErrorKind::Internal, "an operator that cannot be measured");
}

std::size_t Workload::count_wrong() const {
  switch (point_.op) {
    case Operator::barrier: {
      const auto has_not_entered = [this](const Board::Slot& slot) {
        return slot.entered.load(std::memory_order_acquire) < entered_;
      };
      const std::span slots = std::span(board_.slots).first(comm_.size());
      return static_cast<std::size_t>(std::count_if(slots.begin(), slots.end(), has_not_entered));
    }
    case Operator::broadcast:
      return data_.input.count_wrong(out_, TestData::first_of(options_.root, sequence_));
    case Operator::all_reduce: return data_.combined.count_wrong(out_, TestData::first_of(0, sequence_));
    case Operator::reduce_scatter: {
      const std::size_t first = comm_.rank() * shape_.out;
      return data_.combined.count_wrong(out_, first + TestData::first_of(0, sequence_));
    }
    case Operator::all_gather: {
      std::size_t wrong = 0;
      const std::size_t block = shape_.in * element_bytes_;
      for (Rank rank = 0; rank < comm_.size(); ++rank)
        wrong +=
            data_.input.count_wrong(out_.subspan(rank * block, block), TestData::first_of(rank, sequence_));
      return wrong;
    }
  }
  return 0;
}

}  // namespace cohort::bench
