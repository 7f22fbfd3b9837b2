// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/hccl/joining.h>

#include <cohort/bindings/hccl/device.h>
#include <cohort/bindings/hccl/error.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/net/auth/crypto.h>
#include <cohort/net/join/join_environment.h>
#include <cohort/net/join/rank_table.h>
#include <cohort/net/join/root_info.h>
#include <cohort/net/join/table_place.h>

#include <fmt/format.h>

#include <hccl/hccl.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <utility>

namespace cohort::bindings::hccl {
namespace {

constexpr std::uint32_t kMostMebibytes = 1 << 20;
constexpr std::uint64_t kMostSeconds = 1 << 20;

static_assert(HCCL_ROOT_INFO_BYTES >= kRootInfoBytes);

/// The same for all who know the text, and nobody learns it from that.
std::string tag_of(std::string_view text) {
  const auto digest = crypto::sha256(std::as_bytes(std::span(text)));
  std::string tag;
  for (std::size_t i = 0; i < 8; ++i) tag += fmt::format("{:02x}", static_cast<unsigned>(digest[i]));
  return tag;
}

/// Of 0 nothing: to some manuals that is never, and here every wait has a limit, the library's own then.
std::optional<std::chrono::seconds> seconds_of(const char* variable) {
  const auto seconds = environment::number(variable, 0, kMostSeconds);
  if (!seconds || *seconds == 0) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

/// What these variables say counts where the library's own do not. Values that are none are kept as the fault
/// of this rank, which joining tells all ranks.
void take_variables(CommunicatorOptions& options) {
  const auto read = [&](const auto& function) { keep_fault(options.join.fault, function); };
  read([&] {
    const auto mebibytes = environment::number("HCCL_BUFFSIZE", 1, kMostMebibytes);
    if (mebibytes && options.buffer_bytes == 0) options.buffer_bytes = *mebibytes << 20;
  });
  read([&] {
    const auto limit = seconds_of("HCCL_EXEC_TIMEOUT");
    if (!limit || options.timeout != Duration::zero()) return;
    options.timeout = *limit;
    options.wording.timeout = "HCCL_EXEC_TIMEOUT";
  });
  options.wording.at_once = "by HcclBatchSendRecv";
  const auto determinism = environment::text("HCCL_DETERMINISTIC");
  if (determinism && !environment::text("COHORT_DETERMINISM")) {
    if (*determinism == "true") options.determinism = Determinism::D1;
    if (*determinism == "strict") options.determinism = Determinism::D2;
  }
}

void set_join(JoinOptions join, CommunicatorOptions& options) {
  keep_fault(join.fault, [&join] {
    const auto limit = seconds_of("HCCL_CONNECT_TIMEOUT");
    if (limit && !environment::text("COHORT_JOIN_TIMEOUT")) join.timeout = *limit;
  });
  options.set_join(std::move(join));
}

std::shared_ptr<Comm> comm_of(std::shared_ptr<Session> session, std::shared_ptr<SharedCommunicator> joined,
                              std::int32_t device) {
  auto comm = std::make_shared<Comm>(std::move(session), std::move(joined));
  set_comm_of_device(device, comm);
  return comm;
}

/// Counts joins that are over. Threads: any.
class Joins {
 public:
  void count(const Request& joined) {
    const std::lock_guard lock(mutex_);
    ++over_;
    has_failed_ |= joined.made == nullptr;
    changed_.notify_all();
  }
  /// Waits for so many, or for the first that fails: whether all went well. Each has its own time limit.
  [[nodiscard]] bool wait(std::size_t size) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_failed_ || over_ == size; });
    return !has_failed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t over_ = 0;
  bool has_failed_ = false;
};

/// The joins of those ranks, which are under way when it returns. Each request's session is of its number.
void start_joins(Rank size, std::vector<std::shared_ptr<Session>>& sessions,
                 std::vector<std::shared_ptr<Request>>& requests) {
  const RootInfo info = root_info();
  sessions.reserve(size);
  requests.reserve(size);
  for (Rank rank = 0; rank < size; ++rank) {
    CommunicatorOptions options = options_of("HcclCommInitAll", nullptr);
    set_join(JoinOptions::from_root_info(info, rank, size, WrongVariable::kept), options);
    sessions.push_back(std::make_shared<Session>());
    std::shared_ptr<Request> request = sessions.back()->prepare_join(std::move(options));
    sessions.back()->loop().start(request);
    requests.push_back(std::move(request));
  }
}

/// So that the end of their sessions, which waits for them, waits for nobody who never comes.
void cancel_joins(const std::vector<std::shared_ptr<Request>>& requests) noexcept {
  for (const std::shared_ptr<Request>& request : requests) {
    try {
      request->cancel();
    } catch (...) {  // its time limit ends it
    }
  }
}

}  // namespace

CommunicatorOptions options_of(const char* function, const HcclCommConfig* config) {
  CommunicatorOptions options = CommunicatorOptions::collectives_from_environment(WrongVariable::kept);
  take_variables(options);
  if (config == nullptr) return options;
  HcclCommConfig usual;
  HcclCommConfigInit(&usual);
  if (!std::ranges::equal(config->reserved, usual.reserved))
    refuse(fmt::format("{}: the configuration is not one that HcclCommConfigInit() has filled", function));
  if (config->hcclBufferSize != usual.hcclBufferSize) {
    if (config->hcclBufferSize == 0 || config->hcclBufferSize > kMostMebibytes)
      refuse(fmt::format("{}: hcclBufferSize is {}; give MiB, from 1 on", function, config->hcclBufferSize));
    options.buffer_bytes = std::size_t{config->hcclBufferSize} << 20;
  }
  if (config->hcclDeterministic > 2)
    refuse(fmt::format("{}: hcclDeterministic is {}; give 0, 1 or 2", function, config->hcclDeterministic));
  if (config->hcclDeterministic == 1) options.determinism = Determinism::D1;
  if (config->hcclDeterministic == 2) options.determinism = Determinism::D2;
  return options;
}

void place_by_root_info(const HcclRootInfo& info, Rank rank, Rank size, CommunicatorOptions& options) {
  const auto bytes = std::as_bytes(std::span(info.internal)).first(kRootInfoBytes);
  set_join(JoinOptions::from_root_info(bytes, rank, size, WrongVariable::kept), options);
  options.join.name = "hccl-" + tag_of({info.internal, kRootInfoBytes});
}

void place_by_table(const char* function, const std::string& path, Rank rank, CommunicatorOptions& options) {
  set_join(join_options_besides_place(WrongVariable::kept), options);
  const std::vector<TableRank> ranks = await_rank_table(path, options.join.timeout);
  if (rank >= ranks.size())
    refuse(fmt::format("{}: rank {} is none of the rank table {}, which has {}", function, rank, path,
                       ranks.size()));
  options.join.rank = rank;
  options.join.size = static_cast<Rank>(ranks.size());
  if (!options.join.address.empty()) return;
  std::string all;
  for (const TableRank& one : ranks) all += fmt::format("{} {} {}\n", one.server, one.address, one.device);
  const TableRank& first = ranks.front();
  const bool is_one_host = std::ranges::all_of(ranks, [&first](const TableRank& one) {
    return one.server == first.server && (one.is_of_device || one.address == first.address);
  });
  options.join.address = is_one_host ? fmt::format("unix:cohort-{}-table-{}", host::user_id(), tag_of(all))
                                     : meeting_address(first.address, all);
}

void place_by_name(const std::string& name, Rank rank, Rank size, CommunicatorOptions& options) {
  set_join(join_options_besides_place(WrongVariable::kept), options);
  options.join.rank = rank;
  options.join.size = size;
  options.join.name = "hccl-" + tag_of(name);
  const std::string job = options.join.address.starts_with("unix:") || options.join.address.empty()
                              ? options.join.address
                              : std::string();
  if (options.join.address.empty() || !job.empty())
    options.join.address = fmt::format("unix:cohort-{}-name-{}", host::user_id(), tag_of(job + "|" + name));
}

std::shared_ptr<Comm> join(CommunicatorOptions options) {
  const std::int32_t device = current_context() == nullptr ? 0 : current_context()->device();
  auto session = std::make_shared<Session>();
  auto joined = session->join(std::move(options));
  return comm_of(std::move(session), std::move(joined), device);
}

std::vector<std::shared_ptr<Comm>> join_all(std::span<const std::int32_t> devices) {
  const auto size = static_cast<Rank>(devices.size());
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<std::shared_ptr<Request>> requests;
  try {
    start_joins(size, sessions, requests);
  } catch (...) {
    cancel_joins(requests);
    throw;
  }
  const auto joins = std::make_shared<Joins>();
  for (const std::shared_ptr<Request>& request : requests)
    request->when_over([joins](const Request& joined) { joins->count(joined); });
  if (!joins->wait(size)) cancel_joins(requests);
  std::exception_ptr failure;
  for (const std::shared_ptr<Request>& request : requests) {
    try {
      request->wait();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  std::vector<std::shared_ptr<Comm>> comms;
  for (Rank rank = 0; rank < size; ++rank)
    comms.push_back(comm_of(std::move(sessions[rank]), std::move(requests[rank]->made), devices[rank]));
  return comms;
}

}  // namespace cohort::bindings::hccl
