// SPDX-License-Identifier: Apache-2.0
// The native half of the package `cohort`: cohort._cohort. Types of its functions are in cohort/_cohort.pyi.
#include <cohort/bindings/python/calls.h>
#include <cohort/bindings/python/communicator.h>
#include <cohort/bindings/python/failure.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <memory>

namespace cohort::python {
namespace {

/// Memory that peers map, as something with the buffer protocol.
struct SharedMemory {
  std::shared_ptr<std::byte> memory;
  std::size_t size_bytes;
};

/// The one of this process. Never ended: arrays in its memory, and the interpreter's end, come in any order.
/// Threads: with the interpreter's lock.
bindings::Session& session() {
  static bindings::Session* one = nullptr;
  if (one == nullptr || one->is_forked()) one = new bindings::Session();
  return *one;
}

template <class T>
void set(T& option, const py::dict& given, const char* name) {
  if (given.contains(name) && !given[name].is_none()) option = given[name].cast<T>();
}

void set_time(Duration& option, const py::dict& given, const char* name) {
  if (given.contains(name) && !given[name].is_none()) option = duration_of(given[name].cast<double>(), name);
}

void set_determinism(Determinism& option, const py::dict& given) {
  std::string name;
  set(name, given, "determinism");
  if (name.empty()) return;
  const std::optional<Determinism> level = parse_determinism(name);
  if (!level)
    throw Error(ErrorKind::InvalidArgument, fmt::format("determinism='{}' is none of D0, D1, D2, D3", name));
  option = *level;
}

/// The environment's, and over it what `given` names.
CommunicatorOptions options_from(const py::dict& given) {
  CommunicatorOptions options = CommunicatorOptions::collectives_from_environment();
  options.join = given.contains("rank") ? join_options_besides_place() : JoinOptions::from_environment();
  set(options.join.rank, given, "rank");
  set(options.join.size, given, "size");
  set(options.join.name, given, "name");
  set(options.join.address, given, "address");
  set(options.join.job, given, "job");
  set(options.join.host_id, given, "host_id");
  set(options.transport, given, "transport");
  set(options.algorithm, given, "algorithm");
  set_determinism(options.determinism, given);
  set(options.buffer_bytes, given, "buffer_bytes");
  set(options.heap_bytes, given, "heap_bytes");
  set_time(options.timeout, given, "timeout");
  set_time(options.join.timeout, given, "join_timeout");
  return options;
}

PyCommunicator join(const py::dict& given) {
  CommunicatorOptions options = options_from(given);
  std::shared_ptr<bindings::SharedCommunicator> made;
  bindings::Session& one = session();
  wait_without_lock([&](bindings::Interrupt* interrupt) { made = one.join(options, interrupt); });
  return PyCommunicator(std::move(made));
}

void define_communicator(py::module_& module) {
  py::class_<PyCommunicator> type(module, "Communicator", "A group of ranks and its calls. Threads: any.");
  type.def_property_readonly("rank", [](const PyCommunicator& comm) { return comm.get().rank(); })
      .def_property_readonly("size", [](const PyCommunicator& comm) { return comm.get().size(); })
      .def_property_readonly("name", [](const PyCommunicator& comm) { return comm.get().name(); })
      .def_property_readonly("transport", [](const PyCommunicator& comm) { return comm.get().transport(); })
      .def_property_readonly("world_ranks",
                             [](const PyCommunicator& comm) { return comm.get().world_ranks(); })
      .def_property_readonly("is_closed", [](const PyCommunicator& comm) { return comm.get().is_closed(); })
      .def_property_readonly(
          "failure", &PyCommunicator::failure,
          "Why it cannot be used any more, as the exception that calls raise; None: it can.");
  define_calls(type);
  type.def("split", &PyCommunicator::split,
           "The group of the ranks that give the same color; None if it is negative.", py::arg("color"),
           py::arg("key") = 0)
      .def("group", &PyCommunicator::group, "The group of these ranks, called by them only.",
           py::arg("ranks"), py::arg("name"))
      .def(
          "allocate",
          [](PyCommunicator& comm, std::size_t bytes) {
            return SharedMemory{.memory = comm.allocate(bytes), .size_bytes = bytes};
          },
          py::arg("bytes"))
      .def("explain", &PyCommunicator::explain, "Which algorithm runs such a call here, and why.",
           py::arg("op"), py::arg("dtype"), py::arg("bytes"))
      .def("close", &PyCommunicator::close, "Tells the others that this rank is done.")
      .def("abort", &PyCommunicator::abort, "Gives up: calls of all ranks fail, with this reason.",
           py::arg("reason"));
}

void define_memory(py::module_& module) {
  py::class_<SharedMemory>(module, "SharedMemory", py::buffer_protocol(),
                           "Memory that the ranks of this host map. Has the buffer protocol.")
      .def_buffer([](SharedMemory& memory) {
        return py::buffer_info(memory.memory.get(), 1, "B", 1, {memory.size_bytes}, {1});
      })
      .def("__len__", [](const SharedMemory& memory) { return memory.size_bytes; });
}

void define_requests(py::module_& module) {
  py::class_<PyRequest, std::shared_ptr<PyRequest>>(
      module, "Request", "A call that was started. Awaitable in asyncio. Threads: any.")
      .def("wait", &PyRequest::wait, "Waits, and gives the result or raises.",
           py::arg("timeout") = py::none())
      .def("test", &PyRequest::test, "Whether it is over; gives it a turn.")
      .def("done", &PyRequest::done, "Whether it is over.")
      .def(
          "result",
          [](PyRequest& request) { return request.done() ? request.result() : request.wait(std::nullopt); },
          "Its result, or its failure raised; waits if it is not over.")
      .def("cancel", &PyRequest::cancel,
           "Asks it to end. A call that has begun gives the communicator up, on all ranks.")
      .def_property_readonly("_id", &PyRequest::id)
      .def("_expect", &PyRequest::expect);
  py::class_<bindings::Completions>(module, "Completions", "Tells an event loop that requests are over.")
      .def(py::init<>())
      .def("fileno", &bindings::Completions::descriptor)
      .def("take", [](bindings::Completions& completions) {
        std::vector<std::uintptr_t> ids;
        for (const auto& request : completions.take())
          ids.push_back(reinterpret_cast<std::uintptr_t>(request.get()));
        return ids;
      });
}

}  // namespace

PYBIND11_MODULE(_cohort, module) {
  translate_errors();
  set_main_thread(py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>());
  define_memory(module);
  define_requests(module);
  define_communicator(module);
  module.def("join", &join, py::arg("options"));
  module.def("cancel_started", &PyRequest::cancel_all, "Cancels what is under way, and waits for its end.");
  module.def("forget_started", &PyRequest::forget_all, "Lets go of what is under way in the parent of fork.");
}

}  // namespace cohort::python
