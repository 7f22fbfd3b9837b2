// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/mpi/arguments.h>
#include <cohort/bindings/mpi/attributes.h>
#include <cohort/bindings/mpi/guarded.h>
#include <cohort/bindings/mpi/handles.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace cohort::mpi {

/// What a datatype is made of, if all of it is of one kind: what reductions go by.
enum class Element : std::uint8_t {
  none,
  byte,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64,
  long_double,
  boolean,
  complex_float,
  complex_double,
  complex_long_double,
  // A value and an index, of MPI_MINLOC and MPI_MAXLOC:
  float_int,
  double_int,
  long_int,
  two_int,
  short_int,
  long_double_int,
};

/// What a datatype was made by, for MPI_Type_get_envelope and MPI_Type_get_contents.
struct Recipe {
  int combiner = abi::kCombinerNamed;
  std::vector<int> integers{};
  std::vector<MPI_Aint> addresses{};
  std::vector<MPI_Datatype> types{};
  std::vector<std::shared_ptr<struct Datatype>> objects{};  ///< those types, which may be freed meanwhile
};

/// An MPI_Datatype: where the bytes of one lie, relative to the address that a call gives.
struct Datatype {
  struct Segment {
    Number at;
    std::size_t bytes;
  };

  Element element = Element::none;
  std::size_t basics = 0;  ///< so many predefined types it is made of
  std::size_t size = 0;    ///< bytes without gaps
  Number lower = 0;
  Number extent = 0;                ///< from one to the next
  Number alignment = 1;             ///< of the strictest predefined type in it
  bool is_bounded = false;          ///< its extent is what the program said, or that of its parts is
  std::vector<Segment> segments{};  ///< in the order in which they are sent; neighbours are joined
  Recipe recipe{};
  Guarded<std::string> name{};
  Attributes attributes{};

  /// Whether several lie one behind the other, from the address on.
  [[nodiscard]] bool is_contiguous() const noexcept {
    const bool is_one = segments.size() == 1 && segments.front().at == 0;
    return size == 0 || (is_one && static_cast<std::size_t>(extent) == size);
  }
  [[nodiscard]] Number true_lower() const noexcept;
  [[nodiscard]] Number true_upper() const noexcept;
  /// So many elements to bytes without gaps, and back, as many as there are.
  void pack(const void* from, Number count, std::byte* to) const noexcept;
  void unpack(const std::byte* from, std::size_t bytes, void* to) const noexcept;
};

/// Throws Failure for what is none.
[[nodiscard]] std::shared_ptr<Datatype> datatype_of(MPI_Datatype handle);
[[nodiscard]] Handles<Datatype>& made_datatypes();
/// Bytes of so many. Throws Failure for a count below zero, or beyond all memory.
[[nodiscard]] std::size_t bytes_of(Number count, const Datatype& type);

}  // namespace cohort::mpi
