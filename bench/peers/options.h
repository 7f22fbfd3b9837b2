// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::peers {

/// What is measured. A new collective needs a line in kCollectives, its shape (`shape_of`), its result
/// (`expected_result` in measure.h) and one case in each program. send_recv is a ping-pong of ranks 0 and 1:
/// there and back. The forms with counts (_v, _vc) are measured with blocks that are alike.
enum class Collective {
  barrier,
  broadcast,
  all_reduce,
  all_gather,
  reduce_scatter,
  reduce,
  all_to_all,
  send_recv,
  gather,
  scatter,
  all_gather_v,
  reduce_scatter_v,
  gather_v,
  scatter_v,
  all_to_all_vc,
  scan,
  exclusive_scan
};

struct NamedCollective {
  Collective collective;
  const char* name;
};

inline constexpr NamedCollective kCollectives[] = {{Collective::barrier, "barrier"},
                                                   {Collective::broadcast, "broadcast"},
                                                   {Collective::all_reduce, "all_reduce"},
                                                   {Collective::all_gather, "all_gather"},
                                                   {Collective::reduce_scatter, "reduce_scatter"},
                                                   {Collective::reduce, "reduce"},
                                                   {Collective::all_to_all, "all_to_all"},
                                                   {Collective::send_recv, "send_recv"},
                                                   {Collective::gather, "gather"},
                                                   {Collective::scatter, "scatter"},
                                                   {Collective::all_gather_v, "all_gather_v"},
                                                   {Collective::reduce_scatter_v, "reduce_scatter_v"},
                                                   {Collective::gather_v, "gather_v"},
                                                   {Collective::scatter_v, "scatter_v"},
                                                   {Collective::all_to_all_vc, "all_to_all_vc"},
                                                   {Collective::scan, "scan"},
                                                   {Collective::exclusive_scan, "exclusive_scan"}};

inline const char* name_of(Collective collective) {
  for (const NamedCollective& known : kCollectives) {
    if (known.collective == collective) return known.name;
  }
  return "unknown";
}

/// How every rank is brought to the same start before a timed operation.
enum class Start {
  line,    ///< counter in shared memory and a common start time: the same for every library
  barrier  ///< the library's own barrier after the line: its ranks leave it when it lets them
};

/// Who computes while an all_reduce runs: every rank on its core; rank 0 alone; or a device, which leaves all
/// cores free: the ranks only wait for it.
enum class Computing { all, one, device };

inline const char* name_of(Computing computing) {
  return computing == Computing::all ? "all" : computing == Computing::one ? "one" : "device";
}

inline Computing parse_computing(const std::string& text) {
  for (const Computing computing : {Computing::all, Computing::one, Computing::device}) {
    if (text == name_of(computing)) return computing;
  }
  throw std::invalid_argument("--overlap is all, one or device, not '" + text + "'");
}

/// Elements of float32 that one rank passes in and gets out.
struct Shape {
  std::size_t in = 0;
  std::size_t out = 0;
};

/// `bytes` is the vector on every rank for broadcast, all_reduce, reduce, scans and send_recv, the whole
/// output for gather and all_gather, the whole input for scatter, reduce_scatter and all_to_all. Every rank
/// has at least one element, so 8 bytes on 8 ranks moves 32.
inline Shape shape_of(Collective collective, std::size_t bytes, int ranks) {
  const std::size_t whole = bytes / sizeof(float) > 0 ? bytes / sizeof(float) : 1;
  const auto size = static_cast<std::size_t>(ranks);
  const std::size_t share = whole / size > 0 ? whole / size : 1;
  switch (collective) {
    case Collective::barrier: return {};
    case Collective::broadcast:
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::scan:
    case Collective::exclusive_scan:
    case Collective::send_recv: return {.in = whole, .out = whole};
    case Collective::all_to_all_vc:
    case Collective::all_to_all: return {.in = share * size, .out = share * size};
    case Collective::gather:
    case Collective::gather_v:
    case Collective::all_gather_v:
    case Collective::all_gather: return {.in = share, .out = share * size};
    case Collective::scatter:
    case Collective::scatter_v:
    case Collective::reduce_scatter_v:
    case Collective::reduce_scatter: return {.in = share * size, .out = share};
  }
  return {};
}

struct Options {
  std::string transport = "tcp";  ///< printed; Gloo also chooses its mode by it
  int ranks = 2;                  ///< only where the program starts its own ranks (Gloo)
  std::vector<Collective> collectives;
  std::vector<std::size_t> sizes_bytes;
  std::chrono::milliseconds budget{250};  ///< wall time of the timed part of one point
  std::optional<Computing> overlap;       ///< all_reduce beside computing, instead of the collectives
  bool rewrite = true;
  Start start = Start::line;
  std::chrono::milliseconds near_wait{0};  ///< how long a point may wait for near cores
  unsigned timeout_s = 120;  ///< a rank ends itself when one point takes longer, whatever it waits for
};

inline std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (comma != 0) parts.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return parts;
}

/// A whole number in [least, most], with K, M or G (powers of 1024) allowed behind it. Throws
/// std::invalid_argument.
inline std::size_t parse_number(const std::string& text, std::size_t least, std::size_t most) {
  char* end = nullptr;
  std::size_t number = text.starts_with('-') ? 0 : std::strtoull(text.c_str(), &end, 10);
  const std::string_view suffix = end == nullptr ? std::string_view("-") : std::string_view(end);
  const int shift = suffix == "K" ? 10 : suffix == "M" ? 20 : suffix == "G" ? 30 : 0;
  const bool understood = end != text.c_str() && (suffix.empty() || shift != 0);
  if (!understood || number > (most >> shift) || number << shift < least) {
    throw std::invalid_argument("'" + text + "' is not a number from " + std::to_string(least) + " to " +
                                std::to_string(most));
  }
  return number << shift;
}

inline Collective parse_collective(const std::string& text) {
  for (const NamedCollective& known : kCollectives) {
    if (text == known.name) return known.collective;
  }
  throw std::invalid_argument("unknown collective '" + text + "'");
}

inline constexpr const char* kUsage =
    "options: --collectives LIST --sizes LIST --transport LABEL --ranks N (Gloo only) --budget-ms N\n"
    "         --start line|barrier --no-rewrite --near-wait-ms N --timeout-s N\n"
    "         --overlap all|one|device (who computes beside an all_reduce)\n"
    "prints:  "
    "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters,rtt_before_ns,rtt_after_ns\n"
    "         or, for a point that cannot be measured: peer,transport,collective,ranks,bytes,-,REASON\n";

/// Throws std::invalid_argument for what is not an option.
inline Options parse_options(std::span<char* const> arguments) {
  constexpr std::size_t kLargest = std::size_t{1} << 32;
  Options options;
  std::size_t next = 1;
  const auto value = [&] {
    if (++next >= arguments.size()) throw std::invalid_argument("the last option lacks its value");
    return std::string(arguments[next]);
  };
  for (; next < arguments.size(); ++next) {
    const std::string_view option = arguments[next];
    if (option == "--collectives") {
      for (const std::string& part : split(value())) options.collectives.push_back(parse_collective(part));
    } else if (option == "--sizes") {
      for (const std::string& part : split(value())) {
        options.sizes_bytes.push_back(parse_number(part, sizeof(float), kLargest));
      }
    } else if (option == "--transport") {
      options.transport = value();
    } else if (option == "--ranks") {
      options.ranks = static_cast<int>(parse_number(value(), 1, 64));
    } else if (option == "--budget-ms") {
      options.budget = std::chrono::milliseconds(parse_number(value(), 1, 600'000));
    } else if (option == "--timeout-s") {
      options.timeout_s = static_cast<unsigned>(parse_number(value(), 1, 86'400));
    } else if (option == "--start") {
      const std::string start = value();
      if (start != "line" && start != "barrier") throw std::invalid_argument("--start is line or barrier");
      options.start = start == "line" ? Start::line : Start::barrier;
    } else if (option == "--overlap") {
      options.overlap = parse_computing(value());
    } else if (option == "--no-rewrite") {
      options.rewrite = false;
    } else if (option == "--near-wait-ms") {
      options.near_wait = std::chrono::milliseconds(parse_number(value(), 0, 60'000));
    } else {
      throw std::invalid_argument("unknown option '" + std::string(option) + "'");
    }
  }
  if (options.collectives.empty()) {
    for (const NamedCollective& known : kCollectives) options.collectives.push_back(known.collective);
  }
  if (options.sizes_bytes.empty()) options.sizes_bytes = {8, 4096, 65536, 1 << 20, 16 << 20, 64 << 20};
  return options;
}

}  // namespace cohort::peers
