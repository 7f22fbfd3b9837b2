// SPDX-License-Identifier: Apache-2.0
// The calls of cohort.Communicator: their names, parameters and docstrings. Types are in cohort/_cohort.pyi.
#include <cohort/bindings/python/calls.h>

#include <cohort/bindings/python/method.h>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace cohort::python {
namespace {

using Class = py::class_<PyCommunicator>;
using Comm = PyCommunicator;

/// A method of parameters of its own and the keywords that every collective has.
template <class Function>
void define_call(Class& type, const char* name, std::string_view parameters, const char* text,
                 Function function) {
  static const std::string& all = *new std::string(
      fmt::format("{}, timeout=None, algorithm=None, dtype=None, async_op=False", parameters));
  define_method(type, name, all, text, function);
}

/// Those keywords: from parameter `first` on.
CallOptions options_from(const Arguments& given, std::size_t first) {
  return {.timeout = given[first],
          .algorithm = given[first + 1],
          .dtype = given[first + 2],
          .is_async = given.is_set(first + 3)};
}

template <class Op>
py::object combine(Comm& comm, const Arguments& given) {
  return comm.combine(operator_of<Op>, given[0], given[1], given[2], options_from(given, 3));
}

void define_combining_calls(Class& type) {
  constexpr auto kParameters = "tensor, op='sum', *, out=None";
  define_call(type, "all_reduce", kParameters,
              "Combines the ranks' tensors element by element; every rank gets the result.\n\n"
              "Shape: that of the tensor, the same on all ranks. A list of tensors is one call. In place: "
              "out=tensor.",
              [](Comm& comm, const Arguments& given) { return combine<AllReduce>(comm, given); });
  define_call(type, "scan", kParameters,
              "Combines the tensors of ranks 0 to the own one, in this order. Shape: that of the tensor.",
              [](Comm& comm, const Arguments& given) { return combine<Scan>(comm, given); });
  define_call(type, "exclusive_scan", kParameters,
              "Combines the tensors of the ranks before the own one. Shape: that of the tensor; rank 0 gets "
              "zeros, or `out` as it was.",
              [](Comm& comm, const Arguments& given) { return combine<ExclusiveScan>(comm, given); });
  define_call(
      type, "reduce", "tensor, op='sum', root=0, *, out=None",
      "As all_reduce, for the root alone; the others get None.", [](Comm& comm, const Arguments& given) {
        return comm.reduce(given[0], given[1], given.number<Rank>(2), given[3], options_from(given, 4));
      });
  define_call(
      type, "reduce_scatter", "tensor, op='sum', *, out=None, sizes=None, uneven=False",
      "Combines the ranks' tensors and shares the rows of the result out.\n\n"
      "Shape: (size * n, ...) -> (n, ...). uneven=True: any number of rows, shares that differ by one; "
      "sizes: the rows of each rank's share.",
      [](Comm& comm, const Arguments& given) {
        return comm.reduce_scatter(given[0], given[1], given[2], given[3], given.is_set(4),
                                   options_from(given, 5));
      });
}

void define_moving_calls(Class& type) {
  define_method(type, "barrier", "*, timeout=None, algorithm=None, dtype=None, async_op=False",
                "Returns when every rank has called it.",
                [](Comm& comm, const Arguments& given) { return comm.barrier(options_from(given, 0)); });
  define_call(
      type, "broadcast", "tensor, root=0, *",
      "The root's tensor into everybody's, in place; gives the tensor. A list of tensors is one call.",
      [](Comm& comm, const Arguments& given) {
        return comm.broadcast(given[0], given.number<Rank>(1), options_from(given, 2));
      });
  define_call(
      type, "all_gather", "tensor, *, out=None, sizes=None",
      "Every rank's rows, one rank behind the other, to everybody.\n\n"
      "Shape: (n, ...) -> (sum of the ranks' n, ...). Ranks may bring different numbers of rows: they ask "
      "each other, unless sizes says how many each brings. With out or async_op, and without sizes, all "
      "bring the same.",
      [](Comm& comm, const Arguments& given) {
        return comm.all_gather(given[0], given[1], given[2], options_from(given, 3));
      });
  define_call(
      type, "gather", "tensor, root=0, *, out=None, sizes=None",
      "As all_gather, for the root alone; the others get None.", [](Comm& comm, const Arguments& given) {
        return comm.gather(given[0], given.number<Rank>(1), given[2], given[3], options_from(given, 4));
      });
  define_call(
      type, "scatter", "tensor=None, root=0, *, out=None, sizes=None",
      "Shares the rows of the root's tensor out; other ranks may give None.\n\n"
      "Shape: (size * n, ...) at the root -> (n, ...). sizes: the rows of each rank's share; give out then.",
      [](Comm& comm, const Arguments& given) {
        return comm.scatter(given[0], given.number<Rank>(1), given[2], given[3], options_from(given, 4));
      });
  define_call(
      type, "all_to_all", "tensor, *, out=None, send_sizes=None, recv_sizes=None",
      "Block r of the rows to rank r, for all ranks.\n\n"
      "Shape: (size * n, ...) -> (size * n, ...). send_sizes, recv_sizes: the rows that go to each rank, and "
      "that come of each.",
      [](Comm& comm, const Arguments& given) {
        return comm.all_to_all(given[0], given[1], given[2], given[3], options_from(given, 4));
      });
}

CallOptions options_of_message(const Arguments& given) {
  return {.timeout = given[3], .algorithm = py::none(), .dtype = py::none(), .is_async = given.is_set(4)};
}

void define_messages(Class& type) {
  define_method(type, "send", "tensor, to, tag=0, *, timeout=None, async_op=False",
                "Sends the tensor to that rank, whose recv takes it. Returns when the tensor may be changed.",
                [](Comm& comm, const Arguments& given) {
                  return comm.send(given[0], given.number<Rank>(1), given.number<std::int32_t>(2),
                                   options_of_message(given));
                });
  define_method(type, "recv", "tensor, source=None, tag=0, *, timeout=None, async_op=False",
                "Receives into the tensor, of exactly the size that is sent, from that rank, or from anybody "
                "(None). Gives the rank that it is from.",
                [](Comm& comm, const Arguments& given) {
                  return comm.recv(given[0], given[1], given.number<std::int32_t>(2),
                                   options_of_message(given));
                });
}

}  // namespace

void define_calls(Class& type) {
  define_combining_calls(type);
  define_moving_calls(type);
  define_messages(type);
}

}  // namespace cohort::python
