// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/pmi/exchange.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/join/launcher_table.h>
#include <cohort/net/join/pmi/pmi1_client.h>
#include <cohort/net/join/pmi/pmix_client.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace cohort::pmi {
namespace {

constexpr const char* kKey = "cohort.root";
/// Of one answer: the barrier waits for all ranks to be started.
constexpr Duration kPatience = std::chrono::minutes(5);
constexpr unsigned kHexBits = 4;

std::string hexadecimal(const RootInfo& info) {
  std::string digits;
  for (const std::byte byte : info) digits += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return digits;
}

unsigned value_of_digit(char digit) {
  const std::string_view digits = "0123456789abcdef";
  const std::size_t value = digits.find(digit);
  if (value == std::string_view::npos)
    throw Error(ErrorKind::ProtocolError, "the launcher gave something else than rank 0 put");
  return static_cast<unsigned>(value);
}

RootInfo from_hexadecimal(const std::string& digits) {
  RootInfo info{};
  if (digits.size() != 2 * info.size())
    throw Error(ErrorKind::ProtocolError, fmt::format("the launcher gave {} characters in the place of {}",
                                                      digits.size(), 2 * info.size()));
  for (std::size_t i = 0; i < info.size(); ++i)
    info[i] =
        static_cast<std::byte>(value_of_digit(digits[2 * i]) << kHexBits | value_of_digit(digits[2 * i + 1]));
  return info;
}

bool is_of_pmi1(Rank rank) {
  const bool is_there =
      environment::text("PMI_FD") || (environment::text("PMI_PORT") && environment::text("PMI_ID"));
  return is_there && launched_number("PMI_RANK") == rank;
}

bool is_of_pmix(Rank rank) {
  return environment::text("PMIX_NAMESPACE") && launched_number("PMIX_RANK") == rank;
}

RootInfo exchange_by_pmi1(Rank rank) {
  std::optional<LineChannel> channel = Pmi1Client::channel(kPatience);
  if (!channel)
    throw Error(ErrorKind::Unsupported,
                "PMI_FD is no connection to a launcher any more: set COHORT_ADDR=HOST:PORT of "
                "rank 0's host, and COHORT_SECRET_FILE");
  Pmi1Client client(*std::move(channel), kPatience);
  if (rank == 0) client.put(kKey, hexadecimal(root_info()));
  client.barrier();
  const RootInfo info = from_hexadecimal(client.get(kKey));
  client.barrier();  // nobody's end is known before all have it
  client.finalize();
  return info;
}

RootInfo exchange_by_pmix(Rank rank) {
  PmixClient client;
  if (client.rank() != rank)
    throw Error(
        ErrorKind::Mismatch,
        fmt::format("PMIx says that this process is rank {}, its environment rank {}", client.rank(), rank));
  if (rank == 0) client.put(kKey, hexadecimal(root_info()));
  client.fence();
  const RootInfo info = from_hexadecimal(client.get(kKey));
  client.finalize();
  return info;
}

}  // namespace

bool is_offered_to(Rank rank, Rank size) {
  if (is_of_pmi1(rank)) return launched_number("PMI_SIZE") == size;
  return is_of_pmix(rank);
}

const RootInfo& exchange(Rank rank, std::string& how) {
  static std::mutex mutex;
  static std::optional<RootInfo> made;
  static std::string made_by;
  const std::lock_guard guard(mutex);
  if (!made) {
    made_by = is_of_pmi1(rank) ? "PMI-1" : "PMIx";
    made = is_of_pmi1(rank) ? exchange_by_pmi1(rank) : exchange_by_pmix(rank);
  }
  how = made_by;
  return *made;
}

std::optional<PmixPlace> place_by_pmix() {
  if (!environment::text("PMIX_NAMESPACE") || !launched_number("PMIX_RANK")) return std::nullopt;
  static std::mutex mutex;
  static std::optional<PmixPlace> place;
  const std::lock_guard guard(mutex);
  if (!place) {
    PmixClient client;
    place = PmixPlace{client.rank(), client.size()};
  }
  return place;
}

}  // namespace cohort::pmi
