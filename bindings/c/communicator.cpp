// SPDX-License-Identifier: Apache-2.0
// Communicators and what belongs to them besides calls.
#include <cohort/bindings/c/handles.h>
#include <cohort/engine/system/variables.h>
#include <cohort/net/join/join_environment.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace cohort::bindings::c {
namespace {

void set_text(std::string& option, const char* text) {
  if (text != nullptr) option = text;
}

void set_time(Duration& option, std::int64_t nanoseconds, const char* name) {
  if (nanoseconds < 0)
    refuse(fmt::format("cohort_join: options->{} is {}; give nanoseconds, or 0 for the environment's", name,
                       nanoseconds));
  if (nanoseconds > 0) option = Duration(nanoseconds);
}

/// The environment's, and over it what is given.
CommunicatorOptions options_from(const cohort_options* given) {
  if (given != nullptr && given->bytes != sizeof(cohort_options))
    refuse(fmt::format("cohort_join: options->bytes is {}, not sizeof(cohort_options), which is {}",
                       given->bytes, sizeof(cohort_options)));
  CommunicatorOptions options = CommunicatorOptions::collectives_from_environment(WrongVariable::kept);
  const bool knows_place = given != nullptr && given->size != 0;
  const void* const info = given == nullptr ? nullptr : given->root_info;
  if (info != nullptr && !knows_place)
    refuse("cohort_join: options->root_info needs options->size and options->rank");
  if (info != nullptr)
    options.set_join(JoinOptions::from_root_info({static_cast<const std::byte*>(info), kRootInfoBytes},
                                                 given->rank, given->size, WrongVariable::kept));
  else
    options.set_join(knows_place ? join_options_besides_place(WrongVariable::kept)
                                 : JoinOptions::from_environment(WrongVariable::kept));
  if (knows_place) {
    options.join.rank = given->rank;
    options.join.size = given->size;
  }
  environment::warn_of_misspelt_variables(options.join.rank);
  options.wording.call_timeout = "cohort_how::timeout_ns";
  options.wording.at_once = "by giving a request";
  if (given == nullptr) return options;
  set_text(options.join.name, given->name);
  set_text(options.join.address, given->address);
  set_text(options.join.job, given->job);
  set_text(options.transport, given->transport);
  set_text(options.algorithm, given->algorithm);
  set_time(options.timeout, given->timeout_ns, "timeout_ns");
  if (given->timeout_ns > 0) options.wording.timeout = "cohort_options::timeout_ns";
  set_time(options.join.timeout, given->join_timeout_ns, "join_timeout_ns");
  if (given->buffer_bytes != 0) options.buffer_bytes = given->buffer_bytes;
  if (given->heap_bytes != 0) options.heap_bytes = given->heap_bytes;
  return options;
}

/// A handle of what was made; null of nothing.
cohort_comm* handle_of(std::shared_ptr<Session> session, std::shared_ptr<SharedCommunicator> comm) {
  return comm == nullptr ? nullptr : new cohort_comm{std::move(session), std::move(comm)};
}

}  // namespace
}  // namespace cohort::bindings::c

using namespace cohort::bindings::c;
using namespace cohort;

const char* cohort_version(void) { return COHORT_VERSION; }

static_assert(COHORT_ROOT_INFO_BYTES == kRootInfoBytes);

cohort_status cohort_root_info(void* info) {
  return guarded([&] {
    if (info == nullptr) refuse("cohort_root_info: info is null");
    const RootInfo made = root_info();
    std::memcpy(info, made.data(), made.size());
    return COHORT_OK;
  });
}

cohort_status cohort_join(const cohort_options* options, cohort_comm** comm) {
  if (comm != nullptr) *comm = nullptr;
  return guarded([&] {
    (void)given(comm, "cohort_join", "comm");
    CommunicatorOptions all = options_from(options);
    auto session = std::make_shared<bindings::Session>();
    auto joined = session->join(std::move(all));
    *comm = handle_of(std::move(session), std::move(joined));
    return COHORT_OK;
  });
}

cohort_status cohort_split(cohort_comm* comm, int32_t color, int32_t key, cohort_comm** group) {
  if (group != nullptr) *group = nullptr;
  return guarded([&] {
    cohort_comm& at = given(comm, "cohort_split", "comm");
    (void)given(group, "cohort_split", "group");
    *group = handle_of(at.session, at.comm->split(color, key));
    return COHORT_OK;
  });
}

cohort_status cohort_group(cohort_comm* comm, const uint32_t* ranks, size_t count, const char* name,
                           cohort_comm** group) {
  if (group != nullptr) *group = nullptr;
  return guarded([&] {
    cohort_comm& at = given(comm, "cohort_group", "comm");
    (void)given(group, "cohort_group", "group");
    const std::uint32_t* const first = &given(ranks, "cohort_group", "ranks");
    std::vector<Rank> members(first, first + count);
    *group = handle_of(at.session, at.comm->group(std::move(members), &given(name, "cohort_group", "name")));
    return COHORT_OK;
  });
}

uint32_t cohort_rank(const cohort_comm* comm) { return comm == nullptr ? 0 : comm->comm->rank(); }
uint32_t cohort_size(const cohort_comm* comm) { return comm == nullptr ? 0 : comm->comm->size(); }
const char* cohort_name(const cohort_comm* comm) { return comm == nullptr ? "" : comm->comm->name().c_str(); }
const char* cohort_transport(const cohort_comm* comm) {
  return comm == nullptr ? "" : comm->comm->transport().c_str();
}
uint32_t cohort_world_rank(const cohort_comm* comm, uint32_t rank) {
  return comm == nullptr || rank >= comm->comm->size() ? UINT32_MAX : comm->comm->world_ranks()[rank];
}

cohort_status cohort_failure(cohort_comm* comm) {
  return guarded([&] {
    const auto failure = given(comm, "cohort_failure", "comm").comm->failure();
    return failure ? keep_error(std::make_exception_ptr(*failure)) : COHORT_OK;
  });
}

cohort_status cohort_explain(cohort_comm* comm, const char* operator_name, cohort_type type, size_t bytes,
                             char* text, size_t capacity, size_t* needed) {
  return guarded([&] {
    cohort_comm& at = given(comm, "cohort_explain", "comm");
    const std::string_view name = &given(operator_name, "cohort_explain", "operator_name");
    const auto op = parse_operator(name);
    if (!op) refuse(fmt::format("cohort_explain: '{}' is no operator; give \"all_reduce\", for one", name));
    if (cohort_type_bytes(type) == 0)
      refuse(fmt::format("cohort_explain: {} is no type of elements; give COHORT_FLOAT32, for one", type));
    const std::string whole = at.comm->explain(*op, static_cast<DataType>(type), bytes);
    if (needed != nullptr) *needed = whole.size() + 1;
    if (text == nullptr || capacity == 0) return COHORT_OK;
    const std::size_t shown = std::min(whole.size(), capacity - 1);
    std::memcpy(text, whole.data(), shown);
    text[shown] = '\0';
    return COHORT_OK;
  });
}

cohort_status cohort_close(cohort_comm* comm) {
  return guarded([&] {
    given(comm, "cohort_close", "comm").comm->close();
    return COHORT_OK;
  });
}

cohort_status cohort_abort(cohort_comm* comm, const char* reason) {
  return guarded([&] {
    given(comm, "cohort_abort", "comm").comm->abort(reason == nullptr ? "no reason was given" : reason);
    return COHORT_OK;
  });
}

void cohort_free(cohort_comm* comm) {
  if (comm == nullptr) return;
  comm->comm.reset();  // before the session, whose end waits for what this leaves to it
  delete comm;
}

cohort_status cohort_allocate(cohort_comm* comm, size_t bytes, cohort_memory** memory) {
  if (memory != nullptr) *memory = nullptr;
  return guarded([&] {
    cohort_comm& at = given(comm, "cohort_allocate", "comm");
    (void)given(memory, "cohort_allocate", "memory");
    *memory = new cohort_memory{at.session, at.comm->allocate(bytes)};
    return COHORT_OK;
  });
}

void* cohort_memory_data(const cohort_memory* memory) {
  return memory == nullptr ? nullptr : memory->memory.get();
}

void cohort_memory_free(cohort_memory* memory) {
  if (memory == nullptr) return;
  memory->memory.reset();  // before the session
  delete memory;
}
