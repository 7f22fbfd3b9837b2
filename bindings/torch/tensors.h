// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>
#include <cohort/bindings/torch/scratch.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// What calls take of torch's tensors.
namespace cohort::torch_face {

/// What can only be moved, in bytes.
inline constexpr const char* kBytes = "byte";
/// What cohort calls the elements.
std::string type_name(const at::Tensor& tensor);
/// How many of the library's elements one of the tensor's is.
std::size_t unit_of(const at::Tensor& tensor);
std::size_t elements_of(const at::Tensor& tensor);
Memory memory_of(const at::Tensor& tensor);

/// Throws unless it is in CPU memory, and every element has its place.
void check(const at::Tensor& tensor);

// Calls take elements in one piece, in their order: whatever strides the other ranks' tensors have. Each of
// these gives the tensor itself where it lies so, and other memory where not:
/// with its elements, to be read;
at::Tensor readable(const at::Tensor& tensor);
/// to be written;
at::Tensor writable(const at::Tensor& tensor);
/// both.
at::Tensor changeable(const at::Tensor& tensor);
/// What is to be done after a call that has written to `memory` for the tensor; maybe nothing.
std::function<void()> copying_back(const at::Tensor& memory, const at::Tensor& tensor);

/// Throws unless elements of both are the same.
void check_same_type(const at::Tensor& output, const at::Tensor& input, const char* what);
/// The single one, checked.
const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* what);
/// Throws unless there are `count`, of the type of `own`, and the one at `place` as large as it. Whether all
/// are as large.
bool check_parts(const std::vector<at::Tensor>& tensors, const at::Tensor& own, std::size_t place,
                 std::size_t count, const char* what);
/// Throws unless there are `count`, each as `like`.
void check_alike(const std::vector<at::Tensor>& tensors, const at::Tensor& like, std::size_t count,
                 const char* what);
/// Throws unless they are of one type, and each of `tensors` as large as that of `like` in its place.
void check_pairs(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& like,
                 const char* what);

/// Memory for all their elements behind each other: their own, if they lie so; scratch if not, or if
/// `beside`, which the call takes, too, lies in it: unless that is the one at `place`, which calls know as in
/// place.
at::Tensor flat_of(const std::vector<at::Tensor>& tensors, const at::Tensor& beside, std::size_t place,
                   Scratch& scratch);
/// Where each of them lies, if a call can write there and they are not one piece: they are dense, in CPU
/// memory, and `beside`, which the call takes, too, lies in none of them, unless it is the one at `place`.
std::vector<void*> blocks_apart(const std::vector<at::Tensor>& tensors, const at::Tensor& beside,
                                std::size_t place);
// Nothing to do where it is their own memory.
void copy_from_flat(const at::Tensor& flat, std::vector<at::Tensor>& tensors);
void copy_to_flat(const std::vector<at::Tensor>& tensors, const at::Tensor& flat);

/// Elements of so many rows each.
std::vector<std::size_t> counts_of(const std::vector<std::int64_t>& rows, const at::Tensor& tensor);
std::vector<std::size_t> counts_of(const std::vector<at::Tensor>& tensors);

}  // namespace cohort::torch_face
