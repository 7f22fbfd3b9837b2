// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/tensor.h>

#include <cohort/bindings/python/dlpack.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/numpy.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace cohort::python {
namespace {

struct Format {
  char letter;  ///< of PEP 3118, for elements in the machine's own sizes
  DataType type;
};
constexpr std::array kFormats = {
    Format{'f', DataType::float32}, Format{'d', DataType::float64}, Format{'e', DataType::float16},
    Format{'b', DataType::int8},    Format{'h', DataType::int16},   Format{'i', DataType::int32},
    Format{'B', DataType::uint8},   Format{'H', DataType::uint16},  Format{'I', DataType::uint32},
};

/// l and q are as long as the platform, or a '<' before them, says.
std::optional<DataType> type_of(char letter, std::size_t bytes) {
  for (const Format& format : kFormats)
    if (format.letter == letter && size_bytes(format.type) == bytes) return format.type;
  const bool is_signed = letter == 'l' || letter == 'q' || letter == 'n';
  const bool is_unsigned = letter == 'L' || letter == 'Q' || letter == 'N';
  if (!is_signed && !is_unsigned) return std::nullopt;
  if (bytes == 4) return is_signed ? DataType::int32 : DataType::uint32;
  if (bytes == 8) return is_signed ? DataType::int64 : DataType::uint64;
  return std::nullopt;
}

/// What torch calls its types.
struct TorchType {
  std::string_view name;
  std::string_view format;
  std::size_t bytes;
};
constexpr std::array kTorchTypes = {
    TorchType{"torch.float32", "f", 4},    TorchType{"torch.float64", "d", 8},
    TorchType{"torch.float16", "e", 2},    TorchType{"torch.bfloat16", "bfloat16", 2},
    TorchType{"torch.int8", "b", 1},       TorchType{"torch.int16", "h", 2},
    TorchType{"torch.int32", "i", 4},      TorchType{"torch.int64", "q", 8},
    TorchType{"torch.uint8", "B", 1},      TorchType{"torch.bool", "?", 1},
    TorchType{"torch.complex64", "Zf", 8}, TorchType{"torch.complex128", "Zd", 16},
};

constexpr std::string_view kArrayName = "numpy.ndarray";

/// PEP 3118's letters and the bytes of numpy's numbers of types, which are the same in all its versions.
struct NumpyType {
  std::string_view letter;
  std::size_t bytes;
};
constexpr std::array kNumpyTypes = {
    NumpyType{"?", 1},
    NumpyType{"b", 1},
    NumpyType{"B", 1},
    NumpyType{"h", 2},
    NumpyType{"H", 2},
    NumpyType{"i", 4},
    NumpyType{"I", 4},
    NumpyType{"l", sizeof(long)},
    NumpyType{"L", sizeof(long)},
    NumpyType{"q", 8},
    NumpyType{"Q", 8},
    NumpyType{"f", 4},
    NumpyType{"d", 8},
};
constexpr NumpyType kNumpyFloat16 = {"e", 2};
constexpr int kNumberOfNumpyFloat16 = 23;

const NumpyType* numpy_type_of(int number) {
  if (number == kNumberOfNumpyFloat16) return &kNumpyFloat16;
  const auto index = static_cast<std::size_t>(number);  // of a negative one: past the end
  return index < kNumpyTypes.size() ? &kNumpyTypes[index] : nullptr;
}

bool is_tensor_of_torch(py::handle object) {
  static PyTypeObject* known = nullptr;  // the last type that was one: nearly always torch.Tensor
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (type == known) return true;
  const py::object module = py::getattr(reinterpret_cast<PyObject*>(type), "__module__", py::str(""));
  const bool is_one =
      py::isinstance<py::str>(module) &&
      (module.cast<std::string>() == "torch" || module.cast<std::string>().starts_with("torch.")) &&
      py::hasattr(object, "data_ptr");
  if (is_one) known = type;
  return is_one;
}

bool is_array_of_numpy(py::handle object) {
  static PyTypeObject* known = nullptr;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (type == known) return true;
  // A class that a program writes has no module in this name.
  const bool is_one = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 && type->tp_name == kArrayName;
  if (is_one) known = type;
  return is_one;
}

py::object numpy_empty(std::span<const py::ssize_t> shape, const py::object& dtype) {
  // Left where it lies: an interpreter that ends has nothing to release it with.
  static const py::handle empty = py::object(py::module_::import("numpy").attr("empty")).release();
  return empty(tuple_of(shape), dtype);
}

}  // namespace

py::tuple tuple_of(std::span<const py::ssize_t> shape) {
  py::tuple extents(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) extents[i] = shape[i];
  return extents;
}

std::string shape_text(std::span<const py::ssize_t> shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape.front())
                           : fmt::format("({})", fmt::join(shape, ", "));
}

bool BufferView::take(PyObject* object, int flags) {
  if (PyObject_GetBuffer(object, &view_.emplace(), flags) == 0) return true;
  view_.reset();
  PyErr_Clear();
  return false;
}

Tensor::Tensor(py::handle object, std::string_view call, std::string_view name, bool is_written,
               std::optional<DataType> as, std::optional<std::size_t> place)
    : object_(py::reinterpret_borrow<py::object>(object)), call_(call), name_(name), place_(place) {
  const bool is_taken = is_array_of_numpy(object) && try_numpy(is_written);
  if (!is_taken) take(is_written);
  size_bytes_ = elements() * element_bytes();
  if (as) reinterpret_as(*as);
}

void Tensor::take(bool is_written) {
  if (PyObject_CheckBuffer(object_.ptr()) != 0)
    take_buffer(is_written);
  else if (is_tensor_of_torch(object_))
    take_torch();
  else if (py::hasattr(object_, "__dlpack__"))
    take_dlpack();
  else if (place_ && PyNumber_Check(object_.ptr()) != 0)
    refuse(fmt::format(
        "is a number, and a list is one of tensors here: give numpy.array({}) in place of a list of numbers",
        name_));
  else
    refuse(
        fmt::format("is {}, which has no elements in memory: give a numpy array, as numpy.array(x), a torch "
                    "tensor, or an object with the buffer protocol or DLPack",
                    py::repr(py::type::of(object_)).cast<std::string>()));
}

void Tensor::refuse(const std::string& why) const {
  const std::string place = place_ ? fmt::format("[{}]", *place_) : "";
  throw py::type_error(fmt::format("{}: `{}{}` {}", call_, name_, place, why));
}

std::size_t Tensor::elements() const noexcept {
  std::size_t count = 1;
  for (const py::ssize_t extent : shape_) count *= static_cast<std::size_t>(extent);
  return count;
}

std::size_t Tensor::row_elements() const noexcept {
  std::size_t count = unit_;
  for (std::size_t i = 1; i < shape_.size(); ++i) count *= static_cast<std::size_t>(shape_[i]);
  return count;
}

void Tensor::check_strides(const py::ssize_t* strides, std::size_t unit_bytes) const {
  if (strides == nullptr || elements() <= 1) return;
  auto expected = static_cast<py::ssize_t>(unit_bytes);
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] != 1 && strides[i] != expected)
      refuse(fmt::format("of shape {} is strided: its elements do not lie one behind the other; give {}",
                         shape_text(shape_),
                         kind_ == Kind::torch ? "tensor.contiguous()" : "numpy.ascontiguousarray(array)"));
    expected *= shape_[i];
  }
}

/// What the elements are, by their letter: what is no type of the library's can still be moved.
void Tensor::set_elements(std::string_view format, std::size_t item_bytes) {
  if (!format.empty() && (format.front() == '>' || format.front() == '!')) {
    const bool is_swapped = std::endian::native == std::endian::little && item_bytes > 1;
    if (is_swapped)
      refuse("has its bytes swapped (big-endian): give array.astype(array.dtype.newbyteorder('='))");
    format.remove_prefix(1);
  } else if (!format.empty() && (format.front() == '<' || format.front() == '=' || format.front() == '@')) {
    format.remove_prefix(1);
  }
  if (format == "O")
    refuse("holds Python objects, which mean nothing to other ranks: give numbers, or pickled bytes");
  is_truth_values_ = format == "?";
  if (is_truth_values_) {
    type_ = DataType::uint8;
  } else if (format == "bfloat16") {
    type_ = DataType::bfloat16;
  } else if (format == "Zf" || format == "Zd") {
    type_ = format == "Zf" ? DataType::float32 : DataType::float64;
    unit_ = 2;
  } else if (const auto type = format.size() == 1 ? type_of(format.front(), item_bytes) : std::nullopt) {
    type_ = *type;
  } else {
    type_ = DataType::byte;
    unit_ = item_bytes;
    moved_name_ = fmt::format("elements of {} bytes (format '{}')", item_bytes, format);
  }
}

/// numpy's protocol knows no letter for dates, nor for types of others such as bfloat16: taken for bytes.
bool Tensor::try_as_bytes(int flags) {
  if (!py::hasattr(object_, "dtype") || !py::hasattr(object_, "view")) return false;
  const py::object type = object_.attr("dtype");
  if (type.attr("hasobject").cast<bool>()) return false;
  const bool is_bfloat16 = py::str(type.attr("name")).cast<std::string>() == "bfloat16";
  like_ = object_;
  object_ =
      object_.attr("view")(is_bfloat16 ? "uint16" : fmt::format("V{}", type.attr("itemsize").cast<int>()));
  if (!buffer_.take(object_.ptr(), flags)) return false;
  if (is_bfloat16) known_type_ = DataType::bfloat16;
  return true;
}

/// What nearly all calls bring, past the buffer protocol, which writes texts about it first and takes longer
/// than a small collective. What is refused is told by those who take it on.
bool Tensor::try_numpy(bool is_written) {
  const auto array = py::reinterpret_borrow<py::array>(object_);
  const py::dtype type = array.dtype();
  const NumpyType* const known = numpy_type_of(type.num());
  const bool is_native = type.byteorder() == '=' || type.byteorder() == '|';
  const bool is_in_one_piece = (array.flags() & py::array::c_style) != 0;
  if (known == nullptr || !is_native || !is_in_one_piece || (is_written && !array.writeable())) return false;
  const auto* const extents = array.shape();
  shape_.assign(extents, extents + array.ndim());
  data_ = static_cast<std::byte*>(const_cast<void*>(array.data()));
  set_elements(known->letter, known->bytes);
  return true;
}

void Tensor::take_buffer(bool is_written) {
  const int readable = PyBUF_FORMAT | PyBUF_STRIDES;
  const int flags = readable | (is_written ? PyBUF_WRITABLE : 0);
  if (!buffer_.take(object_.ptr(), flags) && !try_as_bytes(flags)) {
    if (is_written && buffer_.take(object_.ptr(), readable))
      refuse("is read-only, and is written to: give a copy, as numpy.array(x), or another `out`");
    refuse("does not give its memory away by the buffer protocol: give an array of numbers");
  }
  shape_.assign(buffer_->shape, buffer_->shape + buffer_->ndim);
  data_ = static_cast<std::byte*>(buffer_->buf);
  const std::string_view format = buffer_->format == nullptr ? "B" : buffer_->format;
  set_elements(format, static_cast<std::size_t>(buffer_->itemsize));
  if (known_type_) type_ = *known_type_;
  check_strides(buffer_->strides, static_cast<std::size_t>(buffer_->itemsize));
}

void Tensor::take_torch() {
  kind_ = Kind::torch;
  // Its own hold on the elements: the program may give the tensor others, by `tensor.data = ...`.
  memory_ = object_.attr("detach")();
  const py::str device = py::str(memory_.attr("device").attr("type"));
  if (device.cast<std::string>() != "cpu")
    refuse(fmt::format("lies on the device '{}': give tensor.cpu()", device.cast<std::string>()));
  const std::string type = py::str(memory_.attr("dtype"));
  const auto* const known = std::find_if(kTorchTypes.begin(), kTorchTypes.end(),
                                         [&](const TorchType& t) { return t.name == type; });
  if (known == kTorchTypes.end()) refuse(fmt::format("has elements of {}, which are not known here", type));
  if (py::str(memory_.attr("layout")).cast<std::string>() != "torch.strided")
    refuse("is sparse: give tensor.to_dense()");
  if (memory_.attr("is_conj")().cast<bool>())
    refuse("is conjugated only when it is read: give tensor.resolve_conj()");
  if (memory_.attr("is_neg")().cast<bool>())
    refuse("is negated only when it is read: give tensor.resolve_neg()");
  for (const py::handle extent : memory_.attr("shape")) shape_.push_back(extent.cast<py::ssize_t>());
  set_elements(known->format, known->bytes);
  if (!memory_.attr("is_contiguous")().cast<bool>()) {
    std::vector<py::ssize_t> strides;
    for (const py::handle stride : memory_.attr("stride")()) strides.push_back(stride.cast<py::ssize_t>());
    check_strides(strides.data(), 1);
  }
  data_ = reinterpret_cast<std::byte*>(memory_.attr("data_ptr")().cast<std::uintptr_t>());
}

void Tensor::take_dlpack() {
  kind_ = Kind::dlpack;
  capsule_ = object_.attr("__dlpack__")();
  auto* const managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), "dltensor"));
  if (managed == nullptr) throw py::error_already_set();
  const dlpack::Tensor& tensor = managed->tensor;
  if (tensor.device_type != dlpack::kCpu)
    refuse(
        fmt::format("lies on another device (DLPack's number {}): copy it to the CPU", tensor.device_type));
  shape_.assign(tensor.shape, tensor.shape + tensor.dimensions);
  if (tensor.lanes != 1) refuse("has elements of several lanes");
  if (tensor.bits == 0 || tensor.bits % 8 != 0)
    refuse(fmt::format("has elements of {} bits: give such of whole bytes", tensor.bits));
  const dlpack::Element element = dlpack::element_of(tensor);
  set_elements(element.format, element.bytes);
  std::vector<py::ssize_t> strides;
  if (tensor.strides != nullptr) strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
  check_strides(strides.empty() ? nullptr : strides.data(), 1);
  data_ = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

void Tensor::reinterpret_as(DataType type) {
  if (size_bytes(type) != element_bytes())
    refuse(fmt::format("has elements of {} bytes, which cannot be taken for {}", element_bytes(),
                       to_string(type)));
  type_ = type;
  unit_ = 1;
  is_truth_values_ = false;
}

py::object Tensor::make_like(std::span<const py::ssize_t> shape) const {
  if (kind_ == Kind::torch) return object_.attr("new_empty")(tuple_of(shape));
  const py::object& like = object();
  if (py::hasattr(like, "dtype") && kind_ == Kind::buffer) return numpy_empty(shape, like.attr("dtype"));
  const char* const format = buffer_ && buffer_->format != nullptr ? buffer_->format : nullptr;
  if (kind_ == Kind::buffer) return numpy_empty(shape, py::str(format == nullptr ? "B" : format));
  return numpy_empty(shape, py::str(std::string(to_string(type_))));
}

py::object Tensor::make_with_rows(std::size_t rows) const {
  std::vector<py::ssize_t> shape(shape_.begin(), shape_.end());
  if (shape.empty()) shape.push_back(0);
  shape.front() = static_cast<py::ssize_t>(rows);
  return make_like(shape);
}

std::string Tensor::type_name() const {
  if (is_truth_values_) return "bool";
  if (unit_ == 2 && type_ != DataType::byte) return type_ == DataType::float32 ? "complex64" : "complex128";
  return type_ == DataType::byte ? moved_name_ : std::string(to_string(type_));
}

std::string Tensor::describe() const {
  return fmt::format("{} of shape {}", type_name(), shape_text(shape_));
}

void Tensor::check_same_type(const Tensor& other, std::string_view call) const {
  if (!is_of_type_of(other))
    throw py::type_error(fmt::format("{}: `{}` has {}, `{}` has {}; give both one type", call, name_,
                                     type_name(), other.name_, other.type_name()));
}

}  // namespace cohort::python
