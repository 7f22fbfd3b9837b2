// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/communicator.h>

namespace cohort::python {

/// Adds what cohort/lightgbm.py gives LightGBM for its network.
void define_lightgbm(py::module_& module);

}  // namespace cohort::python
