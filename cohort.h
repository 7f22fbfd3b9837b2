// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L
#error "cohort needs C++20: give the compiler -std=c++20 (its default may be C++17)"
#else  // nothing behind it: pages of errors would hide that one

// Everything a program needs; each part can also be included by itself.
#include <cohort/collectives/communicator.h>
#include <cohort/collectives/run.h>
#include <cohort/collectives/schedules/algorithm.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/io/socket.h>
#include <cohort/engine/stepped_run.h>
#include <cohort/engine/when_all.h>
#include <cohort/notify/event.h>
#include <cohort/notify/notify.h>
#include <cohort/streams/stream.h>

#endif
