// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/torch/face.h>
#include <cohort/bindings/torch/scratch.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// What calls take of torch's tensors.
namespace cohort::torch_face {

/// What cohort calls the elements. Throws std::invalid_argument.
std::string type_name(const at::Tensor& tensor);
/// How many of the library's elements one of the tensor's is.
std::size_t unit_of(const at::Tensor& tensor);
std::size_t elements_of(const at::Tensor& tensor);
Memory memory_of(const at::Tensor& tensor);

/// Throws unless calls can read and write it where it lies.
void check(const at::Tensor& tensor);
/// Throws unless elements of both are the same.
void check_same_type(const at::Tensor& output, const at::Tensor& input, const char* what);
/// The single one, checked.
const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* what);
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
