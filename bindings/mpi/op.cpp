// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/mpi/op.h>

#include <cohort_mpi/calls.h>

#include <algorithm>
#include <array>
#include <complex>
#include <concepts>
#include <cstring>
#include <optional>
#include <vector>

namespace cohort::mpi {
namespace {

enum class Operation : std::uint8_t {
  max = 1,
  min,
  sum,
  prod,
  logical_and,
  bit_and,
  logical_or,
  bit_or,
  logical_xor,
  bit_xor,
  min_place,
  max_place,
};
constexpr MPI_Op kFirstOp = 0x58000000;
// Of one-sided communication alone:
constexpr MPI_Op kReplace = 0x5800000d;
constexpr MPI_Op kNoOp = 0x5800000e;

/// Where it is one of MPI's own.
std::optional<Operation> operation_of(MPI_Op op) noexcept {
  const int number = op - kFirstOp;
  const bool is_own =
      number >= static_cast<int>(Operation::max) && number <= static_cast<int>(Operation::max_place);
  return is_own ? std::optional(static_cast<Operation>(number)) : std::nullopt;
}

// What elements become, by type and operation. Sums of integers wrap.

template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

template <class T>
T wrapped(std::uint64_t value) noexcept {
  return static_cast<T>(value);
}

struct Max {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return right > left ? right : left;
  }
};
struct Min {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return right < left ? right : left;
  }
};
struct Sum {
  template <class T>
  T operator()(const T& left, const T& right) const {
    if constexpr (Integer<T>)
      return wrapped<T>(static_cast<std::uint64_t>(left) + static_cast<std::uint64_t>(right));
    else
      return left + right;
  }
};
struct Prod {
  template <class T>
  T operator()(const T& left, const T& right) const {
    if constexpr (Integer<T>)
      return wrapped<T>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
    else
      return left * right;
  }
};
struct LogicalAnd {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>(left != 0 && right != 0);
  }
};
struct LogicalOr {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>(left != 0 || right != 0);
  }
};
struct LogicalXor {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>((left != 0) != (right != 0));
  }
};
struct BitAnd {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>(left & right);
  }
};
struct BitOr {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>(left | right);
  }
};
struct BitXor {
  template <class T>
  T operator()(const T& left, const T& right) const {
    return static_cast<T>(left ^ right);
  }
};

template <class T>
struct Placed {
  T value;
  int index;
};
/// Of equal ones the lower index.
template <class Better>
struct Place {
  template <class T>
  Placed<T> operator()(const Placed<T>& left, const Placed<T>& right) const {
    if (left.value == right.value) return left.index <= right.index ? left : right;
    return Better()(left.value, right.value) == left.value ? left : right;
  }
};

template <class T, class F>
const ElementFunction* function_by() {
  return reduction<T>(F{}).function;
}

template <class T>
const ElementFunction* of_logical(Operation op) {
  switch (op) {
    case Operation::logical_and: return function_by<T, LogicalAnd>();
    case Operation::logical_or: return function_by<T, LogicalOr>();
    case Operation::logical_xor: return function_by<T, LogicalXor>();
    default: return nullptr;
  }
}

template <class T>
const ElementFunction* of_bits(Operation op) {
  switch (op) {
    case Operation::bit_and: return function_by<T, BitAnd>();
    case Operation::bit_or: return function_by<T, BitOr>();
    case Operation::bit_xor: return function_by<T, BitXor>();
    default: return nullptr;
  }
}

template <class T>
const ElementFunction* of_complex(Operation op) {
  switch (op) {
    case Operation::sum: return function_by<T, Sum>();
    case Operation::prod: return function_by<T, Prod>();
    default: return nullptr;
  }
}

template <class T>
const ElementFunction* of_floating(Operation op) {
  switch (op) {
    case Operation::max: return function_by<T, Max>();
    case Operation::min: return function_by<T, Min>();
    default: return of_complex<T>(op);
  }
}

template <class T>
const ElementFunction* of_integer(Operation op) {
  if (const ElementFunction* const logical = of_logical<T>(op)) return logical;
  if (const ElementFunction* const bits = of_bits<T>(op)) return bits;
  return of_floating<T>(op);
}

template <class T>
const ElementFunction* of_placed(Operation op) {
  switch (op) {
    case Operation::min_place: return function_by<Placed<T>, Place<Min>>();
    case Operation::max_place: return function_by<Placed<T>, Place<Max>>();
    default: return nullptr;
  }
}

const ElementFunction* find_function(Element element, Operation op) {
  switch (element) {
    case Element::none: return nullptr;
    case Element::byte: return of_bits<std::uint8_t>(op);
    case Element::int8: return of_integer<std::int8_t>(op);
    case Element::uint8: return of_integer<std::uint8_t>(op);
    case Element::int16: return of_integer<std::int16_t>(op);
    case Element::uint16: return of_integer<std::uint16_t>(op);
    case Element::int32: return of_integer<std::int32_t>(op);
    case Element::uint32: return of_integer<std::uint32_t>(op);
    case Element::int64: return of_integer<std::int64_t>(op);
    case Element::uint64: return of_integer<std::uint64_t>(op);
    case Element::float32: return of_floating<float>(op);
    case Element::float64: return of_floating<double>(op);
    case Element::long_double: return of_floating<long double>(op);
    case Element::boolean: return of_logical<std::uint8_t>(op);
    case Element::complex_float: return of_complex<std::complex<float>>(op);
    case Element::complex_double: return of_complex<std::complex<double>>(op);
    case Element::complex_long_double: return of_complex<std::complex<long double>>(op);
    case Element::float_int: return of_placed<float>(op);
    case Element::double_int: return of_placed<double>(op);
    case Element::long_int: return of_placed<long>(op);
    case Element::two_int: return of_placed<int>(op);
    case Element::short_int: return of_placed<short>(op);
    case Element::long_double_int: return of_placed<long double>(op);
  }
  return nullptr;
}

/// As cohort has it.
std::optional<DataType> data_type_of(Element element) noexcept {
  switch (element) {
    case Element::byte:
    case Element::uint8: return DataType::uint8;
    case Element::int8: return DataType::int8;
    case Element::int16: return DataType::int16;
    case Element::uint16: return DataType::uint16;
    case Element::int32: return DataType::int32;
    case Element::uint32: return DataType::uint32;
    case Element::int64: return DataType::int64;
    case Element::uint64: return DataType::uint64;
    case Element::float32: return DataType::float32;
    case Element::float64: return DataType::float64;
    default: return std::nullopt;
  }
}

std::optional<ReduceOp> reduce_op_of(Operation op) noexcept {
  switch (op) {
    case Operation::max: return ReduceOp::max;
    case Operation::min: return ReduceOp::min;
    case Operation::sum: return ReduceOp::sum;
    case Operation::prod: return ReduceOp::prod;
    case Operation::logical_and: return ReduceOp::logical_and;
    case Operation::bit_and: return ReduceOp::bit_and;
    case Operation::logical_or: return ReduceOp::logical_or;
    case Operation::bit_or: return ReduceOp::bit_or;
    case Operation::logical_xor: return ReduceOp::logical_xor;
    case Operation::bit_xor: return ReduceOp::bit_xor;
    default: return std::nullopt;
  }
}

// Operations of the program's.

struct MadeOp {
  MPI_User_function* function = nullptr;
  MPI_User_function_c* large_function = nullptr;
  bool commutes = false;
};
Handles<MadeOp>& made_ops() {
  static auto& all = *new Handles<MadeOp>(abi::kMadeOp, "operation", abi::kErrOp);
  return all;
}

struct UserFunction : ElementFunction {
  std::shared_ptr<MadeOp> op;
  MPI_Datatype datatype;
};

/// The program's function leaves its result in the right one of the two.
void combine_by_program(const ElementFunction& self, std::byte* left, const std::byte* right,
                        std::size_t count) {
  const auto& user = static_cast<const UserFunction&>(self);
  std::vector<std::byte> result(right, right + count * user.element_bytes);
  MPI_Datatype datatype = user.datatype;
  if (user.op->large_function != nullptr) {
    auto many = static_cast<MPI_Count>(count);
    user.op->large_function(left, result.data(), &many, &datatype);
  } else {
    int many = static_cast<int>(count);
    user.op->function(left, result.data(), &many, &datatype);
  }
  std::memcpy(left, result.data(), result.size());
}

std::shared_ptr<const ElementFunction> function_of_program(MPI_Op op, MPI_Datatype datatype,
                                                           const Datatype& type) {
  if (op == abi::kOpNull) fail(abi::kErrOp, "the operation is MPI_OP_NULL; give one");
  std::shared_ptr<MadeOp> made = made_ops().at(op);
  const auto bytes = static_cast<std::size_t>(type.extent);
  if (bytes > kMostElementBytes)
    fail(abi::kErrUnsupportedOperation,
         fmt::format(
             "an operation of the program's on elements of {} bytes; cohort combines such of at most {}",
             bytes, kMostElementBytes));
  auto function = std::make_shared<UserFunction>();
  function->combine = combine_by_program;
  function->element_bytes = bytes;
  function->type_name = []() -> std::string_view { return "of MPI_Op_create"; };
  function->op = std::move(made);
  function->datatype = datatype;
  return function;
}

std::shared_ptr<Datatype> reducible(MPI_Datatype datatype) {
  std::shared_ptr<Datatype> type = datatype_of(datatype);
  const bool is_pair = type->recipe.combiner == abi::kCombinerNamed && !type->is_contiguous();
  if (!type->is_contiguous() && !is_pair)
    fail(abi::kErrUnsupportedOperation, "a reduction of a datatype with gaps, which cohort does not have");
  return type;
}

[[noreturn]] void refuse(const Datatype& type) {
  fail(abi::kErrOp, fmt::format("MPI defines no such operation on elements of {}",
                                type.name.get().empty() ? "that datatype" : type.name.get()));
}

}  // namespace

std::shared_ptr<const ElementFunction> function_of(MPI_Op op, MPI_Datatype datatype) {
  const std::shared_ptr<Datatype> type = reducible(datatype);
  const std::optional<Operation> operation = operation_of(op);
  if (!operation) return function_of_program(op, datatype, *type);
  const ElementFunction* const function = find_function(type->element, *operation);
  if (function == nullptr) refuse(*type);
  return {std::shared_ptr<void>(), function};
}

Reduction reduction_of(MPI_Op op, MPI_Datatype datatype) {
  const std::optional<Operation> operation = operation_of(op);
  const std::shared_ptr<Datatype> type = reducible(datatype);
  if (operation) {
    const std::optional<DataType> of = data_type_of(type->element);
    const std::optional<ReduceOp> by = reduce_op_of(*operation);
    if (find_function(type->element, *operation) == nullptr) refuse(*type);
    if (of && by) return {*of, *by};
  }
  return {.function = function_of(op, datatype)};
}

void op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  if (function == nullptr) fail(abi::kErrArg, "the function is null; give one");
  *op = made_ops().add(std::make_shared<MadeOp>(MadeOp{.function = function, .commutes = commutes != 0}));
}
void op_create_c(MPI_User_function_c* function, int commutes, MPI_Op* op) {
  if (function == nullptr) fail(abi::kErrArg, "the function is null; give one");
  *op =
      made_ops().add(std::make_shared<MadeOp>(MadeOp{.large_function = function, .commutes = commutes != 0}));
}
void op_free(MPI_Op* op) {
  made_ops().remove(*op);
  *op = abi::kOpNull;
}
void op_commutative(MPI_Op op, int* commutes) {
  if (op == kReplace || op == kNoOp) {
    *commutes = 0;
    return;
  }
  *commutes = operation_of(op) || made_ops().at(op)->commutes ? 1 : 0;
}

/// inout = in op inout.
void reduce_local(const void* in, void* inout, Number count, MPI_Datatype datatype, MPI_Op op) {
  const std::shared_ptr<const ElementFunction> function = function_of(op, datatype);
  const auto bytes = static_cast<std::size_t>(datatype_of(datatype)->extent * std::max<Number>(count, 0));
  (void)bytes_of(count, *datatype_of(datatype));
  if (bytes == 0) return;
  const auto* const first = static_cast<const std::byte*>(in);
  std::vector<std::byte> left(first, first + bytes);
  function->combine(*function, left.data(), static_cast<const std::byte*>(inout),
                    static_cast<std::size_t>(count));
  std::memcpy(inout, left.data(), bytes);
}

}  // namespace cohort::mpi
