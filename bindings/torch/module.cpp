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

using Group = c10::intrusive_ptr<c10d::Backend>;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::duration<double>(seconds));
}

ProcessGroupCohort::Settings settings_of(double timeout_s, const std::string& name,
                                         const std::vector<std::uint32_t>& world_ranks) {
  return {milliseconds_of(timeout_s), name, {world_ranks.begin(), world_ranks.end()}};
}

Group create(const std::string& name, const std::string& address, const std::string& secret, int rank,
             int size, double timeout_s, double join_timeout_s,
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
  std::shared_ptr<Ranks> ranks;
  python::wait_without_lock([&](bindings::Interrupt* interrupt) { ranks = join(place, interrupt); });
  return c10::make_intrusive<ProcessGroupCohort>(std::move(ranks), rank, size,
                                                 settings_of(timeout_s, name, world_ranks));
}

/// Of ranks of the world, without meeting anew.
Group create_within(const c10::intrusive_ptr<ProcessGroupCohort>& world, const std::string& name, int rank,
                    double timeout_s, const std::vector<std::uint32_t>& world_ranks) {
  const std::shared_ptr<Ranks> within = world->ranks();
  std::shared_ptr<Ranks> ranks;
  python::wait_without_lock(
      [&](bindings::Interrupt* interrupt) { ranks = within->group(world_ranks, name, interrupt); });
  const std::string own_name = ranks->name();
  return c10::make_intrusive<ProcessGroupCohort>(std::move(ranks), rank, static_cast<int>(world_ranks.size()),
                                                 settings_of(timeout_s, own_name, world_ranks));
}

Group meet(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
           const ProcessGroupCohort::Settings& settings) {
  const py::gil_scoped_acquire locked;
  const py::object create_by_store = py::module_::import("cohort.torch").attr("create");
  return create_by_store(store, rank, size, settings.timeout, py::arg("name") = settings.name).cast<Group>();
}

/// Of a group of this backend; null: no more.
void map_tensors(const Group& group) {
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
  ProcessGroupCohort::set_meeting(&meet);
  using PyGroup = py::class_<ProcessGroupCohort, c10::intrusive_ptr<ProcessGroupCohort>, c10d::Backend>;
  PyGroup(module, "Backend").def_property_readonly("options", &ProcessGroupCohort::getBackendOptions);
  module.def("create", &create, py::arg("name"), py::arg("address"), py::arg("secret"), py::arg("rank"),
             py::arg("size"), py::arg("timeout_s"), py::arg("join_timeout_s"),
             py::arg("world_ranks") = std::vector<std::uint32_t>());
  module.def("create_within", &create_within, py::arg("world"), py::arg("name"), py::arg("rank"),
             py::arg("timeout_s"), py::arg("world_ranks"));
  module.def("end", &end, py::call_guard<py::gil_scoped_release>(), py::arg("reason"));
  module.def("map_tensors", &map_tensors, py::arg("group").none(true));
}

}  // namespace cohort::torch_face
