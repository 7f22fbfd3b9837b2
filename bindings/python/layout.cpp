// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/python/layout.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cohort::python {
namespace {

bool fit(const TensorLayout& a, const TensorLayout& b) {
  const bool have_one_type = a.type == b.type && a.unit == b.unit && a.is_truth_values == b.is_truth_values;
  return have_one_type && a.dimensions == b.dimensions &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

Error refuse_uneven(std::string_view call, std::size_t rows, Rank ranks, bool may_be_uneven) {
  const std::size_t padded = (rows + ranks - 1) / ranks * ranks;
  return {ErrorKind::InvalidArgument,
          fmt::format(
              "{} of {} rows (the first dimension) cannot be split evenly over {} ranks; pad the tensor with "
              "{} neutral rows to {} on every rank{}",
              call, rows, ranks, padded - rows, padded,
              may_be_uneven ? ", or give uneven=True for shares that differ by one row" : "")};
}

}  // namespace

std::size_t TensorLayout::rows() const noexcept {
  return dimensions == 0 ? 1 : static_cast<std::size_t>(std::max<std::int64_t>(shape[0], 0));
}

std::string TensorLayout::describe() const {
  std::vector<py::ssize_t> extents(shape.begin(),
                                   shape.begin() + std::min<std::size_t>(dimensions, kMostDimensions));
  const auto of = static_cast<DataType>(type);
  std::string name = is_truth_values != 0 ? "bool" : std::string(to_string(of));
  if (unit != 1)
    name = of == DataType::byte ? fmt::format("elements of {} bytes", unit) : "complex of " + name;
  return fmt::format("{} of shape {}", name, shape_text(extents));
}

TensorLayout layout_of(const Tensor& tensor) {
  TensorLayout layout;
  const auto shape = tensor.shape();
  if (shape.size() > TensorLayout::kMostDimensions)
    throw py::value_error(
        fmt::format("{} dimensions; ranks tell each other of at most {}: reshape it, or give sizes",
                    shape.size(), TensorLayout::kMostDimensions));
  layout.type = static_cast<std::uint8_t>(tensor.type());
  layout.is_truth_values = tensor.is_truth_values() ? 1 : 0;
  layout.is_torch = tensor.is_torch() ? 1 : 0;
  layout.dimensions = static_cast<std::uint8_t>(shape.size());
  layout.unit = static_cast<std::uint32_t>(tensor.unit());
  std::copy(shape.begin(), shape.end(), layout.shape.begin());
  return layout;
}

void check_rows_fit(std::string_view call, const std::string& name, std::span<const TensorLayout> all) {
  const auto differs = [&](const TensorLayout& from) {
    return std::ranges::find_if(all, [&](const TensorLayout& one) { return !fit(one, from); }) - all.begin();
  };
  const auto odd = static_cast<std::size_t>(differs(all[0]));
  if (odd == all.size()) return;
  // Who most others contradict: rank 0, if it stands alone.
  const auto with_first =
      std::ranges::count_if(all, [&](const TensorLayout& one) { return fit(one, all[0]); });
  const bool is_first = all.size() > 2 && with_first == 1;
  throw Error(
      ErrorKind::Mismatch,
      fmt::format("{} on '{}': rank 0 gives {}, rank {} gives {}; give the same type, and the same shape "
                  "but for the first dimension, on every rank",
                  call, name, all[0].describe(), odd, all[odd].describe()))
      .with_culprit(static_cast<Rank>(is_first ? 0 : odd));
}

py::object make_by_layout(const TensorLayout& layout, std::size_t rows) {
  const auto type = static_cast<DataType>(layout.type);
  const bool is_known = layout.type < kDataTypeCount && layout.dimensions <= TensorLayout::kMostDimensions &&
                        std::ranges::all_of(layout.shape, [](std::int64_t extent) { return extent >= 0; });
  if (!is_known) throw Error(ErrorKind::ProtocolError, "the root describes a tensor that there cannot be");
  std::vector<py::ssize_t> shape(layout.shape.begin(), layout.shape.begin() + layout.dimensions);
  if (shape.empty()) shape.push_back(1);
  shape.front() = static_cast<py::ssize_t>(rows);
  std::string name = layout.is_truth_values != 0 ? "bool" : std::string(to_string(type));
  if (layout.unit == 2 && type != DataType::byte)
    name = type == DataType::float32 ? "complex64" : "complex128";
  if (type == DataType::byte) name = fmt::format("V{}", layout.unit);
  if (layout.is_torch != 0) {
    const py::module_ torch = py::module_::import("torch");
    return torch.attr("empty")(tuple_of(shape), py::arg("dtype") = torch.attr(name.c_str()));
  }
  if (type == DataType::bfloat16) name = "uint16";
  return py::module_::import("numpy").attr("empty")(tuple_of(shape), py::str(name));
}

py::object make_result_of(Operator op, const Tensor& in, Rank ranks) {
  if (op == operator_of<AllGather>) return in.make_with_rows(in.rows() * ranks);
  if (op != operator_of<ReduceScatter>) return in.make_like(in.shape());
  if (in.rows() % ranks != 0) throw uneven_rows(to_string(op), in, ranks);
  return in.make_with_rows(in.rows() / ranks);
}

std::vector<std::size_t> split_rows(std::size_t rows, Rank ranks) {
  std::vector<std::size_t> shares(ranks, rows / ranks);
  for (std::size_t i = 0; i < rows % ranks; ++i) ++shares[i];
  return shares;
}

std::vector<std::size_t> in_elements(std::vector<std::size_t> rows, std::size_t row_elements) {
  for (std::size_t& count : rows) count *= row_elements;
  return rows;
}

Error uneven_rows(std::string_view call, const Tensor& tensor, Rank ranks) {
  return refuse_uneven(call, tensor.rows(), ranks, call == "reduce_scatter");
}

Error uneven_rows(std::string_view call, const TensorLayout& layout, Rank ranks) {
  return refuse_uneven(call, layout.rows(), ranks, false);
}

Combination combination_of(const py::object& reduction, const Tensor& tensor, std::string_view call) {
  Combination combination = ReduceOp::sum;
  if (PyUnicode_Check(reduction.ptr()) != 0) {
    const auto name = reduction.cast<std::string_view>();
    const auto op = parse_reduce_op(name);
    if (!op || *op == ReduceOp::scaled_sum) {
      std::vector<std::string_view> names;
      for (const ReduceOp known : kReduceOps)
        if (known != ReduceOp::scaled_sum) names.push_back(to_string(known));
      throw py::value_error(fmt::format("{}: op='{}' is not one of {} and cohort.scaled_sum(factor)", call,
                                        name, fmt::join(names, ", ")));
    }
    combination = *op;
  } else if (py::hasattr(reduction, "factor")) {
    combination = scaled_sum(reduction.attr("factor").cast<double>());
  } else {
    throw py::type_error(fmt::format("{}: op is {}; give a name, as op='sum', or cohort.scaled_sum(factor)",
                                     call, py::repr(reduction).cast<std::string>()));
  }
  const bool adds = combination.op == ReduceOp::sum || combination.op == ReduceOp::avg ||
                    combination.op == ReduceOp::scaled_sum;
  if (tensor.is_truth_values() && (adds || combination.op == ReduceOp::prod))
    throw py::type_error(
        fmt::format("{}: {} of bool; give op='logical_or', 'logical_and', 'max' or 'min', or numbers", call,
                    to_string(combination.op)));
  if (tensor.unit() == 2 && tensor.type() != DataType::byte && !adds)
    throw py::type_error(fmt::format("{}: {} of complex numbers; they can be added (op='sum', 'avg')", call,
                                     to_string(combination.op)));
  return combination;
}

std::string known_types() {
  std::vector<std::string_view> names;
  for (const DataType type : kDataTypes) names.push_back(to_string(type));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace cohort::python
