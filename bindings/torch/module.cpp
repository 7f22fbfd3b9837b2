// SPDX-License-Identifier: Apache-2.0
// cohort._torch: what cohort/torch.py registers with torch.distributed.
#include <cohort/bindings/torch/process_group.h>

#include <pybind11/chrono.h>
#include <torch/python.h>

namespace cohort::torch_face {
namespace {

namespace py = pybind11;

c10::intrusive_ptr<c10d::ProcessGroup> create(const std::string& name, const std::string& address,
                                              const std::string& secret, int rank, int size, double timeout_s,
                                              double join_timeout_s, const std::string& label) {
  Place place;
  place.name = name;
  place.address = address;
  place.secret = secret;
  place.rank = static_cast<std::uint32_t>(rank);
  place.size = static_cast<std::uint32_t>(size);
  place.timeout_s = timeout_s;
  place.join_timeout_s = join_timeout_s;
  const auto timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(timeout_s));
  return c10::make_intrusive<ProcessGroupCohort>(join(place), rank, size, timeout, label);
}

}  // namespace

PYBIND11_MODULE(_torch, module) {
  module.def("create", &create, py::call_guard<py::gil_scoped_release>(), py::arg("name"), py::arg("address"),
             py::arg("secret"), py::arg("rank"), py::arg("size"), py::arg("timeout_s"),
             py::arg("join_timeout_s"), py::arg("label") = "cohort");
}

}  // namespace cohort::torch_face
