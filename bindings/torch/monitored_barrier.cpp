// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/job.h>
#include <cohort/bindings/torch/tensors.h>

#include <ATen/ATen.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

namespace cohort::torch_face {
namespace {

using std::chrono::milliseconds;

/// No program's: torch's tags begin at zero.
constexpr int kTag = std::numeric_limits<int>::min();
/// How much longer the others wait, for rank 0 to tell them who is missing.
constexpr milliseconds kForTheWord{10'000};

std::string listed(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "Rank " : "Ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

ProcessGroupCohort::Work ProcessGroupCohort::pass_word(bool is_send, int peer, milliseconds timeout) {
  const at::Tensor word = at::zeros({1}, at::kByte);
  Message call;
  call.is_send = is_send;
  call.peer = static_cast<std::uint32_t>(peer);
  call.tag = kTag;
  call.data = memory_of(word);
  call.timeout_s = std::chrono::duration<double>(timeout + kForTheWord).count();
  return start({c10d::OpType::BARRIER, nullptr, {word}}, call);
}

void ProcessGroupCohort::hear_everybody(milliseconds timeout, bool waits_for_all) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  std::vector<Work> words;
  for (int peer = 1; peer < getSize(); ++peer) words.push_back(pass_word(false, peer, timeout));
  std::vector<int> missing;
  std::string cause;
  for (int peer = 1; peer < getSize() && (missing.empty() || waits_for_all); ++peer) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    try {
      words[static_cast<std::size_t>(peer - 1)]->wait(std::max(left, milliseconds(1)));
    } catch (const pybind11::error_already_set&) {
      throw;  // Ctrl-C
    } catch (const std::exception& error) {
      missing.push_back(peer);
      cause = error.what();
    }
  }
  if (missing.empty()) return;
  const std::string text =
      listed(missing) + " failed to pass monitoredBarrier in " + std::to_string(timeout.count()) + " ms";
  ranks_->abort(text);
  TORCH_CHECK(false, "cohort: ", text, "; see what they do instead. The last one: ", cause);
}

void ProcessGroupCohort::monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) {
  const auto groups = std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(timeout_s_));
  const milliseconds timeout = options.timeout < milliseconds(0) ? groups : options.timeout;
  if (getRank() != 0) {
    try {
      pass_word(true, 0, timeout)->wait();
      pass_word(false, 0, timeout)->wait();
    } catch (const pybind11::error_already_set&) {
      throw;  // Ctrl-C
    } catch (const std::exception& error) {
      TORCH_CHECK(false, "cohort: Rank ", getRank(),
                  " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                  "from rank 0: ",
                  error.what());
    }
    return;
  }
  if (timeout == milliseconds(0)) {
    const std::string text = "Rank 0 timed out in monitoredBarrier: it was given no time";
    ranks_->abort(text);
    TORCH_CHECK(false, "cohort: ", text);
  }
  hear_everybody(timeout, waits_for_all);
  std::vector<Work> words;
  for (int peer = 1; peer < getSize(); ++peer) words.push_back(pass_word(true, peer, timeout));
  for (const Work& word : words) word->wait();
}

}  // namespace cohort::torch_face
