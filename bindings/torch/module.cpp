// SPDX-License-Identifier: Apache-2.0
// cohort._torch: what cohort/torch.py registers with torch.distributed.
#include <cohort/bindings/python/interpreter.h>
#include <cohort/bindings/torch/flight_recorder.h>
#include <cohort/bindings/torch/mapped_allocator.h>
#include <cohort/bindings/torch/process_group.h>
#include <cohort/bindings/torch/tensors.h>
#include <cohort/bindings/torch/work.h>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
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

/// `options`: what cohort._cohort.join_options() gives.
Group create(const std::string& name, const std::string& address, const std::string& secret, int rank,
             int size, double timeout_s, double join_timeout_s, const std::vector<std::uint32_t>& world_ranks,
             const py::capsule& options) {
  Place place;
  place.name = name;
  place.world_ranks = world_ranks;
  place.address = address;
  place.secret = secret;
  place.options = PyCapsule_GetPointer(options.ptr(), "cohort.JoinOptions");
  if (place.options == nullptr) throw py::error_already_set();
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

/// cohort._torch.Buckets: of gradients, as tensors.
class PyBuckets {
 public:
  PyBuckets(const c10::intrusive_ptr<ProcessGroupCohort>& group, const BucketOptions& options)
      : rank_(group->getRank()), timeout_s_(group->timeout_s()) {
    const std::shared_ptr<Ranks> ranks = group->ranks();
    if (const auto& recorder = group->recorder()) {
      names_ = {recorder->name_next_part(group->getGroupUid()), group->getGroupDesc()};
      recorder_ = recorder->next_part();
    }
    python::wait_without_lock(
        [&](bindings::Interrupt* interrupt) { buckets_ = ranks->buckets(options, interrupt); });
  }

  /// Of a tensor in one piece.
  c10::intrusive_ptr<c10d::Work> reduce(const at::Tensor& tensor, std::string name, bool compresses) {
    check(tensor);
    TORCH_CHECK(tensor.is_contiguous(), "cohort: a bucket lies in one piece");
    BucketCall call{.name = std::move(name),
                    .type = type_name(tensor),
                    .data = memory_of(tensor),
                    .compresses = compresses,
                    .timeout_s = timeout_s_};
    constexpr const char* kTitle = "cohort:bucket";
    constexpr auto kType = c10d::OpType::ALLREDUCE;
    const std::vector<at::Tensor> tensors = {tensor};
    CohortWork::Facts facts{.rank = rank_,
                            .type = kType,
                            .title = at::hasCallbacks() ? kTitle : nullptr,
                            .timeout_s = timeout_s_,
                            .sequence = ++sequence_,
                            .is_timed = true};
    if (recorder_)
      facts.recorded = recorder_->begin(names_, {.type = kType,
                                                 .title = kTitle,
                                                 .ordinal = facts.sequence,
                                                 .inputs = tensors,
                                                 .outputs = tensors,
                                                 .timeout_s = timeout_s_});
    auto work = c10::make_intrusive<CohortWork>(facts, tensors, tensors, nullptr);
    work->start([&](auto over) { return buckets_->start(std::move(call), std::move(over)); });
    return work;
  }
  double measure_work() {
    double us = 0;
    python::wait_without_lock(
        [&](bindings::Interrupt* interrupt) { us = buckets_->measure_work(interrupt); });
    return us;
  }
  std::pair<bool, std::string> decide(double idle_us, double byte_us, std::size_t elements, double work_us) {
    BucketDecision decision = buckets_->decide(idle_us, byte_us, elements, work_us);
    return {decision.pays, std::move(decision.text)};
  }
  std::map<std::string, at::Tensor> state() {
    std::map<std::string, at::Tensor> tensors;
    for (auto& [name, values] : buckets_->state()) tensors[name] = at::tensor(values);
    return tensors;
  }
  void restore(const std::map<std::string, at::Tensor>& tensors) {
    Buckets::State state;
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor flat = tensor.to(at::kFloat).contiguous();
      const auto* const values = flat.const_data_ptr<float>();
      state[name].assign(values, values + flat.numel());
    }
    buckets_->restore(std::move(state));
  }

 private:
  const int rank_;
  const double timeout_s_;
  std::atomic<std::uint64_t> sequence_{0};
  std::shared_ptr<Buckets> buckets_;
  GroupRecord::Names names_;
  std::shared_ptr<GroupRecord> recorder_;  ///< null: nobody records
};

void define_buckets(py::module_& module) {
  py::class_<PyBuckets>(module, "Buckets")
      .def(py::init([](const c10::intrusive_ptr<ProcessGroupCohort>& group, const std::string& form,
                       const std::string& compression, bool has_error_feedback, double top_ratio,
                       double momentum, unsigned rank) {
             return std::make_unique<PyBuckets>(
                 group, BucketOptions{form, compression, has_error_feedback, top_ratio, momentum, rank});
           }),
           py::arg("group"), py::arg("form") = "flat", py::arg("compression") = "",
           py::arg("has_error_feedback") = true, py::arg("top_ratio") = 0.01, py::arg("momentum") = 0.0,
           py::arg("rank") = 2U)
      .def("reduce", &PyBuckets::reduce, py::call_guard<py::gil_scoped_release>(), py::arg("tensor"),
           py::arg("name"), py::arg("compresses") = false)
      .def("measure_work", &PyBuckets::measure_work)
      .def("decide", &PyBuckets::decide, py::arg("idle_us"), py::arg("byte_us"), py::arg("elements"),
           py::arg("work_us_per_element"))
      .def("state", &PyBuckets::state)
      .def("restore", &PyBuckets::restore, py::arg("state"));
}

void define_dumps(py::module_& module) {
  const auto dump = [](bool includes_collectives, bool includes_stacks, bool only_active) {
    std::string pickled;
    {
      const py::gil_scoped_release unlocked;
      pickled = dump_fr_trace(includes_collectives, includes_stacks, only_active);
    }
    return py::bytes(pickled);
  };
  module.def("dump_fr_trace", dump);
  module.def("dump_fr_trace_json", &dump_fr_trace_json, py::call_guard<py::gil_scoped_release>());
}

/// Before the interpreter ends: a thread that wants its lock then would be ended, amid what must not throw.
void end(const std::string& reason) {
  GroupRecord::fall_silent();
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
             py::arg("size"), py::arg("timeout_s"), py::arg("join_timeout_s"), py::arg("world_ranks"),
             py::arg("options"));
  module.def("create_within", &create_within, py::arg("world"), py::arg("name"), py::arg("rank"),
             py::arg("timeout_s"), py::arg("world_ranks"));
  module.def("timeout_of_environment", &timeout_of_environment_s);
  define_buckets(module);
  define_dumps(module);
  module.def("end", &end, py::call_guard<py::gil_scoped_release>(), py::arg("reason"));
  module.def("map_tensors", &map_tensors, py::arg("group").none(true));
}

}  // namespace cohort::torch_face
