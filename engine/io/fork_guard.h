// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Sockets, and rings that hold sockets, which a forked child must not keep: peers take an open connection
/// for a living process, and a child that outlives this process would hold it open.
///
/// In the child of fork() their numbers lead nowhere from the start; exec closes them anyway. Threads: any.
namespace cohort::fork_guard {

/// While it lives, no thread makes a child: around opening a descriptor and add(), or remove() and closing
/// it. Short, not nested, and never around anything that waits. A handler of signals that forks amid of it
/// goes on without.
class NoChild {
 public:
  NoChild() noexcept;
  NoChild(const NoChild&) = delete;
  NoChild& operator=(const NoChild&) = delete;
  ~NoChild();
};

/// From now on this descriptor is none of a child's.
void add(int descriptor) noexcept;
/// Before it is closed, with no child in between.
void remove(int descriptor) noexcept;

}  // namespace cohort::fork_guard
