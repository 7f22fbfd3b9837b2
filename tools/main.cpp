// SPDX-License-Identifier: Apache-2.0
// The command `cohort`: one subcommand per header beside this file.
#include <cohort/tools/application.h>
#include <cohort/tools/bench_command.h>
#include <cohort/tools/check_command.h>
#include <cohort/tools/doctor_command.h>
#include <cohort/tools/explain_command.h>
#include <cohort/tools/graph_command.h>
#include <cohort/tools/run_command.h>
#include <cohort/tools/sim_command.h>
#include <cohort/tools/soak_command.h>
#include <cohort/tools/topo_command.h>

#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::vector<std::string> command(argv, argv + argc);
  const auto add_bench = [&command](CLI::App& app, int& status) {
    cohort::add_bench_command(app, command, status);
  };
  return cohort::run_application(
      {cohort::add_run_command, add_bench, cohort::add_check_command, cohort::add_sim_command,
       cohort::add_explain_command, cohort::add_graph_command, cohort::add_soak_command,
       cohort::add_topo_command, cohort::add_doctor_command},
      argc, argv);
}
