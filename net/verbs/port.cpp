// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/verbs/port.h>

#include <cohort/engine/error.h>
#include <cohort/engine/log.h>
#include <cohort/engine/system/environment.h>
#include <cohort/net/verbs/queue_pairs.h>
#include <cohort/net/verbs/ring.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

namespace cohort::verbs {
namespace {

constexpr std::size_t kMostGids = 1024;
/// A path names it in 8 bits.
constexpr std::uint32_t kLargestGidIndex = 255;
constexpr unsigned kSmallestMtu = 256;

std::uint8_t number_or(const char* name, std::uint8_t least, std::uint8_t most, std::uint8_t otherwise) {
  return static_cast<std::uint8_t>(environment::number(name, least, most).value_or(otherwise));
}

bool is_ipv4(const ibv_gid& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kMapped.begin(), kMapped.end(), gid.raw);
}
bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

std::string_view name_of_type(std::uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
    default: return "InfiniBand";
  }
}

/// The less the better.
int order_of(const ibv_gid_entry& entry) {
  if (entry.gid_type == IBV_GID_TYPE_IB) return 0;
  if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) return 3;
  if (is_ipv4(entry.gid)) return 0;
  return is_link_local(entry.gid) ? 2 : 1;
}

bool is_better(const ibv_gid_entry& one, const ibv_gid_entry& other) {
  const int order = order_of(one);
  const int order_of_other = order_of(other);
  return order != order_of_other ? order < order_of_other : one.gid_index < other.gid_index;
}

std::string describe_gid(const ibv_gid_entry& entry) {
  return fmt::format("{} ({}, {})", entry.gid_index, to_string(entry.gid), name_of_type(entry.gid_type));
}

/// Of a queue on which nothing happens.
class Nobody final : public DeviceUser {
  void completions_came() noexcept override {}
  void device_failed(std::string_view) noexcept override {}
};

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

/// A look at the devices of this host.
class Search {
 public:
  Search(const Library& library, const Settings& settings) : library_(library), settings_(settings) {}

  Choice run() {
    int count = 0;
    errno = 0;
    ibv_device** const list = library_.get_device_list(&count);
    if (list == nullptr || count == 0) {
      if (list != nullptr) library_.free_device_list(list);
      return {std::nullopt, "no RDMA device (ibv_get_device_list gives none)"};
    }
    for (int i = 0; i < count && !choice_.port; ++i) look_at(list[i]);
    library_.free_device_list(list);
    if (choice_.port) return {choice_.port, {}};
    if (!is_named_)
      return {std::nullopt,
              fmt::format("COHORT_IB_HCA={}: there is no such device, but {}", settings_.device, names_)};
    return {std::nullopt, reasons_};
  }

 private:
  void add_reason(std::string_view name, std::string_view reason) {
    reasons_ += fmt::format("{}{}: {}", reasons_.empty() ? "" : "; ", name, reason);
  }

  void look_at(ibv_device* device) {
    const std::string name = library_.get_device_name(device);
    names_ += (names_.empty() ? "" : ", ") + name;
    if (!settings_.device.empty() && settings_.device != name) return;
    is_named_ = true;
    if (device->transport_type != IBV_TRANSPORT_IB)
      return add_reason(name, "an iWARP device, or one of another kind, which is not supported");
    const Owned<ibv_context> context = open_device(library_, device);
    if (!context)
      return add_reason(
          name, fmt::format("cannot be opened: {}; may this user read and write /dev/infiniband/uverbs*?",
                            std::generic_category().message(errno)));
    ibv_device_attr attributes{};
    if (const int error = library_.query_device(context.get(), &attributes); error != 0)
      return add_reason(
          name, fmt::format("cannot be asked what it is: {}", std::generic_category().message(error)));
    if (settings_.port && *settings_.port > attributes.phys_port_cnt)
      return add_reason(name, fmt::format("has no port {}", *settings_.port));
    for (std::uint8_t port = 1; port <= attributes.phys_port_cnt && !choice_.port; ++port)
      if (!settings_.port || *settings_.port == port) look_at_port(*context, name, port);
  }

  void look_at_port(ibv_context& context, const std::string& name, std::uint8_t number) {
    const std::string place = fmt::format("{} port {}", name, number);
    ibv_port_attr attributes{};
    if (const int error = library_.query_port(&context, number, &attributes); error != 0)
      return add_reason(place, fmt::format("cannot be asked: {}", std::generic_category().message(error)));
    if (attributes.state != IBV_PORT_ACTIVE)
      return add_reason(
          place,
          "is not active; is its cable plugged in, its interface up (ip link), a subnet manager there?");
    std::vector<ibv_gid_entry> gids(kMostGids);
    const ssize_t found =
        library_.query_gid_table(&context, gids.data(), gids.size(), 0, sizeof(ibv_gid_entry));
    if (found < 0) return add_reason(place, "does not tell its addresses (GIDs)");
    gids.resize(static_cast<std::size_t>(found));
    std::erase_if(gids, [&](const ibv_gid_entry& entry) {
      return entry.port_num != number || entry.gid_index > kLargestGidIndex;
    });
    choose_gid(place, gids);
    if (!gid_) return;
    try_out(place, Port{.device = name,
                        .number = number,
                        .is_ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
                        .gid = *gid_,
                        .lid = attributes.lid,
                        .mtu = attributes.active_mtu});
  }

  /// Takes what one connection takes, and gives it back: what is refused here would be when links are made,
  /// and peers were told by then that they are.
  void try_out(const std::string& place, const Port& port) {
    try {
      Device device(library_, port, settings_);
      Nobody nobody;
      const std::unique_ptr<std::byte, Free> memory(
          static_cast<std::byte*>(std::aligned_alloc(kRingBytes, 2 * kRingBytes)));
      if (!memory) return add_reason(place, "there is no memory for a connection");
      const auto region = device.register_memory(memory.get(), 2 * kRingBytes,
                                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
      const QueuePairs pairs(device, nobody, settings_.pairs);
      choice_.port = port;
    } catch (const Error& error) {
      add_reason(place, error.message());
    }
  }

  void choose_gid(const std::string& place, const std::vector<ibv_gid_entry>& gids) {
    gid_.reset();
    for (const ibv_gid_entry& entry : gids) {
      const bool is_asked =
          !settings_.gid_index || entry.gid_index == static_cast<std::uint32_t>(*settings_.gid_index);
      if (is_asked && (!gid_ || is_better(entry, *gid_))) gid_ = entry;
    }
    if (gid_) return;
    std::string all;
    for (const ibv_gid_entry& entry : gids) all += (all.empty() ? "" : ", ") + describe_gid(entry);
    if (gids.empty()) return add_reason(place, "has no address (GID); has its interface one (ip addr)?");
    add_reason(place,
               fmt::format("COHORT_IB_GID_INDEX={}: it has no such GID, but {}", *settings_.gid_index, all));
  }

  const Library& library_;
  const Settings& settings_;
  Choice choice_;
  std::optional<ibv_gid_entry> gid_;
  std::string names_;
  std::string reasons_;
  bool is_named_ = false;
};

/// Asked before the library is loaded, since most hosts have none.
bool has_devices() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

Choice choose_on_this_host() {
  const Settings settings = Settings::from_environment();
  const bool is_asked = !settings.device.empty() || settings.gid_index;
  Choice choice;
  if (!has_devices()) {
    choice.why_not = "no RDMA device (/sys/class/infiniband has none)";
  } else if (const Library* const library = installed_library(choice.why_not)) {
    choice = choose_port(*library, settings);
  }
  if (choice.port)
    log(LogLevel::info, "RDMA: {}", choice.describe(settings));
  else
    log(is_asked ? LogLevel::warn : LogLevel::info, "RDMA is not used: {}", choice.why_not);
  return choice;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  if (const auto text = environment::text("COHORT_IB_HCA")) {
    const std::size_t colon = text->find(':');
    settings.device = text->substr(0, colon);
    if (colon != std::string::npos)
      settings.port = static_cast<std::uint8_t>(
          environment::parse_number("the port of COHORT_IB_HCA", text->substr(colon + 1), 1, 254));
  }
  if (const auto index = environment::number("COHORT_IB_GID_INDEX", 0, kLargestGidIndex))
    settings.gid_index = static_cast<int>(*index);
  settings.traffic_class = number_or("COHORT_IB_TC", 0, 255, settings.traffic_class);
  settings.service_level = number_or("COHORT_IB_SL", 0, 15, settings.service_level);
  settings.timeout = number_or("COHORT_IB_TIMEOUT", 1, 31, settings.timeout);
  settings.retry_count = number_or("COHORT_IB_RETRY_CNT", 0, 7, settings.retry_count);
  settings.pairs = number_or("COHORT_IB_QPS_PER_CONNECTION", 1, kMostPairs, settings.pairs);
  return settings;
}

std::uint64_t Port::fabric() const noexcept {
  if (gid.gid_type == IBV_GID_TYPE_IB && !is_ethernet) {
    std::uint64_t prefix = 0;
    for (std::size_t i = 0; i < 8; ++i) prefix = prefix << 8 | gid.gid.raw[i];
    return prefix != 0 ? prefix : 1;
  }
  return std::uint64_t{0x526f4345} << 16 | gid.gid_type << 8 | (is_ipv4(gid.gid) ? 4 : 6);  // "RoCE"
}

std::string Port::describe() const {
  return fmt::format("{} port {}, {}, GID {} ({}), MTU {}", device, number, name_of_type(gid.gid_type),
                     gid.gid_index, to_string(gid.gid), kSmallestMtu << (mtu - IBV_MTU_256));
}

std::string Choice::describe(const Settings& settings) const {
  if (!port) return why_not;
  if (settings.pairs == 1) return port->describe();
  return fmt::format("{}, {} queue pairs for each connection", port->describe(), settings.pairs);
}

std::string to_string(const ibv_gid& gid) {
  if (is_ipv4(gid)) return fmt::format("{}.{}.{}.{}", gid.raw[12], gid.raw[13], gid.raw[14], gid.raw[15]);
  std::string text;
  for (std::size_t i = 0; i < sizeof gid.raw; i += 2)
    text += fmt::format("{}{:x}", i == 0 ? "" : ":", gid.raw[i] << 8 | gid.raw[i + 1]);
  return text;
}

Choice choose_port(const Library& library, const Settings& settings) {
  return Search(library, settings).run();
}

const Choice& port_of_this_host() {
  static const Choice kChoice = choose_on_this_host();
  return kChoice;
}

}  // namespace cohort::verbs
