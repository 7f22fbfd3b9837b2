// SPDX-License-Identifier: Apache-2.0
// Checking a schedule of one's own: an all_gather that gives right results in every test, until a rank is
// slow. Prints what the checker says of it, and of the one that is right.
//   build/release/bin/check_schedule
#include <cohort/collectives/machines/check/suite.h>

#include <fmt/core.h>

namespace {

using cohort::AllGather;
using cohort::Exec;
using cohort::Link;
using cohort::Rank;
using cohort::Signal;
using cohort::Slice;
using cohort::Task;

/// Wrong: a rank leaves as soon as it has read its peers, which may not have read it.
Task<> hasty_all_gather(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(mine, op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  auto read_from = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await link.post(Signal::Ack);  // my block may be read
    co_await link.wait(Signal::Ack);  // yours too
    co_await link.get(mine, op.block(peer));
  };
  co_await x.fork_join(x.peers(), read_from);
}

/// Right: nobody leaves before its peers have said that they are done.
Task<> patient_all_gather(Exec& x, AllGather op) {
  const Slice mine = x.ccl_out(0, op.send.bytes);
  co_await x.copy(mine, op.send);
  co_await x.copy(op.block(x.rank()), op.send);
  auto read_from = [&](Rank peer) -> Task<> {
    Link& link = x.link(peer);
    co_await link.post(Signal::Ack);
    co_await link.wait(Signal::Ack);
    co_await link.get(mine, op.block(peer));
    co_await link.post(Signal::DataSignal);  // I am done with yours
    co_await link.wait(Signal::DataSignal);  // you are done with mine
  };
  co_await x.fork_join(x.peers(), read_from);
}

/// Of one block, which goes through ccl_out.
std::size_t a_buffer(std::size_t buffer_bytes, Rank) { return buffer_bytes; }

bool passes(const char* name, Task<> (*schedule)(Exec&, AllGather)) {
  const cohort::Algorithm<AllGather> algorithm = {
      .name = name, .needs = cohort::links_to_all, .largest_piece = a_buffer, .schedule = schedule};
  cohort::check::CaseFilter few;
  few.ranks = {2, 3, 4, 5, 8};  // 1 to 64 unless given
  const cohort::check::GridReport report = cohort::check::check_all(algorithm, few);
  if (report.passed()) {
    fmt::print("{}: {} cases passed\n", name, report.cases);
    return true;
  }
  const auto& first = report.failures.front();
  fmt::print("{} of {} cases failed. The first: {}\n{}\n", report.failures.size(), report.cases, first.what,
             first.report.findings.front().text);
  return false;
}

}  // namespace

int main() {
  const bool hasty = passes("hasty_all_gather", hasty_all_gather);
  const bool patient = passes("patient_all_gather", patient_all_gather);
  return !hasty && patient ? 0 : 1;
}
