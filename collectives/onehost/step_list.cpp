// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/onehost/step_list.h>

#include <cohort/collectives/memory/reduction/reduce.h>

#include <bit>

namespace cohort {

void AddressedStep::run() const noexcept {
  if (kind == LocalStep::Kind::copy) {
    std::byte* const to = outputs.front();
    const std::byte* const from = inputs.front();
    if (to != from) cohort::copy(to, from, bytes, stores);
    return;
  }
  const std::size_t count = bytes >> std::countr_zero(size_bytes(combine.type));
  if (kind == LocalStep::Kind::finish_average) {
    cohort::finish_average(combine.type, outputs.front(), count, combine.average_over);
    return;
  }
  cohort::reduce({.type = combine.type,
                  .op = combine.op,
                  .count = count,
                  .inputs = inputs,
                  .outputs = outputs,
                  .average_over = combine.average_over,
                  .stores = stores});
}

AddressedStep AddressedStep::part(std::size_t at, std::size_t part_bytes, Lists& lists) const {
  lists.inputs.assign(inputs.begin(), inputs.end());
  lists.outputs.assign(outputs.begin(), outputs.end());
  for (const std::byte*& input : lists.inputs) input += at;
  for (std::byte*& output : lists.outputs) output += at;
  AddressedStep result = *this;
  result.bytes = part_bytes;
  result.inputs = lists.inputs;
  result.outputs = lists.outputs;
  return result;
}

StepList::Step& StepList::add(const LocalStep& step) {
  if (count_ == steps_.size()) steps_.emplace_back();
  Step& next = steps_[count_++];
  next.outputs.assign(step.outputs().begin(), step.outputs().end());
  next.inputs.assign(step.inputs().begin(), step.inputs().end());
  return next;
}

}  // namespace cohort
