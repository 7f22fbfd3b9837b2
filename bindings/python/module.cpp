// SPDX-License-Identifier: Apache-2.0
// The native half of the package `cohort`: cohort._cohort. Types of its functions are in cohort/_cohort.pyi.
#include <cohort/bindings/python/calls.h>
#include <cohort/bindings/python/communicator.h>
#include <cohort/bindings/python/failure.h>
#include <cohort/bindings/python/graph.h>
#include <cohort/bindings/python/lightgbm.h>
#include <cohort/bindings/python/method.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/variables.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

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

void set_time(Duration& option, const char* name, const Arguments& given) {
  std::optional<double> seconds;
  given.set(seconds, name, "seconds, a number");
  if (seconds) option = duration_of(*seconds, name);
}

void set_determinism(Determinism& option, const Arguments& given) {
  std::string name;
  given.set(name, "determinism", "one of 'D0', 'D1', 'D2', 'D3'");
  if (name.empty()) return;
  const std::optional<Determinism> level = parse_determinism(name);
  if (!level)
    throw Error(ErrorKind::InvalidArgument, fmt::format("determinism='{}' is none of D0, D1, D2, D3", name));
  option = *level;
}

constexpr std::string_view kJoinParameters =
    "*, rank=None, size=None, name=None, address=None, job=None, host_id=None, machine_id=None, "
    "transport=None, algorithm=None, determinism=None, buffer_bytes=None, heap_bytes=None, timeout=None, "
    "join_timeout=None, root_info=None";

JoinOptions join_from(const Arguments& given) {
  std::string info;
  given.set(info, "root_info", "the bytes of rank 0's root_info()");
  if (info.empty())
    return given.is_given("rank") ? join_options_besides_place(WrongVariable::kept)
                                  : JoinOptions::from_environment(WrongVariable::kept);
  Rank rank = 0;
  Rank size = 0;
  given.set(rank, "rank", "a whole number from 0 on");
  given.set(size, "size", "a whole number from 1 on");
  if (!given.is_given("rank") || !given.is_given("size"))
    throw Error(ErrorKind::InvalidArgument, "root_info needs rank and size: give all three");
  return JoinOptions::from_root_info(std::as_bytes(std::span(info)), rank, size, WrongVariable::kept);
}

/// The environment's, and over it what is given.
CommunicatorOptions options_from(const Arguments& given) {
  constexpr std::string_view kBytes = "a number of bytes, 0 or more";
  CommunicatorOptions options = CommunicatorOptions::collectives_from_environment(WrongVariable::kept);
  options.set_join(join_from(given));
  given.set(options.join.rank, "rank", "a whole number from 0 on");
  environment::warn_of_misspelt_variables(options.join.rank);
  given.set(options.join.size, "size", "how many ranks there are, a whole number");
  given.set(options.join.name, "name", "a text, the same on all ranks");
  given.set(options.join.address, "address", "'HOST:PORT' or 'unix:NAME' of rank 0");
  given.set(options.join.job, "job", "a text, the same on all ranks");
  given.set(options.join.host_id, "host_id", "a text, the same on all ranks of a host");
  given.set(options.join.machine_id, "machine_id", "a text, the same on all ranks of a machine");
  given.set(options.transport, "transport", "a name");
  given.set(options.algorithm, "algorithm", "a name");
  set_determinism(options.determinism, given);
  given.set(options.buffer_bytes, "buffer_bytes", kBytes);
  given.set(options.heap_bytes, "heap_bytes", kBytes);
  set_time(options.timeout, "timeout", given);
  if (given.is_given("timeout")) options.wording.timeout = "timeout= where it was joined";
  options.wording.call_timeout = "timeout= of the call";
  options.wording.at_once = "with async_op=True";
  set_time(options.join.timeout, "join_timeout", given);
  return options;
}

constexpr const char* kJoinOptions = "cohort.JoinOptions";

/// What the environment says to ranks that meet at that address, for cohort._torch: a module of its own,
/// which would find the descriptor of a secret closed that this one has read. A Unix address needs no secret
/// where the kernel tells users apart, and whoever is started by a rank has the descriptor's number only.
py::capsule join_options_at(const std::string& address) {
  const bool needs_none =
      address.starts_with("unix:") && environment::text("COHORT_SECRET_FD") && host::tells_users_apart();
  auto options =
      std::make_unique<JoinOptions>(needs_none ? join_options_besides_place_and_secret(WrongVariable::kept)
                                               : join_options_besides_place(WrongVariable::kept));
  const py::capsule capsule(options.get(), kJoinOptions, [](PyObject* made) {
    delete static_cast<JoinOptions*>(PyCapsule_GetPointer(made, kJoinOptions));
  });
  (void)options.release();
  return capsule;
}

PyCommunicator join(CommunicatorOptions options) {
  std::shared_ptr<bindings::SharedCommunicator> made;
  bindings::Session& one = session();
  wait_without_lock([&](bindings::Interrupt* interrupt) { made = one.join(options, interrupt); });
  return PyCommunicator(std::move(made));
}

void define_making_calls(py::class_<PyCommunicator>& type) {
  define_method(type, "split", "color, key=0",
                "The group of the ranks that give the same color; None if it is negative.",
                [](PyCommunicator& comm, const Arguments& given) {
                  return py::cast(comm.split(given.number<int>(0), given.number<int>(1)));
                });
  define_method(type, "group", "ranks, name", "The group of these ranks, called by them only.",
                [](PyCommunicator& comm, const Arguments& given) {
                  auto ranks = given.as<std::vector<Rank>>(0, "a list of ranks");
                  auto name = given.as<std::string>(1, "a text, the same on all of them");
                  return py::cast(comm.group(std::move(ranks), std::move(name)));
                });
  define_method(type, "allocate", "bytes",
                "Memory that the ranks of this host map, with the buffer protocol.",
                [](PyCommunicator& comm, const Arguments& given) {
                  const auto bytes = given.number<std::size_t>(0);
                  return py::cast(SharedMemory{.memory = comm.allocate(bytes), .size_bytes = bytes});
                });
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
  define_making_calls(type);
  type.def("explain", &PyCommunicator::explain, "Which algorithm runs such a call here, and why.",
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
  set_main_thread();
  define_memory(module);
  define_requests(module);
  define_communicator(module);
  define_graphs(module);
  define_function(module, "join", kJoinParameters, "Joins; what is None is the environment's.",
                  [](const Arguments& given) { return py::cast(join(options_from(given))); });
  module.def(
      "root_info",
      [] {
        const RootInfo info = root_info();
        return py::bytes(reinterpret_cast<const char*>(info.data()), info.size());
      },
      "What rank 0 sends the other ranks, so that they meet.");
  module.def("launched_place", [] {
    const JoinOptions options = JoinOptions::from_environment();
    return std::tuple(options.rank, options.size, options.address);
  });
  module.def(
      "join_timeout",
      [] {
        const Duration timeout = join_options_besides_place_and_secret(WrongVariable::kept).timeout;
        return std::chrono::duration<double>(timeout).count();
      },
      "How long joining may take, in seconds, as the environment says.");
  module.def("join_options", &join_options_at, py::arg("address"),
             "For cohort._torch: what the environment says to ranks that meet there, with the secret that "
             "they need.");
  define_lightgbm(module);
  module.def("cancel_started", &PyRequest::cancel_all, "Cancels what is under way, and waits for its end.");
  module.def("forget_started", &PyRequest::forget_all, "Lets go of what is under way in the parent of fork.");
}

}  // namespace cohort::python
