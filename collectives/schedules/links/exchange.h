// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/collectives/schedules/exec.h>

namespace cohort {

Task<> send_slice(Link& link, Slice slice);
Task<> receive_slice(Link& link, Slice slice);
Task<> receive_reduce_slice(Link& link, Slice slice, Reducer reducer);

/// Sends one slice and receives another at the same time, on two sub streams: full duplex, and no order in
/// which two peers could block. Awaited once.
[[nodiscard]] ForkJoin exchange(Exec& x, Link& to, Slice out, Link& from, Slice in);

/// The same, combining what comes with what `in` holds.
[[nodiscard]] ForkJoin exchange_reduce(Exec& x, Link& to, Slice out, Link& from, Slice in, Reducer reducer);

/// As exchange(), with one peer, as a task.
Task<> exchange_slices(Exec& x, Link& link, Slice out, Slice in);

}  // namespace cohort
