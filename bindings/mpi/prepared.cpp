// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/prepared.h>

#include <cohort/bindings/mpi/request.h>

namespace cohort::mpi {
namespace {

std::byte* bytes_at(const void* buffer) { return static_cast<std::byte*>(const_cast<void*>(buffer)); }

const MPI_Datatype& type_of(const Prepared::Blocks& blocks, std::size_t index) {
  return blocks.types[blocks.has_types ? index : 0];
}

std::byte* place_of(const Prepared::Blocks& blocks, std::size_t index, const Datatype& type) {
  const Number unit = blocks.has_types ? 1 : type.extent;
  return bytes_at(blocks.buffer) + blocks.places[index] * unit;
}

}  // namespace

Rank Prepared::root(int rank) const {
  if (rank < 0 || rank >= comm_->size())
    fail(abi::kErrRoot, fmt::format("root {} of a communicator of {}", rank, comm_->size()));
  return static_cast<Rank>(rank);
}

std::span<std::byte> Prepared::room(std::size_t bytes) {
  auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes + 1);
  const std::span<std::byte> room(memory.get(), bytes);
  kept().memory.push_back(std::move(memory));
  return room;
}

std::vector<std::size_t>& Prepared::numbers() {
  kept().numbers.push_back(std::make_unique<std::vector<std::size_t>>());
  return *kept().numbers.back();
}

std::span<const std::byte> Prepared::input(const void* buffer, Number count, MPI_Datatype datatype) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of(count, *type);
  if (type->is_contiguous()) return {bytes_at(buffer), bytes};
  const std::span<std::byte> packed = room(bytes);
  type->pack(buffer, count, packed.data());
  return packed;
}

std::span<std::byte> Prepared::output(void* buffer, Number count, MPI_Datatype datatype) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of(count, *type);
  if (type->is_contiguous()) return {bytes_at(buffer), bytes};
  const std::span<std::byte> packed = room(bytes);
  when_over([=](const bindings::Request&) { type->unpack(packed.data(), packed.size(), buffer); });
  return packed;
}

std::span<std::byte> Prepared::landing(void* buffer, Number count, MPI_Datatype datatype) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of(count, *type);
  if (type->is_contiguous()) return {bytes_at(buffer), bytes};
  const std::span<std::byte> packed = room(bytes);
  when_over([=](const bindings::Request& over) { type->unpack(packed.data(), over.envelope.bytes, buffer); });
  return packed;
}

std::span<std::byte> Prepared::both(void* buffer, Number count, MPI_Datatype datatype) {
  const std::span<std::byte> packed = output(buffer, count, datatype);
  if (packed.data() != buffer) datatype_of(datatype)->pack(buffer, count, packed.data());
  return packed;
}

std::optional<std::byte*> Prepared::find_whole(const Blocks& blocks, std::vector<std::size_t>& sizes) const {
  std::optional<std::byte*> first;
  std::size_t bytes = 0;
  bool is_whole = true;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::shared_ptr<Datatype> type = datatype_of(type_of(blocks, i));
    sizes.push_back(bytes_of(blocks.counts[i], *type));
    if (sizes.back() == 0) continue;
    std::byte* const place = place_of(blocks, i, *type);
    if (!first) first = place;
    is_whole = is_whole && type->is_contiguous() && place == *first + bytes;
    bytes += sizes.back();
  }
  if (!is_whole) return std::nullopt;
  return first ? first : bytes_at(blocks.buffer);
}

void Prepared::pack(const Blocks& blocks, std::byte* to) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const std::shared_ptr<Datatype> type = datatype_of(type_of(blocks, i));
    type->pack(place_of(blocks, i, *type), blocks.counts[i], to);
    to += bytes_of(blocks.counts[i], *type);
  }
}

/// The program's arrays may be gone when the call is over.
void Prepared::unpack_later(const Blocks& blocks, std::span<const std::byte> from) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::shared_ptr<Datatype> type = datatype_of(type_of(blocks, i));
    const std::size_t bytes = bytes_of(blocks.counts[i], *type);
    std::byte* const place = place_of(blocks, i, *type);
    const std::byte* const block = from.data() + at;
    at += bytes;
    if (bytes != 0) when_over([=](const bindings::Request&) { type->unpack(block, bytes, place); });
  }
}

namespace {

std::size_t sum_of(const std::vector<std::size_t>& sizes) {
  std::size_t sum = 0;
  for (const std::size_t size : sizes)
    if (__builtin_add_overflow(sum, size, &sum)) fail(abi::kErrCount, "more bytes than any memory has");
  return sum;
}

}  // namespace

std::span<const std::byte> Prepared::input(const Blocks& blocks, std::vector<std::size_t>& sizes) {
  const std::optional<std::byte*> whole = find_whole(blocks, sizes);
  if (whole) return {*whole, sum_of(sizes)};
  const std::span<std::byte> packed = room(sum_of(sizes));
  pack(blocks, packed.data());
  return packed;
}

std::span<std::byte> Prepared::output(const Blocks& blocks, std::vector<std::size_t>& sizes) {
  const std::optional<std::byte*> whole = find_whole(blocks, sizes);
  if (whole) return {*whole, sum_of(sizes)};
  const std::span<std::byte> packed = room(sum_of(sizes));
  unpack_later(blocks, packed);
  return packed;
}

std::span<std::byte> Prepared::both(const Blocks& blocks, std::vector<std::size_t>& sizes) {
  const std::optional<std::byte*> whole = find_whole(blocks, sizes);
  if (whole) return {*whole, sum_of(sizes)};
  const std::span<std::byte> packed = room(sum_of(sizes));
  pack(blocks, packed.data());
  unpack_later(blocks, packed);
  return packed;
}

std::shared_ptr<bindings::Request> Prepared::begin(bindings::AnyCall what) {
  std::shared_ptr<bindings::Request> request = shared().prepare(std::move(what), {}, kept_);
  shared().start(request);
  return request;
}

/// The way of most calls: nothing is allocated.
void Prepared::complete(MPI_Status* status) {
  if (!is_simple()) {
    Request request("", {});
    request.begin(std::move(*this));
    request.wait();
    return request.take(status);
  }
  if (const auto* const message = std::get_if<MessageRequest>(&*first_)) {
    if (message->sends) {
      (void)shared().call_message(*message);
      return;
    }
    PostedReceive posted;
    MessageRequest receive = *message;
    receive.posted = &posted;
    Envelope envelope;
    try {
      envelope = shared().call_message(receive);
    } catch (...) {
      fail_receive(posted.is_too_short());
    }
    if (status != abi::kStatusIgnore && status != nullptr) give_status(status, envelope);
  } else {
    shared().call(*first_);
  }
}

}  // namespace cohort::mpi
