// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace cohort::python {

/// Adds gradient graphs and their planner to the module: what cohort.graph is made on. After
/// translate_errors(), whose errors those of graphs are, too.
void define_graphs(pybind11::module_& module);

}  // namespace cohort::python
