// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/bindings/session/session.h>
#include <cohort/bindings/torch/face.h>
#include <cohort/engine/error.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// What the sides of face.h that know cohort have in common.
namespace cohort::torch_face {

/// Not below zero, and no longer than a moment in nanoseconds can be away.
[[nodiscard]] Duration duration_of(double seconds);
[[nodiscard]] std::span<std::byte> bytes_of(const Memory& memory);

template <class Known>
auto known(std::optional<Known> found, const std::string& name) {
  if (!found) throw std::invalid_argument("cohort knows no '" + name + "'");
  return *found;
}

/// A group, as its errors say it.
struct GroupNames {
  std::string name;
  std::vector<Rank> world_ranks;

  /// Which rank of the world the culprit is.
  [[nodiscard]] std::string explain(const Error& error) const;
};

template <class Function>
Outcome outcome_of(const Function& function, const GroupNames& group) {
  Outcome outcome;
  try {
    function();
  } catch (const Error& error) {
    outcome.failure = group.explain(error);
    outcome.is_late = error.kind() == ErrorKind::DeadlineExceeded || error.kind() == ErrorKind::PeerSilent;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  return outcome;
}

/// One that was made, which leave_all() leaves if nobody has.
void keep_open(const std::shared_ptr<bindings::SharedCommunicator>& comm);

/// Starts it; `over` is told how it ended, in the words of the group.
[[nodiscard]] std::shared_ptr<Pending> launch(bindings::SharedCommunicator& comm,
                                              const std::shared_ptr<bindings::Request>& request,
                                              std::function<void(const Outcome&)> over,
                                              std::shared_ptr<const GroupNames> group,
                                              Duration patience = Duration::zero());

/// Of such a communicator; a collective. Throws as Ranks::buckets().
[[nodiscard]] std::shared_ptr<Buckets> make_buckets(const std::shared_ptr<bindings::SharedCommunicator>& comm,
                                                    const BucketOptions& options, const GroupNames& group,
                                                    bindings::Interrupt* interrupt);

}  // namespace cohort::torch_face
