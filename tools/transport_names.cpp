// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/transport_names.h>

#include <cohort/net/transport_list.h>

namespace cohort::command_line {

std::vector<std::string> transport_names() {
  std::vector<std::string> names;
  for (const TransportKind& kind : transports()) names.emplace_back(kind.name);
  return names;
}

}  // namespace cohort::command_line
