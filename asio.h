// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives with completion tokens of Asio's, the library without Boost, such as Debian's libasio-dev:
// docs/use/foreign-loops.md.
#include <cohort/bindings/asio/asio_communicator.h>
#include <cohort/cohort.h>
