// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/core/communicator_core.h>
#include <cohort/collectives/job/communicator_options.h>
#include <cohort/engine/engine.h>
#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/secret_file.h>
#include <cohort/engine/system/variables.h>
#include <cohort/net/auth/secret.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/tools/doctor/checks.h>

#include <fmt/format.h>

namespace cohort::doctor {
namespace {

void check_secret(Findings& findings) {
  if (environment::text("COHORT_AUTH") == "none")
    findings.note("secret", "COHORT_AUTH=none: whoever reaches the ports can join");
  const auto path = environment::text("COHORT_SECRET_FILE");
  if (!path) return;
  try {
    (void)Secret::parse(read_secret_file(*path), fmt::format("COHORT_SECRET_FILE={}", *path));
    findings.fine("secret", fmt::format("COHORT_SECRET_FILE={}", *path));
  } catch (const Error& error) {
    findings.problem("secret", std::string(error.message()),
                     fmt::format("chmod 600 {}, or make one: (umask 077; openssl rand "
                                 "-hex 32 > {})",
                                 *path, *path));
  }
}

/// Each part by itself, so that one that is wrong does not hide the others. Of a rank's place only what needs
/// no launcher.
void check_values(Findings& findings) {
  const auto check = [&findings](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      findings.problem("variable", std::string(error.message()),
                       "docs/operate/environment.md has what is accepted");
    }
  };
  check([] { const Engine engine; });
  check([] { join_options_besides_place_and_secret(WrongVariable::thrown).check(); });
  check([] { CommunicatorCore::check(CommunicatorOptions::collectives_from_environment()); });
}

}  // namespace

void check_settings(Findings& findings) {
  for (const std::string& complaint : environment::misspelt_variables())
    findings.problem("variable", complaint, "correct its name, or unset it");
  check_values(findings);
  check_secret(findings);
}

}  // namespace cohort::doctor
