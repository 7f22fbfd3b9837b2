// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/clock.h>
#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/io/ports.h>
#include <cohort/net/auth/secret.h>
#include <cohort/net/encryption.h>
#include <cohort/net/join/root_info.h>
#include <cohort/net/rank.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cohort {

/// What becomes of a variable whose value cannot be read, where rank 0 can be reached without it.
enum class WrongVariable : std::uint8_t {
  thrown,
  kept,  ///< as JoinOptions::fault
};

/// How this process takes part in a communicator. Can be copied. Not an aggregate, so that g++ 12 destroys a
/// temporary once.
struct JoinOptions {
  JoinOptions() = default;

  std::string name = "world";  ///< of the communicator: 1 to 64 printable characters, the same on all ranks
  Rank rank = 0;
  Rank size = 1;
  std::string address;  ///< of rank 0: "unix:NAME" or "HOST:PORT"; empty: unix:cohort-UID-NAME
  Duration timeout = std::chrono::seconds(120);
  /// A host from which nothing comes for that long, not even what its kernel says by itself, is lost:
  /// COHORT_HOST_TIMEOUT.
  Duration host_timeout = std::chrono::seconds(10);
  /// The same on all ranks, and another one at each start of the job: so a rank that is left of an earlier
  /// start takes nobody's place, although it has the name, the address and the secret. Empty: such ranks are
  /// taken.
  std::string job;
  /// What all ranks know and nobody else does. Without one, ranks of one user meet at a Unix address and rank
  /// 0 hands a fresh one over; anywhere else joining is refused.
  SecretOfOptions secret;
  std::string secret_source = "JoinOptions";  ///< where it came from, for errors
  /// Ranks of one machine with different texts treat each other as ranks of different hosts: no shared
  /// memory.
  std::string host_id;
  /// Ranks with different texts are on different machines, which share neither memory nor cores: for machines
  /// that were cloned or resumed from one image, whose kernels may take each other for the same.
  std::string machine_id;
  /// Of connections that leave a host: COHORT_TLS.
  Encryption encryption = Encryption::allowed;
  bool is_unauthenticated = false;  ///< COHORT_AUTH=none: TCP without a secret, for anybody who can reach it
  InterfaceChoice interfaces;       ///< by which others may reach this rank; COHORT_SOCKET_IFNAME
  std::optional<PortRange> ports;   ///< at which it may listen; nothing: any. COHORT_PORT_RANGE
  /// What is wrong with this rank's settings: in place of joining, join() tells all ranks, and throws it.
  std::optional<Error> fault;

  /// COHORT_RANK, COHORT_SIZE (neither: what mpirun, mpiexec, srun, torchrun, Kubernetes or a rank table say,
  /// for which it may wait; else rank 0 of 1, with a warning where an environment says that there are more),
  /// COHORT_SOCKET_IFNAME, COHORT_PORT_RANGE, COHORT_ADDR, COHORT_NAME, COHORT_JOB, COHORT_JOIN_TIMEOUT,
  /// COHORT_AUTH=none, COHORT_TLS, COHORT_HOST_ID, COHORT_MACHINE_ID, COHORT_HOST_TIMEOUT, and the first of
  /// COHORT_SECRET_FD, COHORT_SECRET_FILE, COHORT_SECRET that is set.
  ///
  /// The descriptor is read and closed once per process and remembered, so that a second communicator can
  /// join too. Blocks while a pipe is read. Throws InvalidArgument naming the variable, AuthFailed for a
  /// secret that is none. `wrong`: of variables that say neither the place, the address, the name nor the
  /// secret.
  [[nodiscard]] static JoinOptions from_environment(WrongVariable wrong = WrongVariable::thrown);

  /// For a program that has sent the bytes of rank 0's root_info() to all of its ranks; everything else as
  /// from_environment() has it.
  [[nodiscard]] static JoinOptions from_root_info(std::span<const std::byte> info, Rank rank, Rank size,
                                                  WrongVariable wrong = WrongVariable::thrown);

  /// Throws InvalidArgument: rank, size, name, timeout.
  void check() const;
  /// The same of what has to be right for others to be told what is not: rank, size, name.
  void check_place() const;
  /// The rest.
  void check_settings() const;
  /// `address`, or the one that stands for an empty one.
  [[nodiscard]] std::string address_or_default() const;
};

/// COHORT_SOCKET_IFNAME and COHORT_PORT_RANGE.
[[nodiscard]] InterfaceChoice interfaces_from_environment();
[[nodiscard]] std::optional<PortRange> ports_from_environment();

}  // namespace cohort
