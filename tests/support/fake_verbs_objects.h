// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/tests/support/fake_verbs.h>

#include <deque>

/// The objects of the library that is made up: they begin with what callers see of them.
namespace cohort::test {

struct Context {
  ibv_context seen{};
  FakeDevice* device = nullptr;
};

struct Channel {
  ibv_comp_channel seen{};
  std::deque<FakeVerbs::Queue*> told;
};

struct FakeVerbs::Queue {
  ibv_cq seen{};
  Channel* channel = nullptr;
  std::deque<ibv_wc> completions;
  std::size_t most = 0;
  bool is_armed = false;
};

struct FakeVerbs::Pair {
  ibv_qp seen{};
  Queue* queue = nullptr;
  std::uint32_t most_sends = 0;
  std::uint32_t most_receives = 0;
  std::uint32_t most_inline = 0;
  unsigned access = 0;      ///< of the other end
  bool is_ready = false;    ///< to send
  std::uint32_t sends = 0;  ///< posted, and not known to be complete
  std::uint32_t unsignaled = 0;
  std::deque<std::uint64_t> receives{};
  std::uint32_t other = 0;
  bool is_broken = false;
};

/// By which peers reach what this device reaches by its local key; its own inverse.
constexpr std::uint32_t remote_key(std::uint32_t local_key) { return ~local_key; }

}  // namespace cohort::test
