// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/data_type.h>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::python {

namespace py = pybind11;

/// What an object with the buffer protocol lends, given back at the end. Threads: with the interpreter's
/// lock.
class BufferView {
 public:
  BufferView() = default;
  BufferView(BufferView&& other) noexcept : view_(std::exchange(other.view_, std::nullopt)) {}
  BufferView& operator=(BufferView&&) = delete;
  ~BufferView() {
    if (view_) PyBuffer_Release(&*view_);
  }

  /// False: the object does not lend it so. Requires that nothing has been taken.
  [[nodiscard]] bool take(PyObject* object, int flags);
  [[nodiscard]] const Py_buffer* operator->() const noexcept { return &*view_; }
  [[nodiscard]] explicit operator bool() const noexcept { return view_.has_value(); }

 private:
  std::optional<Py_buffer> view_;
};

/// What the library knows of a Python object that holds elements: where they lie, what they are.
///
/// numpy arrays and whatever else has the buffer protocol, tensors of torch in CPU memory, and what speaks
/// DLPack. Nothing is copied: the object, and the memory in it, is held as long as this lives. Threads: with
/// the interpreter's lock, its end too; bytes() also without.
class Tensor {
 public:
  /// Of an argument called `name` of `call`, or of the one at that place in a list, for errors. `as`: what
  /// its elements are to be taken for, of the same size, as bfloat16 in an array of uint16. Throws TypeError
  /// for what has no such memory, with the fix: read-only (where it is written to), strided, byte-swapped, on
  /// another device.
  Tensor(py::handle object, std::string_view call, std::string_view name, bool is_written,
         std::optional<DataType> as = std::nullopt, std::optional<std::size_t> place = std::nullopt);
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor() = default;

  /// The caller's.
  [[nodiscard]] const py::object& object() const noexcept { return like_ ? like_ : object_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_bytes_}; }
  /// Bytes, for elements that can be moved and not combined.
  [[nodiscard]] DataType type() const noexcept { return type_; }
  /// What the library counts for one element of the caller's: 2 for complex numbers, the bytes for others
  /// that are only moved.
  [[nodiscard]] std::size_t unit() const noexcept { return unit_; }
  [[nodiscard]] std::size_t element_bytes() const noexcept { return unit_ * size_bytes(type_); }
  [[nodiscard]] bool is_truth_values() const noexcept { return is_truth_values_; }
  [[nodiscard]] std::span<const py::ssize_t> shape() const noexcept { return shape_; }
  /// The first dimension; 1 of a single value.
  [[nodiscard]] std::size_t rows() const noexcept {
    return shape_.empty() ? 1 : static_cast<std::size_t>(shape_.front());
  }
  /// Of the library's elements, in one of the rows.
  [[nodiscard]] std::size_t row_elements() const noexcept;
  [[nodiscard]] bool is_torch() const noexcept { return kind_ == Kind::torch; }

  /// A new one of the same kind, library and type, with that shape.
  [[nodiscard]] py::object make_like(std::span<const py::ssize_t> shape) const;
  /// The same with another number of rows.
  [[nodiscard]] py::object make_with_rows(std::size_t rows) const;
  /// "float32 of shape (2, 3)".
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::string type_name() const;

  /// Numbers, complex numbers, truth values and what is only moved differ, whatever they are made of.
  [[nodiscard]] bool is_of_type_of(const Tensor& other) const noexcept {
    return type_ == other.type_ && unit_ == other.unit_ && is_truth_values_ == other.is_truth_values_;
  }
  /// Throws TypeError unless both have elements of one type.
  void check_same_type(const Tensor& other, std::string_view call) const;

 private:
  enum class Kind : std::uint8_t { buffer, torch, dlpack };

  void take(bool is_written);
  bool try_numpy(bool is_written);
  void take_buffer(bool is_written);
  bool try_as_bytes(int flags);
  void take_torch();
  void take_dlpack();
  void set_elements(std::string_view format, std::size_t item_bytes);
  void reinterpret_as(DataType type);
  void check_strides(const py::ssize_t* strides, std::size_t unit_bytes) const;
  [[noreturn]] void refuse(const std::string& why) const;
  [[nodiscard]] std::size_t elements() const noexcept;

  py::object object_;
  std::string_view call_;
  std::string_view name_;
  std::optional<std::size_t> place_;
  Kind kind_ = Kind::buffer;
  BufferView buffer_;
  py::object capsule_;  ///< of DLPack
  py::object memory_;   ///< of torch: a tensor on the elements that object_ had
  py::object like_;     ///< what object_ is a view of, if it is one
  std::optional<DataType> known_type_;
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  DataType type_ = DataType::byte;
  std::size_t unit_ = 1;
  bool is_truth_values_ = false;
  std::string moved_name_;  ///< of elements that are only moved
  std::vector<py::ssize_t> shape_;
};

[[nodiscard]] py::tuple tuple_of(std::span<const py::ssize_t> shape);
/// "(2, 3)", as Python writes it.
[[nodiscard]] std::string shape_text(std::span<const py::ssize_t> shape);

}  // namespace cohort::python
