// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/topo_command.h>

#include <cohort/collectives/run.h>
#include <cohort/net/membership.h>
#include <cohort/tools/gathering.h>
#include <cohort/tools/output_file.h>
#include <cohort/tools/print.h>
#include <cohort/tools/topo/report.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

namespace cohort {
namespace {

constexpr const char* kTopoFooter = R"(
Examples:
  cohort topo
  cohort run --hosts node1:4,node2:4 --no-prefix -- cohort topo --svg hosts.svg

In a job that a launcher has started rank 0 prints all hosts, their ranks, and which of these share memory.

Status: 0; 1 when ranks cannot join or the picture cannot be written; 2 for wrong options.)";

struct TopoArguments {
  bool is_json = false;
  std::string picture;
};

/// "0-3,8".
std::string list_of(const CoreSet& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size(); ++first) {
    if (!cores.test(first)) continue;
    std::size_t last = first;
    while (last + 1 < cores.size() && cores.test(last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last != first) text += fmt::format("-{}", last);
    first = last;
  }
  return text;
}

void tell(const std::vector<topo::HostOfJob>& hosts, const std::string& transport,
          const TopoArguments& arguments) {
  print(arguments.is_json ? topo::as_json(hosts, transport) : topo::as_text(hosts, transport));
  if (arguments.picture.empty()) return;
  OutputFile picture(arguments.picture);
  picture.write(topo::as_svg(hosts, transport));
  picture.close();
}

Task<> tell_job(Communicator& comm, const TopoArguments& arguments) {
  const Membership& membership = comm.membership();
  const std::vector<Rank> firsts = first_ranks_of_hosts(membership);
  const bool is_first = std::ranges::find(firsts, comm.rank()) != firsts.end();
  std::string own;
  if (is_first) own = encode(topo::describe_host());
  const std::vector<std::string> texts = co_await gather_texts(comm, own);
  if (comm.rank() != 0) co_return;
  std::vector<topo::HostOfJob> hosts;
  for (const Rank first : firsts) {
    topo::HostOfJob host;
    host.host = topo::decode_host(texts[first]);
    for (const Rank other : firsts) {
      const bool is_one_machine = membership.peers[other].machine_id == membership.peers[first].machine_id;
      if (other != first && is_one_machine) host.same_machine_as.push_back(other);
    }
    for (const PeerInfo& peer : membership.peers) {
      if (peer.host_id != membership.peers[first].host_id) continue;
      host.ranks.push_back(peer.rank);
      host.cores.push_back(list_of(peer.cores));
    }
    const Address& address = membership.peers[first].data_address;
    if (firsts.size() > 1 && address.size_bytes() != 0) {
      const std::string text = address.to_string();
      host.address = text.substr(0, text.rfind(':'));
    }
    hosts.push_back(std::move(host));
  }
  tell(hosts, comm.transport(), arguments);
}

int show(const TopoArguments& arguments) {
  CommunicatorOptions options = CommunicatorOptions::from_environment();
  if (options.join.size == 1) {
    topo::HostOfJob here;
    here.host = topo::describe_host();
    tell({here}, "", arguments);
    return 0;
  }
  return run([&](Communicator& comm) { return tell_job(comm, arguments); }, std::move(options));
}

}  // namespace

void add_topo_command(CLI::App& app, int& status) {
  CLI::App* command =
      app.add_subcommand("topo", "Show hosts, cores, memories and networks, here or of a job");
  const auto arguments = std::make_shared<TopoArguments>();
  command->add_flag("--json", arguments->is_json, "One JSON object");
  command->add_option("--svg", arguments->picture, "Draw them into this file, too")->option_text("FILE");
  command->footer(kTopoFooter);
  command->callback([arguments, &status] { status = show(*arguments); });
}

}  // namespace cohort
