// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim_command.h>

#include <cohort/collectives/schedules/algorithm_table.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/memory_map.h>
#include <cohort/tools/command_line.h>
#include <cohort/tools/output_file.h>
#include <cohort/tools/progress_line.h>
#include <cohort/tools/sim/drawing.h>
#include <cohort/tools/sim/library_links.h>
#include <cohort/tools/sim/topology_file.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace cohort {
namespace {

constexpr Rank kMostSimulatedRanks = Rank{1} << 20;
/// Of address space: what thousands of ranks take. The clock walks through all of it again and again.
constexpr std::size_t kHeapBytes = std::size_t{1} << 30;

/// All pairs of more ranks than this have too many links to keep: some 300 bytes for each of p * (p - 1).
constexpr Rank kMostRanksOfPairs = 1024;
/// About a minute.
constexpr double kMostMessages = 50e6;
constexpr double kMostMessagesToAllow = 1e12;
constexpr double kMillion = 1e6;

constexpr const char* kSimFooter =
    R"(SIZE is a number of bytes such as 8, 64K or 1M, of the largest buffer that a rank has: of the vector,
of the whole output for all_gather, of the whole input for reduce_scatter.

Examples:
  cohort sim all_reduce --ranks 64 --bytes 256M
  cohort sim all_reduce --ranks 4096 --topology cluster.json --bytes 4K,256M --svg sim.svg

The schedules of all ranks run on a virtual clock; links take latency + bytes / bandwidth and are shared as
the topology says. docs/extend/simulate.md explains its members, the faults it can name, and what is left out.

Status: 0 when all ranks came through; 1 otherwise; 2 for wrong options.)";

struct SimArguments {
  std::string op;
  std::string algorithm = "all";
  std::string topology;
  std::string size_list = "1M";
  std::vector<std::string> sizes;
  std::string type = "float32";
  std::string trace;
  std::string svg;
  double most_messages = kMostMessages;
  bool is_csv = false;
  sim::Setup setup;
};

std::string_view name_of(LinkOperation::Kind kind) {
  constexpr std::string_view kNames[] = {"post",       "wait", "put",  "get",
                                         "get_reduce", "send", "recv", "recv_reduce"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// A line for each request on a link: picoseconds, rank, request, peer, bytes.
sim::Trace trace_to(OutputFile& file) {
  return [&file](const sim::TraceEvent& event) {
    file.write(
        fmt::format("{} {} {} {} {}\n", event.at, event.rank, name_of(event.kind), event.peer, event.bytes));
  };
}

/// Why an algorithm cannot be simulated; empty if it can be.
std::string objection(const AnyAlgorithm& algorithm, const sim::Topology& topology, const sim::Setup& setup) {
  const Rank ranks = setup.ranks;
  const bool shares_memory = sim::has_one_memory(topology, ranks);
  if (algorithm.scope() == Scope::node && !shares_memory) return "needs all ranks on one host";
  const Hosts hosts = sim::hosts_of(topology, ranks);
  if (!algorithm.fits(hosts)) return fmt::format("needs {}", hosts_needed(algorithm.levels()));
  const double pairs = ranks * (ranks - 1.0);
  const bool has_all_pairs =
      algorithm.cost(ranks, hosts).messages >= pairs && algorithm.needs(1, hosts).links_to_all;
  if (has_all_pairs && ranks > kMostRanksOfPairs)
    return fmt::format("links all pairs; simulated up to {} ranks", kMostRanksOfPairs);
  return "";
}

/// Why one size of an algorithm is left out where all algorithms are asked for; empty if it is not.
std::string objection_to_size(const AnyAlgorithm& algorithm, const sim::Topology& topology,
                              const sim::Setup& setup, const SimArguments& arguments) {
  if (arguments.algorithm != "all") return "";
  if (!algorithm.has_cost()) return "its messages cannot be predicted; name it with --algorithm";
  const double messages = sim::predicted_messages(algorithm, topology, setup);
  if (messages <= arguments.most_messages) return "";
  return fmt::format(
      "{:.1f} million messages are predicted, more than {:g} million; raise --most-messages, or "
      "name it with --algorithm",
      messages / kMillion, arguments.most_messages / kMillion);
}

/// What was not simulated, to be told behind what was.
class LeftOut {
 public:
  void add(const std::string& algorithm, const std::string& size, const std::string& why) {
    text_ += fmt::format("{:<20}{}{} left out: {}\n", algorithm, size.empty() ? "" : " ", size, why);
  }
  void print(const SimArguments& arguments) const {
    fmt::print(arguments.is_csv ? stderr : stdout, "{}", text_);
  }

 private:
  std::string text_;
};

/// How far a simulation has come; of no more messages than are predicted.
std::string progress_text(const std::string& what, std::uint64_t messages, double predicted) {
  const double so_far = static_cast<double>(messages);
  const double all = std::max(so_far, predicted);
  return fmt::format("{}: {:.1f} of {:.1f} million messages, {:.0f} %", what, so_far / kMillion,
                     all / kMillion, 100 * so_far / all);
}

void print_complaints(std::FILE* out, const sim::Prediction& prediction) {
  for (const std::string& complaint : prediction.complaints) fmt::print(out, "  {}\n", complaint);
}

/// As soon as it is known.
void print_csv(const SimArguments& arguments, const std::string& algorithm, std::size_t bytes,
               const sim::Prediction& prediction) {
  const std::string time = prediction.did_end ? fmt::format("{:.3f}", prediction.microseconds) : "-";
  fmt::print("{},{},{},{},{},{}\n", arguments.op, algorithm, arguments.setup.ranks, bytes, time,
             prediction.messages);
  print_complaints(stderr, prediction);
  std::fflush(stdout);
}

/// Size after size, the fastest algorithm first, those that never end last.
void print_table(const SimArguments& arguments, const std::vector<sim::Curve>& curves) {
  fmt::print("{:<20} {:>8} {:>16} {:>12}\n", "algorithm", "size", "time (us)", "messages");
  for (const std::string& size : arguments.sizes) {
    std::vector<std::pair<const sim::Prediction*, const std::string*>> rows;
    for (const sim::Curve& curve : curves)
      if (const sim::Prediction* const one = curve.at(environment::parse_bytes("SIZE", size)))
        rows.emplace_back(one, &curve.name);
    std::ranges::stable_sort(rows, {}, [](const auto& row) {
      return std::pair(!row.first->did_end, row.first->did_end ? row.first->microseconds : 0);
    });
    for (const auto& [prediction, name] : rows) {
      if (prediction->did_end)
        fmt::print("{:<20} {:>8} {:>16.3f} {:>12}\n", *name, size, prediction->microseconds,
                   prediction->messages);
      else
        fmt::print("{:<20} {:>8} never ends:\n", *name, size);
      print_complaints(stdout, *prediction);
    }
  }
}

/// What an algorithm came to for that size; null if it was left out, or did not end.
const sim::Prediction* prediction_of(const sim::Curve& curve, std::size_t bytes) {
  const sim::Prediction* const found = curve.at(bytes);
  return found != nullptr && found->did_end ? found : nullptr;
}

void print_fastest(Operator op, const SimArguments& arguments, const sim::Topology& topology,
                   const std::vector<sim::Curve>& curves) {
  if (arguments.is_csv) return;
  for (const std::string& size : arguments.sizes) {
    const std::size_t bytes = environment::parse_bytes("SIZE", size);
    const sim::Curve* best = nullptr;
    for (const sim::Curve& curve : curves)
      if (prediction_of(curve, bytes) != nullptr &&
          (best == nullptr ||
           prediction_of(curve, bytes)->microseconds < prediction_of(*best, bytes)->microseconds))
        best = &curve;
    if (best == nullptr) continue;
    sim::Setup setup = arguments.setup;
    setup.bytes = bytes;
    const AnyAlgorithm* const choice = sim::choice_of_library(op, topology, setup);
    fmt::print("fastest for {}: {}{}\n", size, best->name,
               choice == nullptr ? "" : fmt::format("; the library chooses {}", choice->name()));
  }
}

/// Which transports the library would choose; nobody asks that of one simulated network.
void print_links(const SimArguments& arguments, const sim::Topology& topology) {
  if (arguments.is_csv) return;
  const std::string_view inside = sim::transport_between(topology.has_shared_memory);
  const std::string_view outside = sim::transport_between(false);
  const std::size_t hosts = sim::host_bounds(topology, arguments.setup.ranks).size() - 1;
  const bool has_inside = sim::most_ranks_of_a_host(topology, arguments.setup.ranks) > 1;
  fmt::print("{} ranks on {} host{}:{}{}{}\n", arguments.setup.ranks, hosts, hosts == 1 ? "" : "s",
             has_inside ? fmt::format(" {} within a host", inside) : "", has_inside && hosts > 1 ? "," : "",
             hosts > 1 ? fmt::format(" {} between hosts", outside) : "");
}

/// One algorithm, for all sizes.
sim::Curve simulate(const AnyAlgorithm& algorithm, const SimArguments& arguments,
                    const sim::Topology& topology, const sim::Trace* trace, LeftOut& left_out) {
  ProgressLine line(stderr);
  sim::Curve curve{std::string(algorithm.name()), {}, {}};
  for (const std::string& size : arguments.sizes) {
    sim::Setup setup = arguments.setup;
    setup.bytes = environment::parse_bytes("SIZE", size);
    setup.type = *parse_data_type(arguments.type);
    if (const std::string why = objection_to_size(algorithm, topology, setup, arguments); !why.empty()) {
      left_out.add(curve.name, size, why);
      continue;
    }
    curve.bytes.push_back(setup.bytes);
    const double predicted = sim::predicted_messages(algorithm, topology, setup);
    const sim::Progress progress = [&](std::uint64_t messages) {
      if (line.is_due()) line.show(progress_text(curve.name + " " + size, messages, predicted));
    };
    const sim::Watchers watchers{.trace = trace, .progress = &progress};
    curve.predictions.push_back(sim::simulate(algorithm, topology, setup, watchers));
    line.clear();
    if (arguments.is_csv) print_csv(arguments, curve.name, setup.bytes, curve.predictions.back());
  }
  return curve;
}

/// True: all ranks came through, in all runs.
bool run(Operator op, const SimArguments& arguments, const sim::Topology& topology) {
  OutputFile trace_file(arguments.trace);
  OutputFile svg_file(arguments.svg);
  const sim::Trace trace = trace_to(trace_file);
  print_links(arguments, topology);
  if (arguments.is_csv) fmt::print("collective,algorithm,ranks,bytes,us,messages\n");
  std::vector<sim::Curve> curves;
  LeftOut left_out;
  for (const AnyAlgorithm& algorithm : AlgorithmTable::library().of(op)) {
    const std::string name(algorithm.name());
    if (algorithm.scope() == Scope::self) continue;
    if (arguments.algorithm != "all" && arguments.algorithm != name) continue;
    if (const std::string why = objection(algorithm, topology, arguments.setup); !why.empty())
      left_out.add(name, "", why);
    else
      curves.push_back(
          simulate(algorithm, arguments, topology, arguments.trace.empty() ? nullptr : &trace, left_out));
  }
  std::erase_if(curves, [](const sim::Curve& curve) { return curve.predictions.empty(); });
  if (!curves.empty() && !arguments.is_csv) print_table(arguments, curves);
  left_out.print(arguments);
  if (curves.empty()) throw CLI::ValidationError("sim", "no algorithm is left to simulate");
  print_fastest(op, arguments, topology, curves);
  trace_file.close();
  if (svg_file.is_wanted())
    svg_file.write(sim::draw(fmt::format("{}, {} ranks", arguments.op, arguments.setup.ranks), curves));
  svg_file.close();
  return std::all_of(curves.begin(), curves.end(), [](const sim::Curve& curve) {
    return std::all_of(curve.predictions.begin(), curve.predictions.end(),
                       [](const sim::Prediction& one) { return one.did_end; });
  });
}

int simulate(const SimArguments& arguments) {
  const Operator op = *parse_operator(arguments.op);
  if (op->has_root && arguments.setup.root >= arguments.setup.ranks)
    throw CLI::ValidationError(
        "--root", fmt::format("root {} is no rank of {}: give one from 0 to {}", arguments.setup.root,
                              arguments.setup.ranks, arguments.setup.ranks - 1));
  memory_map::grow_heap_on_huge_pages(kHeapBytes);
  const sim::Topology topology =
      arguments.topology.empty() ? sim::library_topology() : sim::read_topology(arguments.topology);
  const bool did_end = run(op, arguments, topology);
  return did_end ? 0 : 1;
}

void check_sizes(const std::string& text) {
  for (const std::string& size : command_line::split_list(text)) (void)environment::parse_bytes("SIZE", size);
}

}  // namespace

void add_sim_command(CLI::App& app, int& status) {
  CLI::App* sim = app.add_subcommand("sim", "Predict how long algorithms take, with thousands of ranks");
  const auto arguments = std::make_shared<SimArguments>();
  std::vector<std::string> operators;
  for (const Operator each : all_operators()) operators.emplace_back(to_string(each));
  std::vector<std::string> names = {"all"};
  for (const std::string_view name : AlgorithmTable::library().names()) names.emplace_back(name);
  sim->add_option("operator", arguments->op, "What to simulate")
      ->required()
      ->check(CLI::IsMember(operators))
      ->type_name("OPERATOR");
  sim->add_option("-n,--ranks", arguments->setup.ranks, "How many ranks")
      ->required()
      ->check(CLI::Range(Rank{2}, kMostSimulatedRanks))
      ->type_name("COUNT");
  sim->add_option("--topology", arguments->topology, "Hosts, links and faults; one rank a host unless given")
      ->type_name("FILE");
  sim->add_option("--bytes,--sizes", arguments->size_list, "These sizes, such as 8,4K,1M")
      ->check(command_line::accepts("SIZE,...", check_sizes))
      ->capture_default_str();
  command_line::add_type(*sim, arguments->type);
  sim->add_option("--algorithm", arguments->algorithm, "This one, or all")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  sim->add_option("--most-messages", arguments->most_messages, "Leave out what is predicted to send more")
      ->check(CLI::Range(1.0, kMostMessagesToAllow))
      ->type_name("COUNT")
      ->capture_default_str();
  sim->add_option("--root", arguments->setup.root, "Of operators that have one")
      ->type_name("RANK")
      ->capture_default_str();
  sim->add_flag("--shared", arguments->setup.has_shared_buffers, "Buffers that peers on a host map");
  sim->add_option("--seed", arguments->setup.seed, "Shuffles what happens at one moment; 0: in order")
      ->type_name("NUMBER")
      ->capture_default_str();
  sim->add_option("--trace", arguments->trace, "Write every request on a link to it")->type_name("FILE");
  sim->add_flag("--csv", arguments->is_csv, "Rows of comma-separated values");
  sim->add_option("--svg", arguments->svg, "Draw time over size and the use of links")->type_name("FILE");
  sim->footer(kSimFooter);
  sim->callback([arguments, &status] {
    arguments->sizes = command_line::split_list(arguments->size_list);
    status = simulate(*arguments);
  });
}

}  // namespace cohort
