// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/launch/job_output.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

namespace cohort {

JobOutput::JobOutput(Engine& engine, int output, int errors)
    : output_(engine, output),
      errors_(engine, errors),
      is_one_place_(output_.stream.is_same_place(errors_.stream)) {}

Task<> JobOutput::write(OutputChannel where, std::string_view text) {
  Channel& channel = at(where);
  std::string problem;
  {
    const Mutex::Guard my_turn = co_await turn(channel).lock();
    if (channel.is_lost) co_return;
    try {
      const bool has_reader = co_await channel.stream.write(text);
      if (has_reader) co_return;
      reader_is_gone_ = true;
      when_reader_is_gone_();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::SystemError && error.kind() != ErrorKind::ResourceLimit) throw;
      has_lost_text_ = true;
      problem = fmt::format("cohort: {}; what follows on this channel is lost\n", error.message());
    }
    channel.is_lost = true;
  }
  if (where == OutputChannel::output && !problem.empty()) co_await write(OutputChannel::errors, problem);
}

}  // namespace cohort
