// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/datatype.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace cohort::mpi {
namespace {

struct Predefined {
  MPI_Datatype handle;
  const char* name;
  Element element;
};

/// The handles have their sizes in them, but for those of pairs with gaps.
constexpr std::array kPredefined = {
    Predefined{0x4c000101, "MPI_CHAR", Element::int8},
    Predefined{0x4c000118, "MPI_SIGNED_CHAR", Element::int8},
    Predefined{0x4c000102, "MPI_UNSIGNED_CHAR", Element::uint8},
    Predefined{0x4c00010d, "MPI_BYTE", Element::byte},
    Predefined{0x4c00040e, "MPI_WCHAR", Element::int32},
    Predefined{0x4c000203, "MPI_SHORT", Element::int16},
    Predefined{0x4c000204, "MPI_UNSIGNED_SHORT", Element::uint16},
    Predefined{0x4c000405, "MPI_INT", Element::int32},
    Predefined{0x4c000406, "MPI_UNSIGNED", Element::uint32},
    Predefined{0x4c000807, "MPI_LONG", Element::int64},
    Predefined{0x4c000808, "MPI_UNSIGNED_LONG", Element::uint64},
    Predefined{0x4c00040a, "MPI_FLOAT", Element::float32},
    Predefined{0x4c00080b, "MPI_DOUBLE", Element::float64},
    Predefined{0x4c00100c, "MPI_LONG_DOUBLE", Element::long_double},
    Predefined{0x4c000809, "MPI_LONG_LONG_INT", Element::int64},
    Predefined{0x4c000819, "MPI_UNSIGNED_LONG_LONG", Element::uint64},
    Predefined{0x4c00010f, "MPI_PACKED", Element::byte},
    Predefined{0x4c000010, "MPI_LB", Element::none},
    Predefined{0x4c000011, "MPI_UB", Element::none},
    Predefined{0x4c00041b, "MPI_INTEGER", Element::int32},
    Predefined{0x4c00041c, "MPI_REAL", Element::float32},
    Predefined{0x4c00041d, "MPI_LOGICAL", Element::int32},
    Predefined{0x4c00081e, "MPI_COMPLEX", Element::complex_float},
    Predefined{0x4c00081f, "MPI_DOUBLE_PRECISION", Element::float64},
    Predefined{0x4c001022, "MPI_DOUBLE_COMPLEX", Element::complex_double},
    Predefined{0x4c00011a, "MPI_CHARACTER", Element::byte},
    Predefined{0x4c000820, "MPI_2INTEGER", Element::two_int},
    Predefined{0x4c000821, "MPI_2REAL", Element::none},
    Predefined{0x4c001023, "MPI_2DOUBLE_PRECISION", Element::none},
    Predefined{0x4c000427, "MPI_REAL4", Element::float32},
    Predefined{0x4c000829, "MPI_REAL8", Element::float64},
    Predefined{0x4c00102b, "MPI_REAL16", Element::none},
    Predefined{0x4c000828, "MPI_COMPLEX8", Element::complex_float},
    Predefined{0x4c00102a, "MPI_COMPLEX16", Element::complex_double},
    Predefined{0x4c00202c, "MPI_COMPLEX32", Element::none},
    Predefined{0x4c00012d, "MPI_INTEGER1", Element::int8},
    Predefined{0x4c00022f, "MPI_INTEGER2", Element::int16},
    Predefined{0x4c000430, "MPI_INTEGER4", Element::int32},
    Predefined{0x4c000831, "MPI_INTEGER8", Element::int64},
    Predefined{0x4c000137, "MPI_INT8_T", Element::int8},
    Predefined{0x4c000238, "MPI_INT16_T", Element::int16},
    Predefined{0x4c000439, "MPI_INT32_T", Element::int32},
    Predefined{0x4c00083a, "MPI_INT64_T", Element::int64},
    Predefined{0x4c00013b, "MPI_UINT8_T", Element::uint8},
    Predefined{0x4c00023c, "MPI_UINT16_T", Element::uint16},
    Predefined{0x4c00043d, "MPI_UINT32_T", Element::uint32},
    Predefined{0x4c00083e, "MPI_UINT64_T", Element::uint64},
    Predefined{0x4c00013f, "MPI_C_BOOL", Element::boolean},
    Predefined{0x4c000840, "MPI_C_FLOAT_COMPLEX", Element::complex_float},
    Predefined{0x4c001041, "MPI_C_DOUBLE_COMPLEX", Element::complex_double},
    Predefined{0x4c002042, "MPI_C_LONG_DOUBLE_COMPLEX", Element::complex_long_double},
    Predefined{0x4c000843, "MPI_AINT", Element::int64},
    Predefined{0x4c000844, "MPI_OFFSET", Element::int64},
    Predefined{0x4c000845, "MPI_COUNT", Element::int64},
    Predefined{0x4c000133, "MPI_CXX_BOOL", Element::boolean},
    Predefined{0x4c000834, "MPI_CXX_FLOAT_COMPLEX", Element::complex_float},
    Predefined{0x4c001035, "MPI_CXX_DOUBLE_COMPLEX", Element::complex_double},
    Predefined{0x4c002036, "MPI_CXX_LONG_DOUBLE_COMPLEX", Element::complex_long_double},
    Predefined{0x4c000816, "MPI_2INT", Element::two_int}};

constexpr MPI_Datatype kFirstPair = static_cast<MPI_Datatype>(0x8c000000);

constexpr Number kIntAlignment = alignof(int);

/// As a compiler of C has it in a struct: complex numbers and pairs as their parts.
Number alignment_of(Element element, std::size_t size) {
  switch (element) {
    case Element::two_int: return kIntAlignment;
    case Element::complex_float: return alignof(float);
    case Element::complex_double: return alignof(double);
    case Element::complex_long_double: return alignof(long double);
    default: return static_cast<Number>(std::clamp(size, std::size_t{1}, alignof(long double)));
  }
}

/// A value of so many bytes, and an int behind it.
std::shared_ptr<Datatype> make_pair(const char* name, Element element, std::size_t value, Number extent) {
  auto type = std::make_shared<Datatype>();
  type->element = element;
  type->basics = 2;
  type->size = value + sizeof(int);
  type->extent = extent;
  type->alignment = std::max(static_cast<Number>(std::min(value, alignof(long double))), kIntAlignment);
  const auto index_at = static_cast<Number>(std::max(value, sizeof(int)));
  if (index_at == static_cast<Number>(value))
    type->segments = {{0, value + sizeof(int)}};
  else
    type->segments = {{0, value}, {index_at, sizeof(int)}};
  type->name.set(name);
  return type;
}

class PredefinedTypes {
 public:
  PredefinedTypes() {
    for (const Predefined& of : kPredefined) {
      auto type = std::make_shared<Datatype>();
      type->element = of.element;
      type->size = static_cast<std::size_t>(of.handle >> 8 & 0xff);
      type->basics = of.element == Element::two_int ? 2 : 1;
      type->extent = static_cast<Number>(type->size);
      type->alignment = alignment_of(of.element, type->size);
      if (type->size != 0) type->segments = {{0, type->size}};
      type->name.set(of.name);
      types_[static_cast<std::size_t>(of.handle & 0xff)] = std::move(type);
    }
    pairs_ = {make_pair("MPI_FLOAT_INT", Element::float_int, 4, 8),
              make_pair("MPI_DOUBLE_INT", Element::double_int, 8, 16),
              make_pair("MPI_LONG_INT", Element::long_int, 8, 16),
              make_pair("MPI_SHORT_INT", Element::short_int, 2, 8),
              make_pair("MPI_LONG_DOUBLE_INT", Element::long_double_int, 16, 32)};
  }

  /// Null for a handle of none of them.
  [[nodiscard]] std::shared_ptr<Datatype> find(MPI_Datatype handle) const {
    const auto pair =
        static_cast<std::size_t>(static_cast<unsigned>(handle) - static_cast<unsigned>(kFirstPair));
    if (pair < pairs_.size()) return pairs_[pair];
    if ((handle & ~0xffff) != 0x4c000000) return nullptr;
    const std::shared_ptr<Datatype>& type = types_[static_cast<std::size_t>(handle & 0xff)];
    return type != nullptr && type->size == static_cast<std::size_t>(handle >> 8 & 0xff) ? type : nullptr;
  }

 private:
  std::array<std::shared_ptr<Datatype>, 256> types_;
  std::array<std::shared_ptr<Datatype>, 5> pairs_;
};

}  // namespace

Number Datatype::true_lower() const noexcept {
  const auto first = std::ranges::min_element(segments, {}, &Segment::at);
  return first == segments.end() ? 0 : first->at;
}

Number Datatype::true_upper() const noexcept {
  Number end = segments.empty() ? 0 : std::numeric_limits<Number>::min();
  for (const Segment& segment : segments)
    end = std::max(end, segment.at + static_cast<Number>(segment.bytes));
  return end;
}

void Datatype::pack(const void* from, Number count, std::byte* to) const noexcept {
  const auto* first = static_cast<const std::byte*>(from);
  for (Number i = 0; i < count; ++i)
    for (const Segment& segment : segments) {
      std::memcpy(to, first + i * extent + segment.at, segment.bytes);
      to += segment.bytes;
    }
}

void Datatype::unpack(const std::byte* from, std::size_t bytes, void* to) const noexcept {
  auto* const first = static_cast<std::byte*>(to);
  for (Number i = 0; bytes != 0 && size != 0; ++i)
    for (const Segment& segment : segments) {
      const std::size_t part = std::min(bytes, segment.bytes);
      std::memcpy(first + i * extent + segment.at, from, part);
      from += part;
      bytes -= part;
      if (bytes == 0) return;
    }
}

Handles<Datatype>& made_datatypes() {
  static auto& all = *new Handles<Datatype>(abi::kMadeDatatype, "datatype", abi::kErrType);
  return all;
}

std::shared_ptr<Datatype> datatype_of(MPI_Datatype handle) {
  static const auto& predefined = *new PredefinedTypes();
  if (handle == abi::kDatatypeNull) fail(abi::kErrType, "the datatype is MPI_DATATYPE_NULL; give one");
  if (std::shared_ptr<Datatype> type = predefined.find(handle)) return type;
  return made_datatypes().at(handle);
}

std::size_t bytes_of(Number count, const Datatype& type) {
  if (count < 0) fail(abi::kErrCount, fmt::format("a count of {}", count));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(count), type.size, &bytes))
    fail(abi::kErrCount,
         fmt::format("{} elements of {} bytes are more than any memory has", count, type.size));
  return bytes;
}

}  // namespace cohort::mpi
