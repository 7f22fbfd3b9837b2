// SPDX-License-Identifier: Apache-2.0
// MPI_Type_...: making datatypes, and asking what they are.
#include <cohort/bindings/mpi/datatype.h>
#include <cohort/bindings/mpi/text.h>
#include <cohort_mpi/calls.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>

namespace cohort::mpi {
namespace {

constexpr auto kLowerBound = static_cast<MPI_Datatype>(0x4c000010);
constexpr auto kUpperBound = static_cast<MPI_Datatype>(0x4c000011);

/// Puts a datatype together from others at places in bytes.
class Maker {
 public:
  Maker() : made_(std::make_shared<Datatype>()) {}

  void add(Number count, Number at, const Datatype& type) {
    if (count < 0) fail(abi::kErrCount, fmt::format("a block of {} elements", count));
    const auto many = static_cast<std::size_t>(count);
    if (type.is_contiguous() && count != 0) append({at, many * type.size});
    for (Number i = 0; i < count && !type.is_contiguous(); ++i)
      for (const Datatype::Segment& segment : type.segments)
        append({at + i * type.extent + segment.at, segment.bytes});
    if (count != 0) {
      const Number last = at + (count - 1) * type.extent;
      first_ = std::min({first_, at + type.lower, last + type.lower});
      last_ = std::max({last_, at + type.lower + type.extent, last + type.lower + type.extent});
      made_->alignment = std::max(made_->alignment, type.alignment);
      made_->is_bounded |= type.is_bounded;
      is_empty_ = false;
    }
    made_->size += many * type.size;
    made_->basics += many * type.basics;
    if (many == 0 || type.size == 0) return;
    made_->element = has_element_ && made_->element != type.element ? Element::none : type.element;
    has_element_ = true;
  }
  void add(Number count, Number at, MPI_Datatype type) {
    if (type == kLowerBound || type == kUpperBound)
      fail(abi::kErrType, "MPI_LB and MPI_UB are no part of MPI any more; use MPI_Type_create_resized");
    add(count, at, *datatype_of(type));
  }
  /// Several lie one behind the other as a compiler of C lays out an array of such structs.
  void align() {
    if (made_->is_bounded || is_empty_) return;
    const Number over = (last_ - first_) % made_->alignment;
    if (over != 0) last_ += made_->alignment - over;
  }
  /// Instead of what it comes to.
  void set_bounds(Number lower, Number extent) {
    made_->lower = lower;
    made_->extent = extent;
    made_->is_bounded = has_own_bounds_ = true;
  }
  MPI_Datatype finish(Recipe recipe) {
    if (!has_own_bounds_ && !is_empty_) {
      made_->lower = first_;
      made_->extent = last_ - first_;
    }
    for (const MPI_Datatype type : recipe.types) recipe.objects.push_back(datatype_of(type));
    made_->recipe = std::move(recipe);
    return made_datatypes().add(made_);
  }

 private:
  void append(Datatype::Segment segment) {
    if (segment.bytes == 0) return;
    std::vector<Datatype::Segment>& all = made_->segments;
    if (!all.empty() && all.back().at + static_cast<Number>(all.back().bytes) == segment.at)
      all.back().bytes += segment.bytes;
    else
      all.push_back(segment);
  }

  std::shared_ptr<Datatype> made_;
  Number first_ = std::numeric_limits<Number>::max();
  Number last_ = std::numeric_limits<Number>::min();
  bool is_empty_ = true;
  bool has_own_bounds_ = false;
  bool has_element_ = false;
};

std::size_t size_of(Number count) {
  if (count < 0) fail(abi::kErrCount, fmt::format("a count of {}", count));
  return static_cast<std::size_t>(count);
}

/// What MPI_Type_get_contents gives are ints and addresses.
int narrow(Number value) { return static_cast<int>(value); }

std::vector<int> integers_of(std::initializer_list<int> first, Numbers more, std::size_t count) {
  std::vector<int> all(first);
  for (std::size_t i = 0; i < count; ++i) all.push_back(narrow(more[i]));
  return all;
}

std::vector<MPI_Aint> addresses_of(Numbers places, std::size_t count) {
  std::vector<MPI_Aint> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(places[i]);
  return all;
}

}  // namespace

void type_contiguous(Number count, MPI_Datatype old, MPI_Datatype* made) {
  Maker maker;
  maker.add(count, 0, old);
  *made = maker.finish({abi::kCombinerContiguous, {narrow(count)}, {}, {old}, {}});
}

void type_vector(Number count, Number block, Number stride, MPI_Datatype old, MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  (void)size_of(count);
  Maker maker;
  for (Number i = 0; i < count; ++i) maker.add(block, i * stride * type->extent, *type);
  *made = maker.finish({abi::kCombinerVector, {narrow(count), narrow(block), narrow(stride)}, {}, {old}, {}});
}

void type_create_hvector(Number count, Number block, Number stride, MPI_Datatype old, MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  (void)size_of(count);
  Maker maker;
  for (Number i = 0; i < count; ++i) maker.add(block, i * stride, *type);
  *made = maker.finish({abi::kCombinerHvector, {narrow(count), narrow(block)}, {stride}, {old}, {}});
}

void type_indexed(Number count, Numbers blocks, Numbers places, MPI_Datatype old, MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  const std::size_t many = size_of(count);
  Maker maker;
  for (std::size_t i = 0; i < many; ++i) maker.add(blocks[i], places[i] * type->extent, *type);
  std::vector<int> integers = integers_of({narrow(count)}, blocks, many);
  for (std::size_t i = 0; i < many; ++i) integers.push_back(narrow(places[i]));
  *made = maker.finish({abi::kCombinerIndexed, std::move(integers), {}, {old}, {}});
}

void type_create_hindexed(Number count, Numbers blocks, Numbers places, MPI_Datatype old,
                          MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  const std::size_t many = size_of(count);
  Maker maker;
  for (std::size_t i = 0; i < many; ++i) maker.add(blocks[i], places[i], *type);
  *made = maker.finish({abi::kCombinerHindexed,
                        integers_of({narrow(count)}, blocks, many),
                        addresses_of(places, many),
                        {old}});
}

void type_create_indexed_block(Number count, Number block, Numbers places, MPI_Datatype old,
                               MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  const std::size_t many = size_of(count);
  Maker maker;
  for (std::size_t i = 0; i < many; ++i) maker.add(block, places[i] * type->extent, *type);
  *made = maker.finish(
      {abi::kCombinerIndexedBlock, integers_of({narrow(count), narrow(block)}, places, many), {}, {old}, {}});
}

void type_create_hindexed_block(Number count, Number block, Numbers places, MPI_Datatype old,
                                MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  const std::size_t many = size_of(count);
  Maker maker;
  for (std::size_t i = 0; i < many; ++i) maker.add(block, places[i], *type);
  *made = maker.finish(
      {abi::kCombinerHindexedBlock, {narrow(count), narrow(block)}, addresses_of(places, many), {old}, {}});
}

void type_create_struct(Number count, Numbers blocks, Numbers places, const MPI_Datatype* types,
                        MPI_Datatype* made) {
  const std::size_t many = size_of(count);
  Maker maker;
  for (std::size_t i = 0; i < many; ++i) maker.add(blocks[i], places[i], types[i]);
  maker.align();
  *made = maker.finish({abi::kCombinerStruct,
                        integers_of({narrow(count)}, blocks, many),
                        addresses_of(places, many),
                        std::vector<MPI_Datatype>(types, types + many),
                        {}});
}

void type_create_resized(MPI_Datatype old, Number lower, Number extent, MPI_Datatype* made) {
  Maker maker;
  maker.add(1, 0, old);
  maker.set_bounds(lower, extent);
  *made = maker.finish({abi::kCombinerResized, {}, {lower, extent}, {old}, {}});
}

/// Row after row of what is cut out of an array that has the extent of all of it.
void type_create_subarray(int dimensions, Numbers sizes, Numbers subsizes, Numbers starts, int order,
                          MPI_Datatype old, MPI_Datatype* made) {
  const std::size_t many = size_of(dimensions);
  if (many == 0) fail(abi::kErrArg, "a subarray without dimensions");
  const std::shared_ptr<Datatype> type = datatype_of(old);
  std::vector<std::size_t> from_slowest(many);
  std::iota(from_slowest.begin(), from_slowest.end(), std::size_t{0});
  if (order != abi::kOrderC) std::ranges::reverse(from_slowest);
  Number whole = type->extent;
  for (std::size_t i = 0; i < many; ++i) {
    const bool fits = subsizes[i] >= 0 && starts[i] >= 0 && starts[i] + subsizes[i] <= sizes[i];
    if (!fits)
      fail(abi::kErrArg,
           fmt::format("dimension {}: {} from {} on are not within {}", i, subsizes[i], starts[i], sizes[i]));
    whole *= sizes[i];
  }
  Maker maker;
  const std::function<void(std::size_t, Number, Number)> cut = [&](std::size_t level, Number at, Number all) {
    const std::size_t dimension = from_slowest[level];
    const Number stride = all / std::max<Number>(sizes[dimension], 1);
    const Number first = at + starts[dimension] * stride;
    if (level + 1 == many) return maker.add(subsizes[dimension], first, *type);
    for (Number i = 0; i < subsizes[dimension]; ++i) cut(level + 1, first + i * stride, stride);
  };
  cut(0, 0, whole);
  maker.set_bounds(0, whole);
  std::vector<int> integers = integers_of({dimensions}, sizes, many);
  for (std::size_t i = 0; i < many; ++i) integers.push_back(narrow(subsizes[i]));
  for (std::size_t i = 0; i < many; ++i) integers.push_back(narrow(starts[i]));
  integers.push_back(order);
  *made = maker.finish({abi::kCombinerSubarray, std::move(integers), {}, {old}, {}});
}

void type_dup(MPI_Datatype old, MPI_Datatype* made) {
  const std::shared_ptr<Datatype> type = datatype_of(old);
  auto copy = std::make_shared<Datatype>(*type);
  copy->recipe = {abi::kCombinerDup, {}, {}, {old}, {type}};
  type->attributes.duplicate_to(copy->attributes, old);
  *made = made_datatypes().add(std::move(copy));
}

void type_commit(MPI_Datatype* type) { (void)datatype_of(*type); }

void type_free(MPI_Datatype* type) {
  const std::shared_ptr<Datatype> of = made_datatypes().at(*type);
  of->attributes.remove_all(*type);
  made_datatypes().remove(*type);
  *type = abi::kDatatypeNull;
}

void type_size(MPI_Datatype type, NumberOut size) { size.set(static_cast<Number>(datatype_of(type)->size)); }
void type_size_x(MPI_Datatype type, MPI_Count* size) { type_size(type, size); }

void type_get_extent(MPI_Datatype type, NumberOut lower, NumberOut extent) {
  const std::shared_ptr<Datatype> of = datatype_of(type);
  lower.set(of->lower);
  extent.set(of->extent);
}
void type_get_extent_x(MPI_Datatype type, MPI_Count* lower, MPI_Count* extent) {
  type_get_extent(type, lower, extent);
}

void type_get_true_extent(MPI_Datatype type, NumberOut lower, NumberOut extent) {
  const std::shared_ptr<Datatype> of = datatype_of(type);
  lower.set(of->true_lower());
  extent.set(of->true_upper() - of->true_lower());
}
void type_get_true_extent_x(MPI_Datatype type, MPI_Count* lower, MPI_Count* extent) {
  type_get_true_extent(type, lower, extent);
}

void type_get_name(MPI_Datatype type, char* name, int* length) {
  give_name(datatype_of(type)->name.get(), name, length);
}
void type_set_name(MPI_Datatype type, const char* name) { datatype_of(type)->name.set(name); }

void type_get_envelope(MPI_Datatype type, int* integers, int* addresses, int* types, int* combiner) {
  const std::shared_ptr<Datatype> of = datatype_of(type);
  *integers = static_cast<int>(of->recipe.integers.size());
  *addresses = static_cast<int>(of->recipe.addresses.size());
  *types = static_cast<int>(of->recipe.types.size());
  *combiner = of->recipe.combiner;
}

/// Types that were made are given as new ones, which the caller frees.
void type_get_contents(MPI_Datatype type, int most_integers, int most_addresses, int most_types,
                       int* integers, MPI_Aint* addresses, MPI_Datatype* types) {
  const std::shared_ptr<Datatype> of = datatype_of(type);
  const Recipe& recipe = of->recipe;
  const bool has_room = recipe.integers.size() <= size_of(most_integers) &&
                        recipe.addresses.size() <= size_of(most_addresses) &&
                        recipe.types.size() <= size_of(most_types);
  if (recipe.combiner == abi::kCombinerNamed) fail(abi::kErrType, "a predefined datatype has no contents");
  if (!has_room) fail(abi::kErrArg, "the arrays are shorter than MPI_Type_get_envelope says");
  std::ranges::copy(recipe.integers, integers);
  std::ranges::copy(recipe.addresses, addresses);
  for (std::size_t i = 0; i < recipe.types.size(); ++i) {
    const Datatype& object = *recipe.objects[i];
    const bool is_named = object.recipe.combiner == abi::kCombinerNamed;
    types[i] = is_named ? recipe.types[i] : made_datatypes().add(std::make_shared<Datatype>(object));
  }
}

void type_match_size(int type_class, int size, MPI_Datatype* type) {
  struct Match {
    int of;
    int size;
    MPI_Datatype type;
  };
  constexpr std::array kMatches = {Match{1, 4, 0x4c00040a}, Match{1, 8, 0x4c00080b}, Match{1, 16, 0x4c00100c},
                                   Match{2, 1, 0x4c000137}, Match{2, 2, 0x4c000238}, Match{2, 4, 0x4c000439},
                                   Match{2, 8, 0x4c00083a}, Match{3, 8, 0x4c000840}, Match{3, 16, 0x4c001041},
                                   Match{3, 32, 0x4c002042}};
  const auto* const found = std::ranges::find_if(
      kMatches, [=](const Match& match) { return match.of == type_class && match.size == size; });
  if (found == kMatches.end())
    fail(abi::kErrArg, fmt::format("no type of class {} has {} bytes", type_class, size));
  *type = found->type;
}

void type_create_keyval(MPI_Copy_function* copy, MPI_Delete_function* remove, int* key, void* extra) {
  *key = make_key(copy, remove, extra);
}
void type_free_keyval(int* key) {
  free_key(*key);
  *key = abi::kKeyvalInvalid;
}
void type_set_attr(MPI_Datatype type, int key, void* value) {
  datatype_of(type)->attributes.set(type, key, value);
}
void type_get_attr(MPI_Datatype type, int key, void* value, int* flag) {
  const std::optional<void*> found = datatype_of(type)->attributes.get(key);
  *flag = found.has_value() ? 1 : 0;
  if (found) *static_cast<void**>(value) = *found;
}
void type_delete_attr(MPI_Datatype type, int key) { datatype_of(type)->attributes.remove(type, key); }

void get_address(const void* location, MPI_Aint* address) { *address = reinterpret_cast<MPI_Aint>(location); }

void pack(const void* in, Number count, MPI_Datatype datatype, void* out, Number out_size, NumberOut position,
          MPI_Comm /*comm*/) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of(count, *type);
  const Number at = position.value();
  if (at < 0 || out_size - at < static_cast<Number>(bytes))
    fail(abi::kErrArg, fmt::format("{} bytes do not fit behind {} of {}", bytes, at, out_size));
  type->pack(in, count, static_cast<std::byte*>(out) + at);
  position.set(at + static_cast<Number>(bytes));
}

void unpack(const void* in, Number in_size, NumberOut position, void* out, Number count,
            MPI_Datatype datatype, MPI_Comm /*comm*/) {
  const std::shared_ptr<Datatype> type = datatype_of(datatype);
  const std::size_t bytes = bytes_of(count, *type);
  const Number at = position.value();
  if (at < 0 || in_size - at < static_cast<Number>(bytes))
    fail(abi::kErrArg, fmt::format("there are no {} bytes behind {} of {}", bytes, at, in_size));
  type->unpack(static_cast<const std::byte*>(in) + at, bytes, out);
  position.set(at + static_cast<Number>(bytes));
}

void pack_size(Number count, MPI_Datatype datatype, MPI_Comm /*comm*/, NumberOut size) {
  size.set(static_cast<Number>(bytes_of(count, *datatype_of(datatype))));
}

}  // namespace cohort::mpi
