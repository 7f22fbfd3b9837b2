// SPDX-License-Identifier: Apache-2.0
// The program `cohort-run`, which is `cohort run`: for hosts that only start jobs, and for who has just
// cloned the tree, as it is built without all that the other subcommands need.
#include <cohort/tools/application.h>
#include <cohort/tools/run_command.h>

#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::string run = "run";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1, run.data());
  return cohort::run_application({cohort::add_run_command}, argc + 1, arguments.data());
}
