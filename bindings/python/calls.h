// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/python/communicator.h>

namespace cohort::python {

/// Adds collectives and messages to the class.
void define_calls(py::class_<PyCommunicator>& type);

}  // namespace cohort::python
