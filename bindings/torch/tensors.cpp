// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/tensors.h>

#include <cohort/engine/system/copy_bytes.h>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>

namespace cohort::torch_face {
namespace {

const std::byte* begin_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data_ptr());
}
const std::byte* end_of(const at::Tensor& tensor) { return begin_of(tensor) + tensor.nbytes(); }

/// Whether they are one piece of one storage, in their order.
bool lie_behind_each_other(const std::vector<at::Tensor>& tensors) {
  const std::byte* next = begin_of(tensors.front());
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    const bool fits = tensor.layout() == at::kStrided &&
                      tensor.scalar_type() == tensors.front().scalar_type() && tensor.device().is_cpu() &&
                      tensor.is_contiguous() && tensor.is_alias_of(tensors.front()) &&
                      begin_of(tensor) == next;
    next = fits ? end_of(tensor) : nullptr;
    return fits;
  });
}

bool is_whole(const at::Tensor& part, const at::Tensor& own) {
  return begin_of(part) == begin_of(own) && part.nbytes() == own.nbytes();
}

/// Whether `other` has nothing of what lies from the first to the last.
bool lie_apart(const at::Tensor& first, const at::Tensor& last, const at::Tensor& other) {
  const std::less_equal<const std::byte*> is_before;
  return is_before(end_of(other), begin_of(first)) || is_before(end_of(last), begin_of(other));
}

/// Whether a call may take both: they are apart, or `part` is the whole of `own`.
bool may_be_taken(const at::Tensor& first, const at::Tensor& last, const at::Tensor& part,
                  const at::Tensor& own) {
  return lie_apart(first, last, part) || is_whole(part, own);
}

bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.is_contiguous() &&
         !tensor.is_conj() && !tensor.is_neg();
}

/// Torch takes longer to find out how to copy than a small copy takes, and one of its threads copies more
/// slowly than memcpy. What is larger it may share out over several threads, and what takes more than copying
/// bytes is its own.
bool is_copied_as_bytes(const at::Tensor& tensor, const at::Tensor& flat) {
  constexpr std::size_t kMostBytes = std::size_t{2} << 20;
  return tensor.nbytes() <= kMostBytes && tensor.scalar_type() == flat.scalar_type() && is_dense(tensor);
}

std::byte* place_in(const at::Tensor& flat, std::int64_t element) {
  return static_cast<std::byte*>(flat.data_ptr()) +
         static_cast<std::size_t>(element) * static_cast<std::size_t>(flat.element_size());
}

}  // namespace

std::string type_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kComplexFloat: return "float32";
    case at::kDouble:
    case at::kComplexDouble: return "float64";
    case at::kHalf:
    case at::kComplexHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    case at::kChar: return "int8";
    case at::kShort: return "int16";
    case at::kInt: return "int32";
    case at::kLong: return "int64";
    case at::kByte:
    case at::kBool: return "uint8";
    case at::kUInt16: return "uint16";
    case at::kUInt32: return "uint32";
    case at::kUInt64: return "uint64";
    default: return kBytes;
  }
}

std::size_t unit_of(const at::Tensor& tensor) {
  if (tensor.is_complex()) return 2;
  return type_name(tensor) == kBytes ? static_cast<std::size_t>(tensor.element_size()) : 1;
}
std::size_t elements_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * unit_of(tensor);
}

void check(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu(), "cohort: tensors must be in CPU memory, this one is on ",
              tensor.device(), ": give tensor.cpu()");
  TORCH_CHECK(tensor.layout() == at::kStrided, "cohort: tensors must be dense: give tensor.to_dense()");
}

at::Tensor readable(const at::Tensor& tensor) {
  if (is_dense(tensor)) return tensor;
  const at::NoGradGuard no_gradients;
  return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor writable(const at::Tensor& tensor) {
  if (is_dense(tensor)) return tensor;
  TORCH_CHECK(
      at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
      "cohort: elements of the tensor share their memory, and cannot be written: give tensor.clone()");
  const at::NoGradGuard no_gradients;
  return at::empty(tensor.sizes(), tensor.options());
}

at::Tensor changeable(const at::Tensor& tensor) {
  if (is_dense(tensor)) return tensor;
  const at::Tensor memory = writable(tensor);
  const at::NoGradGuard no_gradients;
  return memory.copy_(tensor);
}

std::function<void()> copying_back(const at::Tensor& memory, const at::Tensor& tensor) {
  if (memory.is_same(tensor)) return nullptr;
  return [memory, tensor] {
    const at::NoGradGuard no_gradients;
    tensor.copy_(memory);
  };
}

void check_same_type(const at::Tensor& output, const at::Tensor& input, const char* what) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "cohort: ", what, ": the output holds ",
              output.scalar_type(), ", the input ", input.scalar_type(), ": give both one type");
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, "cohort: ", what, " takes a single tensor on each rank, not ",
              tensors.size());
  check(tensors[0]);
  return tensors[0];
}

Memory memory_of(const at::Tensor& tensor) { return {tensor.data_ptr(), tensor.nbytes()}; }

at::Tensor flat_of(const std::vector<at::Tensor>& tensors, const at::Tensor& beside, std::size_t place,
                   Scratch& scratch) {
  if (!lie_behind_each_other(tensors) ||
      !may_be_taken(tensors.front(), tensors.back(), beside, tensors.at(place)))
    return scratch.flat_like(tensors);
  const at::NoGradGuard no_gradients;
  std::int64_t count = 0;
  for (const at::Tensor& tensor : tensors) count += tensor.numel();
  return tensors.front().as_strided({count}, {1});
}

std::vector<void*> blocks_apart(const std::vector<at::Tensor>& tensors, const at::Tensor& beside,
                                std::size_t place) {
  std::vector<void*> blocks;
  if (beside.nbytes() == 0 || lie_behind_each_other(tensors)) return blocks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    const bool is_own = i == place && is_whole(beside, tensor);
    if (!is_dense(tensor) || (!is_own && !lie_apart(tensor, tensor, beside))) return {};
    blocks.push_back(tensor.data_ptr());
  }
  return blocks;
}

void copy_from_flat(const at::Tensor& flat, std::vector<at::Tensor>& tensors) {
  if (flat.is_alias_of(tensors.front())) return;
  const at::NoGradGuard no_gradients;
  std::int64_t at = 0;
  for (at::Tensor& tensor : tensors) {
    if (is_copied_as_bytes(tensor, flat))
      copy_bytes(static_cast<std::byte*>(tensor.data_ptr()), place_in(flat, at), tensor.nbytes());
    else
      tensor.copy_(flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

void copy_to_flat(const std::vector<at::Tensor>& tensors, const at::Tensor& flat) {
  if (flat.is_alias_of(tensors.front())) return;
  const at::NoGradGuard no_gradients;
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    if (is_copied_as_bytes(tensor, flat))
      copy_bytes(place_in(flat, at), static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes());
    else
      flat.narrow(0, at, tensor.numel()).copy_(tensor.reshape({-1}));
    at += tensor.numel();
  }
}

bool check_parts(const std::vector<at::Tensor>& tensors, const at::Tensor& own, std::size_t place,
                 std::size_t count, const char* what) {
  TORCH_CHECK(tensors.size() == count, "cohort: ", what, " takes ", count,
              " tensors, one for each rank, not ", tensors.size());
  for (const at::Tensor& tensor : tensors) {
    check(tensor);
    TORCH_CHECK(tensor.scalar_type() == own.scalar_type(), "cohort: ", what, ": tensors of several types");
  }
  TORCH_CHECK(tensors[place].numel() == own.numel(), "cohort: ", what, ": the output for this rank holds ",
              tensors[place].numel(), " elements, its input ", own.numel());
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& tensor) { return tensor.numel() == own.numel(); });
}

void check_alike(const std::vector<at::Tensor>& tensors, const at::Tensor& like, std::size_t count,
                 const char* what) {
  TORCH_CHECK(tensors.size() == count, "cohort: ", what, " takes ", count,
              " tensors, one for each rank, not ", tensors.size());
  for (const at::Tensor& tensor : tensors) {
    check(tensor);
    TORCH_CHECK(tensor.scalar_type() == like.scalar_type(), "cohort: ", what, ": tensors of several types");
    TORCH_CHECK(tensor.numel() == like.numel(), "cohort: ", what, ": tensors of several sizes");
  }
}

void check_pairs(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& like,
                 const char* what) {
  TORCH_CHECK(tensors.size() == like.size(), "cohort: ", what, ": ", tensors.size(), " outputs for ",
              like.size(), " inputs");
  for (std::size_t i = 0; i < like.size(); ++i) {
    TORCH_CHECK(
        like[i].scalar_type() == like[0].scalar_type() && tensors[i].scalar_type() == like[0].scalar_type(),
        "cohort: ", what, ": tensors of several types");
    TORCH_CHECK(tensors[i].numel() == like[i].numel(), "cohort: ", what, ": output ", i, " holds ",
                tensors[i].numel(), " elements, its input ", like[i].numel());
  }
}

std::vector<std::size_t> counts_of(const std::vector<std::int64_t>& rows, const at::Tensor& tensor) {
  const std::int64_t row = tensor.dim() == 0 || tensor.size(0) == 0 ? 1 : tensor.numel() / tensor.size(0);
  std::vector<std::size_t> counts;
  for (const std::int64_t count : rows)
    counts.push_back(static_cast<std::size_t>(count * row) * unit_of(tensor));
  return counts;
}

std::vector<std::size_t> counts_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(elements_of(tensor));
  return counts;
}

}  // namespace cohort::torch_face
