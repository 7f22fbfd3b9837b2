// SPDX-License-Identifier: Apache-2.0
// cohort._torch: what cohort/torch.py registers with torch.distributed.
#include <cohort/bindings/python/interpreter.h>
#include <cohort/bindings/torch/mapped_allocator.h>
#include <cohort/bindings/torch/process_group.h>
#include <cohort/bindings/torch/work.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/python.h>

namespace cohort::torch_face {
namespace {

namespace py = pybind11;

c10::intrusive_ptr<c10d::Backend> create(const std::string& name, const std::string& address,
                                         const std::string& secret, int rank, int size, double timeout_s,
                                         double join_timeout_s, const std::string& label,
                                         const std::vector<std::uint32_t>& world_ranks) {
  Place place;
  place.name = name;
  place.world_ranks = world_ranks;
  place.address = address;
  place.secret = secret;
  place.rank = static_cast<std::uint32_t>(rank);
  place.size = static_cast<std::uint32_t>(size);
  place.timeout_s = timeout_s;
  place.join_timeout_s = join_timeout_s;
  const auto timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(timeout_s));
  c10::intrusive_ptr<c10d::Backend> group;
  python::wait_without_lock([&](bindings::Interrupt* interrupt) {
    group = c10::make_intrusive<ProcessGroupCohort>(join(place, interrupt), rank, size, timeout, label);
  });
  return group;
}

/// Of a group of this backend; null: no more.
void map_tensors(const c10::intrusive_ptr<c10d::Backend>& group) {
  auto* const of_cohort = dynamic_cast<ProcessGroupCohort*>(group.get());
  if (group && of_cohort == nullptr)
    throw py::value_error(
        "mapped_tensors: the group has another backend than \"cohort\": give one that has it");
  map_new_tensors(of_cohort == nullptr ? nullptr : of_cohort->ranks());
}

/// Before the interpreter ends: a thread that wants its lock then would be ended, amid what must not throw.
void end(const std::string& reason) {
  leave_all(reason);
  tell_all_futures();
  keep_threads_that_wait();
}

}  // namespace

PYBIND11_MODULE(_torch, module) {
  python::set_main_thread();
  expect_forks();
  pybind11::class_<ProcessGroupCohort, c10::intrusive_ptr<ProcessGroupCohort>, c10d::Backend>(module,
                                                                                              "Backend")
      .def_property_readonly("options", &ProcessGroupCohort::getBackendOptions);
  module.def("create", &create, py::arg("name"), py::arg("address"), py::arg("secret"), py::arg("rank"),
             py::arg("size"), py::arg("timeout_s"), py::arg("join_timeout_s"), py::arg("label") = "cohort",
             py::arg("world_ranks") = std::vector<std::uint32_t>());
  module.def("end", &end, py::call_guard<py::gil_scoped_release>(), py::arg("reason"));
  module.def("map_tensors", &map_tensors, py::arg("group").none(true));
}

}  // namespace cohort::torch_face
