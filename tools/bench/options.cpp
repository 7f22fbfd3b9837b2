// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/options.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort::bench {

void Options::check() const {
  if (root >= ranks)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("--root {} is no rank: with --ranks {} they are 0 to {}", root, ranks, ranks - 1));
  if (is_joined && (is_in_process || near_wait))
    throw Error(
        ErrorKind::InvalidArgument,
        "--threads and --near-wait are for ranks that cohort bench starts itself, but this process is "
        "a rank already (COHORT_RANK)");
  if (ranks > kMostRanks)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("the job has {} ranks; cohort bench takes at most {}", ranks, kMostRanks));
  const bool has_messages =
      std::find(exercises.begin(), exercises.end(), Exercise::send_recv()) != exercises.end();
  if (has_messages && ranks < 2)
    throw Error(ErrorKind::InvalidArgument, "send_recv is between two ranks; give --ranks 2");
  if (has_messages && !algorithm.empty())
    throw Error(ErrorKind::InvalidArgument, "send_recv has no algorithms; leave out --algorithm");
  const bool is_all_reduce = exercises == std::vector<Exercise>{operator_of<AllReduce>};
  if (overlap && !picture.empty())
    throw Error(ErrorKind::InvalidArgument, "--svg draws times by size, which --overlap does not measure");
  if (overlap && (!is_all_reduce || is_in_place))
    throw Error(ErrorKind::InvalidArgument, "--overlap is for all_reduce, and not --in-place");
  const bool combines =
      std::any_of(exercises.begin(), exercises.end(), [](Exercise exercise) { return exercise->combines; });
  if (combines && !applies(reduce, type))
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("--op {} does not combine {}; give --type {}", to_string(reduce), to_string(type),
                            types_of(reduce)));
  if (sizes_bytes.empty())
    throw Error(ErrorKind::InvalidArgument, "no size to measure: --min must not be larger than --max");
}

std::vector<std::size_t> sizes_between(std::size_t least, std::size_t most, std::size_t factor) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = least; size <= most; size *= factor) {
    sizes.push_back(size);
    if (size > most / factor) break;
  }
  return sizes;
}

Shape shape_of(Exercise exercise, std::size_t bytes, std::size_t element_bytes, Rank ranks) {
  if (!exercise->has_data) return {};
  const std::size_t per_count = exercise.elements_per_count(ranks);
  const std::size_t whole = std::max<std::size_t>(bytes / element_bytes, 1);
  const std::size_t count = std::max<std::size_t>(whole / per_count, 1);
  const Extent most = exercise->extent({.count = 1, .ranks = ranks}, 0);
  return {count * most.send, count * most.recv, count, count * per_count * element_bytes};
}

}  // namespace cohort::bench
