// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_options.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/secret_file.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/net/join/launcher.h>
#include <cohort/net/join/launcher_table.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>

namespace cohort {
namespace {

constexpr std::uint64_t kMostRanks = 65536;
constexpr std::size_t kMostNameCharacters = 64;

/// A descriptor can be read once, and its number may belong to something else afterwards.
SecretOfOptions secret_from_descriptor(int descriptor, const std::string& source) {
  static std::mutex mutex;
  static SecretOfOptions remembered;
  static int remembered_descriptor = -1;
  const std::lock_guard guard(mutex);
  if (!remembered || remembered_descriptor != descriptor) {
    remembered = Secret::parse(read_secret_fd(descriptor), source);
    remembered_descriptor = descriptor;
  }
  return remembered;
}

void read_secret(JoinOptions& options) {
  constexpr auto kLastDescriptor = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  if (const auto descriptor = environment::number("COHORT_SECRET_FD", 0, kLastDescriptor)) {
    options.secret_source = fmt::format("COHORT_SECRET_FD={}", *descriptor);
    options.secret = secret_from_descriptor(static_cast<int>(*descriptor), options.secret_source);
  } else if (const auto path = environment::text("COHORT_SECRET_FILE")) {
    options.secret_source = fmt::format("COHORT_SECRET_FILE={}", *path);
    options.secret = Secret::parse(read_secret_file(*path), options.secret_source);
  } else if (auto text = environment::text("COHORT_SECRET")) {
    options.secret_source = "COHORT_SECRET";
    const auto bytes = std::as_writable_bytes(std::span(*text));
    std::vector<std::byte> material(bytes.begin(), bytes.end());
    crypto::wipe(bytes);
    options.secret = Secret::parse(std::move(material), options.secret_source);
    static std::atomic_flag was_warned;
    if (!was_warned.test_and_set())
      log(LogLevel::warn,
          "COHORT_SECRET can be read by every process of this user in /proc/PID/environ: rather use "
          "COHORT_SECRET_FILE or COHORT_SECRET_FD");
  }
}

bool is_unauthenticated_by_environment() {
  const auto authentication = environment::text("COHORT_AUTH");
  if (authentication && *authentication != "none")
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("COHORT_AUTH='{}' is not 'none': leave it unset to have every connection authenticated",
                    *authentication));
  return authentication.has_value();
}

Encryption encryption_from_environment() {
  const std::string text = environment::text("COHORT_TLS").value_or("auto");
  if (text == "on") return Encryption::required;
  if (text == "off") return Encryption::forbidden;
  if (text == "auto") return Encryption::allowed;
  throw Error(ErrorKind::InvalidArgument,
              fmt::format("COHORT_TLS='{}' is none of on, off and auto (the default: where another rank "
                          "says on)",
                          text));
}

void read_place(JoinOptions& options) {
  auto rank = environment::text("COHORT_RANK");
  const auto size = environment::text("COHORT_SIZE");
  const bool has_table = environment::text("COHORT_RANK_TABLE").has_value();
  if (size && !rank && !has_table)
    if (const auto index = rank_of_indexed_job()) rank = std::to_string(*index);
  if (rank.has_value() != size.has_value() && !has_table)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("{} is set and {} is not: set both, as in COHORT_RANK=0 COHORT_SIZE=4, or neither to run "
                    "alone",
                    rank ? "COHORT_RANK" : "COHORT_SIZE", rank ? "COHORT_SIZE" : "COHORT_RANK"));
  if (!rank || has_table) {
    std::optional<LaunchedPlace> place = place_by_launcher();
    if (!place) return warn_of_unknown_place();
    options.rank = place->rank;
    options.size = place->size;
    options.address = place->address;
    options.job = place->job;
    options.secret = std::move(place->secret);
    options.secret_source = place->launcher;
    return;
  }
  options.size = static_cast<Rank>(environment::parse_number("COHORT_SIZE", *size, 1, kMostRanks));
  options.rank = static_cast<Rank>(environment::parse_number("COHORT_RANK", *rank, 0, kMostRanks - 1));
  if (options.rank >= options.size)
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("COHORT_RANK={} is not below COHORT_SIZE={}: ranks are numbered from 0 to {}",
                            options.rank, options.size, options.size - 1));
}

void check_as(WrongVariable wrong, JoinOptions& options) {
  options.check_place();
  if (wrong == WrongVariable::thrown)
    options.check_settings();
  else
    keep_fault(options.fault, [&] { options.check_settings(); });
}

}  // namespace

JoinOptions JoinOptions::from_environment(WrongVariable wrong) {
  JoinOptions place;
  read_place(place);
  JoinOptions options = join_options_besides_place(wrong);
  options.rank = place.rank;
  options.size = place.size;
  if (options.address.empty()) options.address = place.address;
  if (options.job.empty()) options.job = place.job;
  if (!options.secret && place.secret) {
    options.secret = std::move(place.secret);
    options.secret_source = place.secret_source;
  }
  check_as(wrong, options);
  return options;
}

JoinOptions JoinOptions::from_root_info(std::span<const std::byte> info, Rank rank, Rank size,
                                        WrongVariable wrong) {
  RootInfoParts parts = decode_root_info(info);
  JoinOptions options = join_options_besides_place(wrong);
  options.rank = rank;
  options.size = size;
  options.address = std::move(parts.address);
  options.secret = std::move(parts.secret);
  options.secret_source = "root_info()";
  check_as(wrong, options);
  return options;
}

InterfaceChoice interfaces_from_environment() {
  const auto text = environment::text("COHORT_SOCKET_IFNAME");
  return text ? InterfaceChoice::parse(*text, "COHORT_SOCKET_IFNAME") : InterfaceChoice();
}

std::optional<PortRange> ports_from_environment() {
  const auto text = environment::text("COHORT_PORT_RANGE");
  if (!text) return std::nullopt;
  PortRange range = PortRange::parse(*text, "COHORT_PORT_RANGE");
  const Rank master = launched_number("MASTER_PORT").value_or(0);
  if (master <= std::numeric_limits<std::uint16_t>::max())
    range.left_out = static_cast<std::uint16_t>(master);
  return range;
}

JoinOptions join_options_besides_place(WrongVariable wrong) {
  JoinOptions options = join_options_besides_place_and_secret(wrong);
  read_secret(options);
  return options;
}

JoinOptions join_options_besides_place_and_secret(WrongVariable wrong) {
  JoinOptions options;
  options.name = environment::text("COHORT_NAME").value_or(options.name);
  options.address = environment::text("COHORT_ADDR").value_or(options.address);
  options.job = environment::text("COHORT_JOB").value_or("");
  options.host_id = environment::text("COHORT_HOST_ID").value_or("");
  options.machine_id = environment::text("COHORT_MACHINE_ID").value_or("");
  const auto read = [&](const auto& function) { keep_fault(options.fault, function); };
  read([&] { options.is_unauthenticated = is_unauthenticated_by_environment(); });
  read([&] { options.encryption = encryption_from_environment(); });
  read([&] { options.timeout = environment::duration("COHORT_JOIN_TIMEOUT").value_or(options.timeout); });
  read([&] {
    options.host_timeout = environment::duration("COHORT_HOST_TIMEOUT").value_or(options.host_timeout);
  });
  read([&] { options.interfaces = interfaces_from_environment(); });
  read([&] { options.ports = ports_from_environment(); });
  if (wrong == WrongVariable::thrown && options.fault) throw Error(*options.fault);
  return options;
}

void JoinOptions::check() const {
  check_place();
  check_settings();
}

void JoinOptions::check_place() const {
  if (size == 0 || size > kMostRanks)
    throw Error(ErrorKind::InvalidArgument, fmt::format("size {} is not between 1 and {}", size, kMostRanks));
  if (rank >= size)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format("rank {} is not below size {}: ranks are numbered from 0 to {}", rank, size, size - 1));
  const bool is_plain = std::ranges::all_of(name, [](char letter) { return letter > ' ' && letter <= '~'; });
  if (name.empty() || name.size() > kMostNameCharacters || !is_plain)
    throw Error(
        ErrorKind::InvalidArgument,
        fmt::format(
            "the communicator's name has {} characters; it takes 1 to {} printable ones without blanks "
            "(COHORT_NAME)",
            name.size(), kMostNameCharacters));
}

void JoinOptions::check_settings() const {
  constexpr Duration kLeastHostTimeout = std::chrono::seconds(1);
  constexpr Duration kMostHostTimeout = std::chrono::hours(24);
  if (host_timeout < kLeastHostTimeout || host_timeout > kMostHostTimeout)
    throw Error(ErrorKind::InvalidArgument,
                "the time after which a host that does not answer is lost is from 1 s to 24 h "
                "(COHORT_HOST_TIMEOUT)");
  if (is_unauthenticated && encryption == Encryption::required)
    throw Error(ErrorKind::InvalidArgument,
                "COHORT_TLS=on needs a secret, and COHORT_AUTH=none has none: give all ranks "
                "COHORT_SECRET_FILE instead");
  if (timeout <= Duration::zero())
    throw Error(ErrorKind::InvalidArgument,
                "the time to join in must be more than zero (COHORT_JOIN_TIMEOUT)");
}

std::string JoinOptions::address_or_default() const {
  return address.empty() ? fmt::format("unix:cohort-{}-{}", host::user_id(), name) : address;
}

}  // namespace cohort
