// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/root_info.h>

#include <cohort/engine/error.h>
#include <cohort/engine/io/interfaces.h>
#include <cohort/engine/io/reserved_ports.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/join/join_options.h>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace cohort {
namespace {

// "COHORT", the version, how long the address is, the address, zeros; at the end the secret and a check sum.
constexpr std::array<std::byte, 7> kHead = {std::byte{'C'}, std::byte{'O'}, std::byte{'H'}, std::byte{'O'},
                                            std::byte{'R'}, std::byte{'T'}, std::byte{1}};
constexpr std::size_t kSumBytes = 4;
constexpr std::size_t kSecretAt = kRootInfoBytes - kSumBytes - Secret::kBytes;
constexpr std::size_t kLengthAt = kHead.size();
constexpr std::size_t kAddressAt = kLengthAt + 1;
constexpr std::size_t kMostAddress = kSecretAt - kAddressAt;

std::array<std::byte, kSumBytes> sum_of(std::span<const std::byte> bytes) {
  const crypto::Digest digest = crypto::sha256(bytes.first(kRootInfoBytes - kSumBytes));
  std::array<std::byte, kSumBytes> sum{};
  std::copy_n(digest.begin(), kSumBytes, sum.begin());
  return sum;
}

}  // namespace

RootInfo root_info() {
  static std::mutex mutex;
  static ReservedPorts reserved(kRootPortKept);
  const Address host = choose_own_address(interfaces_from_environment());
  const std::lock_guard guard(mutex);
  const Address& at = reserved.add(host, ports_from_environment(), MonotonicClock().now());
  return encode_root_info(at.to_string(), Secret::random());
}

RootInfo encode_root_info(const std::string& address, const Secret& secret) {
  if (address.size() > kMostAddress)
    throw Error(ErrorKind::Unsupported,
                fmt::format("the address {} is longer than {}", address, kMostAddress));
  RootInfo info{};
  std::ranges::copy(kHead, info.begin());
  info[kLengthAt] = static_cast<std::byte>(address.size());
  std::ranges::copy(std::as_bytes(std::span(address)), info.begin() + kAddressAt);
  std::ranges::copy(secret.bytes(), info.begin() + kSecretAt);
  std::ranges::copy(sum_of(info), info.end() - kSumBytes);
  return info;
}

RootInfoParts decode_root_info(std::span<const std::byte> bytes) {
  const auto refuse = [](std::string_view why) {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("these bytes are not what root_info() gave: {}; send all {} of them", why,
                            kRootInfoBytes));
  };
  if (bytes.size() != kRootInfoBytes) refuse(fmt::format("there are {}", bytes.size()));
  if (!std::ranges::equal(kHead, bytes.first(kHead.size()))) refuse("they begin otherwise");
  if (!std::ranges::equal(sum_of(bytes), bytes.last(kSumBytes))) refuse("they were changed");
  const auto length = static_cast<std::size_t>(bytes[kLengthAt]);
  if (length == 0 || length > kMostAddress) refuse("they have no address");
  const auto address = bytes.subspan(kAddressAt, length);
  return {std::string(reinterpret_cast<const char*>(address.data()), length),
          Secret::from_bytes(bytes.subspan(kSecretAt).first<Secret::kBytes>())};
}

}  // namespace cohort
