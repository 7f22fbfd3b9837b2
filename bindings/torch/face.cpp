// SPDX-License-Identifier: Apache-2.0
#include <cohort/bindings/torch/face.h>

#include <cohort/bindings/torch/face_calls.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/variables.h>
#include <cohort/net/auth/secret.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::torch_face {
namespace {

using bindings::AnyCall;
using bindings::CallSettings;
using bindings::CollectiveCall;
using bindings::MessageCall;
using bindings::Request;
using bindings::TensorsCall;

/// Never ended: process groups and the interpreter's end come in any order.
bindings::Session& session() {
  static std::atomic<bindings::Session*> one = nullptr;
  bindings::Session* found = one.load();
  while (found == nullptr || found->is_forked()) {
    auto made = std::make_unique<bindings::Session>();
    if (one.compare_exchange_strong(found, made.get())) return *made.release();
  }
  return *found;
}

/// For those that an interpreter that ends has left open.
constexpr Duration kGoodbye = std::chrono::seconds(2);

/// Those that were joined and are not closed.
class OpenGroups {
 public:
  void add(const std::shared_ptr<bindings::SharedCommunicator>& comm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(groups_, [](const auto& group) { return group.expired(); });
    groups_.push_back(comm);
  }
  [[nodiscard]] std::vector<std::shared_ptr<bindings::SharedCommunicator>> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::shared_ptr<bindings::SharedCommunicator>> open;
    for (const auto& group : std::exchange(groups_, {}))
      if (auto comm = group.lock()) open.push_back(std::move(comm));
    return open;
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<bindings::SharedCommunicator>> groups_;
};

OpenGroups& open_groups() {
  static auto* const groups = new OpenGroups();  // as the session
  return *groups;
}

/// Small collectives are mostly waited for where they are made, and over within microseconds once all ranks
/// are there: so long, and up to that size, the caller's thread stays with them. To wake another one takes as
/// long.
constexpr Duration kPatience = std::chrono::milliseconds(1);
constexpr std::size_t kMostBytesOfPatience = std::size_t{64} * 1024;

template <class Function>
void try_alone(const Function& function) noexcept {
  try {
    function();
  } catch (const std::exception&) {
  }
}

/// What a call names besides tensors, as long as its request.
struct Lists {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> recv_counts;
  std::vector<std::byte*> blocks;
};

std::vector<std::byte*> addresses_of(const std::vector<void*>& blocks) {
  std::vector<std::byte*> addresses;
  for (void* const block : blocks) addresses.push_back(static_cast<std::byte*>(block));
  return addresses;
}

/// What CollectiveCall names of these, as long as the call.
struct Prepared {
  explicit Prepared(Collective& call)
      : lists{std::move(call.counts), std::move(call.recv_counts), addresses_of(call.blocks)} {}
  Lists lists;
  AnyCall any = CollectiveCall{operator_of<Barrier>};
  std::size_t bytes = 0;
};

void fill(Prepared& prepared, const Collective& call) {
  const Operator op = known(parse_operator(call.op), call.op);
  const DataType type = call.type == "byte" ? DataType::byte : known(parse_data_type(call.type), call.type);
  Combination combination = known(parse_reduce_op(call.reduce), call.reduce);
  combination.factor = call.factor;
  if (!call.tensors.empty()) {
    TensorsCall tensors{.op = op, .type = type, .reduce = combination, .root = call.root};
    for (const Memory& memory : call.inputs) tensors.in.push_back(bytes_of(memory));
    for (const Memory& memory : call.tensors) {
      tensors.out.push_back(bytes_of(memory));
      prepared.bytes += memory.bytes;
    }
    prepared.any = std::move(tensors);
    return;
  }
  CollectiveCall one{op};
  one.arguments.type = type;
  one.arguments.reduce = combination;
  one.arguments.root = call.root;
  one.arguments.in = bytes_of(call.in);
  one.arguments.out = bytes_of(call.out);
  one.arguments.counts = prepared.lists.counts;
  one.arguments.recv_counts = prepared.lists.recv_counts;
  one.arguments.blocks = prepared.lists.blocks;
  prepared.any = one;
  prepared.bytes = std::max({call.in.bytes, call.out.bytes, prepared.lists.blocks.size() * call.in.bytes});
}

class JoinedRanks final : public Ranks {
 public:
  /// `timeout`: the communicator's.
  JoinedRanks(std::shared_ptr<bindings::SharedCommunicator> comm, GroupNames group, Duration timeout)
      : group_(std::make_shared<const GroupNames>(std::move(group))),
        timeout_(timeout),
        comm_(std::move(comm)) {}
  /// Its goodbye is said without waiting, also where calls are under way.
  ~JoinedRanks() override = default;

  std::shared_ptr<Pending> start(Collective call, std::function<void(const Outcome&)> over) override {
    const auto comm = open();
    auto prepared = std::make_shared<Prepared>(call);
    fill(*prepared, call);
    const CallSettings settings = settings_of(call.timeout_s);
    const Duration patience = prepared->bytes <= kMostBytesOfPatience ? kPatience : Duration::zero();
    AnyCall any = std::move(prepared->any);
    return launch(*comm, comm->prepare(std::move(any), settings, std::move(prepared)), std::move(over),
                  group_, patience);
  }

  std::shared_ptr<Pending> start(Message call, std::function<void(const Outcome&)> over) override {
    using Direction = MessageCall::Direction;
    const Direction direction = call.is_send           ? Direction::send
                                : call.is_from_anybody ? Direction::recv_any
                                                       : Direction::recv;
    const MessageCall message{direction, call.peer, call.tag, bytes_of(call.data)};
    const auto comm = open();
    return launch(*comm, comm->prepare(message, settings_of(call.timeout_s)), std::move(over), group_);
  }

  Outcome call(Collective call, bindings::Interrupt* interrupt) override {
    const auto comm = open();
    Prepared prepared(call);
    fill(prepared, call);
    return outcome_of([&] { comm->call(prepared.any, settings_of(call.timeout_s), interrupt); }, *group_);
  }

  bool takes_blocks_apart(std::size_t block_bytes) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = takes_apart_.find(block_bytes);
    if (known != takes_apart_.end()) return known->second;
    try {
      if (comm_ == nullptr) return false;
      const bool does =
          comm_->takes_blocks_apart(operator_of<AllGather>, DataType::byte, block_bytes * comm_->size());
      if (takes_apart_.size() == kMostKnownSizes) takes_apart_.clear();
      return takes_apart_.emplace(block_bytes, does).first->second;
    } catch (const std::exception&) {
      return false;  // the call will say what is wrong
    }
  }

  std::shared_ptr<void> allocate(std::size_t bytes) noexcept override {
    try {
      return open()->allocate(bytes);
    } catch (const std::exception&) {
      return nullptr;
    }
  }

  void abort(const std::string& reason) override {
    if (const auto comm = held()) comm->abort(reason);
  }
  void leave() noexcept override {
    const std::shared_ptr<bindings::SharedCommunicator> last = [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return std::exchange(comm_, nullptr);
    }();  // ends without the lock
  }
  Outcome state() override {
    const auto comm = held();
    if (comm == nullptr) return {};
    const std::optional<Error> failure = comm->failure();
    return failure ? outcome_of([&] { throw Error(*failure); }, *group_) : Outcome{};
  }
  const std::string& name() const noexcept override { return group_->name; }

  std::shared_ptr<Ranks> group(const std::vector<std::uint32_t>& ranks, const std::string& name,
                               bindings::Interrupt* interrupt) override {
    const std::shared_ptr<bindings::SharedCommunicator> made = make_group(ranks, name, interrupt);
    return std::make_shared<JoinedRanks>(made, GroupNames{made->name(), made->world_ranks()}, timeout_);
  }

  std::shared_ptr<Buckets> buckets(const BucketOptions& options, bindings::Interrupt* interrupt) override {
    std::vector<std::uint32_t> all(open()->size());
    std::iota(all.begin(), all.end(), 0U);
    const std::shared_ptr<bindings::SharedCommunicator> made = make_group(all, "gradients", interrupt);
    std::shared_ptr<Buckets> buckets;
    std::exception_ptr nonsense;
    const auto make = [&] {
      try {
        buckets = make_buckets(made, options, *group_, interrupt);
      } catch (const std::invalid_argument&) {
        nonsense = std::current_exception();
      }
    };
    const Outcome outcome = outcome_of(make, *group_);
    if (nonsense) std::rethrow_exception(nonsense);
    if (!outcome.failure.empty()) throw std::runtime_error(outcome.failure);
    return buckets;
  }

 private:
  static constexpr std::size_t kMostKnownSizes = 1024;  ///< programs whose sizes vary ask anew

  std::shared_ptr<bindings::SharedCommunicator> make_group(const std::vector<std::uint32_t>& ranks,
                                                           const std::string& name,
                                                           bindings::Interrupt* interrupt) {
    const auto comm = open();
    const std::string own_name = name_of_next(name);
    std::shared_ptr<bindings::SharedCommunicator> made;
    const Outcome outcome = outcome_of([&] { made = comm->group(ranks, own_name, interrupt); }, *group_);
    if (!outcome.failure.empty()) throw std::runtime_error(outcome.failure);
    // Who has made it may abort it at once, and so end the making of those that are not as far. What fails
    // from here on is left to the first call.
    const AnyCall barrier = CollectiveCall{operator_of<Barrier>};
    (void)outcome_of([&] { made->call(barrier, {}, interrupt); }, *group_);
    open_groups().add(made);
    return made;
  }

  std::shared_ptr<bindings::SharedCommunicator> held() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return comm_;
  }
  std::shared_ptr<bindings::SharedCommunicator> open() {
    auto comm = held();
    if (comm == nullptr)
      throw std::invalid_argument(fmt::format(
          "cohort: process group '{}' was shut down; make calls before that, or make another group",
          group_->name));
    return comm;
  }

  /// Torch may use a name again, whose group some ranks still hold. All make it as often.
  std::string name_of_next(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t before = made_[name]++;
    return before == 0 ? name : fmt::format("{}.{}", name, before);
  }

  /// Torch gives each call its limit, in milliseconds. Where it is the communicator's it is told as that.
  CallSettings settings_of(double timeout_s) const {
    using std::chrono::milliseconds;
    const Duration timeout = duration_of(timeout_s);
    const bool is_usual =
        std::chrono::round<milliseconds>(timeout) == std::chrono::round<milliseconds>(timeout_);
    return {.timeout = is_usual ? Duration::zero() : timeout};
  }

  const std::shared_ptr<const GroupNames> group_;
  const Duration timeout_;
  std::mutex mutex_;
  std::shared_ptr<bindings::SharedCommunicator> comm_;  ///< null: it was left
  std::map<std::size_t, bool> takes_apart_;  ///< by bytes of a block: to ask takes a turn of the engine
  std::map<std::string, std::size_t> made_;  ///< how often a group of that name
};

}  // namespace

void keep_open(const std::shared_ptr<bindings::SharedCommunicator>& comm) { open_groups().add(comm); }

double timeout_of_environment_s() {
  std::optional<Error> told_by_join;
  Duration timeout{};
  keep_fault(told_by_join,
             [&] { timeout = environment::duration("COHORT_TIMEOUT").value_or(Duration::zero()); });
  return std::chrono::duration<double>(timeout).count();
}

std::shared_ptr<Ranks> join(const Place& place, bindings::Interrupt* interrupt) {
  CommunicatorOptions options = CommunicatorOptions::collectives_from_environment(WrongVariable::kept);
  // Programs of torch make a group for each layer, or hundreds. Pages of their buffers come with use.
  constexpr std::size_t kDefaultHeapBytes = std::size_t{4} << 30;
  if (options.group_buffer_bytes == 0)
    options.group_buffer_bytes = (options.heap_bytes != 0 ? options.heap_bytes : kDefaultHeapBytes) / 2;
  if (place.options != nullptr) options.set_join(*static_cast<const JoinOptions*>(place.options));
  options.join.name = place.name;
  options.join.address = place.address;
  options.join.rank = place.rank;
  options.join.size = place.size;
  environment::warn_of_misspelt_variables(place.rank);
  constexpr std::string_view kOfGroup = "timeout= of the process group";
  const bool is_of_environment = std::abs(timeout_of_environment_s() - place.timeout_s) <
                                 std::chrono::duration<double>(std::chrono::milliseconds(1)).count();
  options.timeout = duration_of(place.timeout_s);
  if (!is_of_environment) options.wording.timeout = kOfGroup;
  options.wording.call_timeout = kOfGroup;
  options.wording.at_once = "by isend";
  if (place.join_timeout_s > 0) options.join.timeout = duration_of(place.join_timeout_s);
  if (!place.secret.empty()) {
    if (options.join.secret)  // whoever writes to the store could give another one out
      throw Error(
          ErrorKind::AuthFailed,
          fmt::format("rank {} of process group '{}' has the secret of {}, and rank 0 has none and put "
                      "one into the store; give all ranks the same, or none",
                      place.rank, place.name, options.join.secret_source));
    const auto bytes = std::as_bytes(std::span(place.secret));
    options.join.secret = Secret::parse(bytes, "the store of the process group");
    options.join.secret_source = "the store of the process group";
  }
  const Duration timeout = options.timeout;
  std::shared_ptr<bindings::SharedCommunicator> comm = session().join(std::move(options), interrupt);
  open_groups().add(comm);
  return std::make_shared<JoinedRanks>(std::move(comm), GroupNames{place.name, place.world_ranks}, timeout);
}

void leave_all(const std::string& reason) noexcept {
  std::vector<std::shared_ptr<Request>> goodbyes;
  const auto leave = [&](bindings::SharedCommunicator& comm) {
    if (!reason.empty()) comm.abort(reason);
    goodbyes.push_back(comm.prepare_close());
    comm.start(goodbyes.back());
  };
  const TimePoint until = after(std::chrono::steady_clock::now(), kGoodbye);
  const auto hear = [&](Request& goodbye) { (void)goodbye.wait_until(until); };
  // Whatever is wrong with one of them, such as that it has failed, or is another process's, concerns nobody
  // any more.
  for (const auto& comm : open_groups().take()) try_alone([&] { leave(*comm); });
  for (const auto& goodbye : goodbyes) try_alone([&] { hear(*goodbye); });
}

}  // namespace cohort::torch_face
