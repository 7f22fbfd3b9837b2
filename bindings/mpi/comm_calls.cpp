// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_...: communicators and what is attached to them.
#include <cohort/bindings/mpi/comm.h>
#include <cohort/bindings/mpi/text.h>
#include <cohort_mpi/calls.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace cohort::mpi {
namespace {

using bindings::SharedCommunicator;

Handles<Comm>& made_comms() {
  static auto& all = *new Handles<Comm>(abi::kMadeComm, "communicator", abi::kErrComm);
  return all;
}

struct Errhandler {
  MPI_Comm_errhandler_function* function = nullptr;
};
Handles<Errhandler>& made_errhandlers() {
  static auto& all = *new Handles<Errhandler>(abi::kMadeErrhandler, "error handler", abi::kErrArg);
  return all;
}

Handles<Info>& made_infos() {
  static auto& all = *new Handles<Info>(abi::kMadeInfo, "info", abi::kErrInfo);
  return all;
}
/// Of MPI_INFO_NULL and MPI_INFO_ENV an empty one.
std::shared_ptr<Info> info_of(MPI_Info handle) {
  if (handle == abi::kInfoNull || handle == abi::kInfoEnv) return std::make_shared<Info>();
  return made_infos().at(handle);
}

/// Colour and key of MPI to those of cohort.
std::shared_ptr<SharedCommunicator> split(const Comm& comm, int color, int key) {
  if (color < 0 && color != abi::kUndefined)
    fail(abi::kErrArg, fmt::format("colour {}; give 0 or more", color));
  return comm.shared->split(color == abi::kUndefined ? -1 : color, key);
}

/// Where those ranks of world are in the communicator. Throws Failure for one that is not.
std::vector<Rank> ranks_within(const Comm& comm, const Group& group) {
  const std::vector<Rank>& all = comm.shared->world_ranks();
  std::vector<Rank> ranks;
  for (const Rank of_world : group) {
    const auto found = std::ranges::find(all, of_world);
    if (found == all.end())
      fail(abi::kErrGroup,
           fmt::format("rank {} of MPI_COMM_WORLD is in the group and not in the communicator", of_world));
    ranks.push_back(static_cast<Rank>(found - all.begin()));
  }
  return ranks;
}

void duplicate_attributes(MPI_Comm old, const Comm& from, MPI_Comm made) {
  from.attributes.duplicate_to(comm_of(made)->attributes, old);
}

constexpr const char* kResourceType = "mpi_hw_resource_type";

/// Whether the ranks of a host are to be a communicator.
bool is_by_host(int type, MPI_Info info) {
  if (type == abi::kCommTypeShared) return true;
  const std::shared_ptr<Info> of = info_of(info);
  const auto values = of->values.get();
  const auto found = values.find(kResourceType);
  return type != abi::kCommTypeHwUnguided && found != values.end() && found->second == "mpi_shared_memory";
}

}  // namespace

std::vector<std::shared_ptr<Comm>> remove_made_comms() { return made_comms().remove_all(); }

std::shared_ptr<Comm> comm_of(MPI_Comm handle) {
  if (handle == abi::kCommWorld) return Process::get().world();
  if (handle == abi::kCommSelf) return Process::get().self();
  if (handle == abi::kCommNull) fail(abi::kErrComm, "the communicator is MPI_COMM_NULL; give one");
  return made_comms().at(handle);
}

MPI_Comm add_comm(const Comm& parent, std::shared_ptr<SharedCommunicator> made) {
  if (made == nullptr) return abi::kCommNull;
  auto comm = std::make_shared<Comm>();
  comm->shared = std::move(made);
  comm->errhandler = parent.errhandler.load();
  return made_comms().add(std::move(comm));
}

int report_code(MPI_Comm comm, int code) noexcept {
  MPI_Errhandler handler = abi::kErrorsAreFatal;
  try {
    std::shared_ptr<Comm> of;
    try {
      of = comm_of(comm);
    } catch (const Failure&) {
      comm = abi::kCommWorld;
      of = comm_of(comm);
    }
    handler = of->errhandler;
    if (handler == abi::kErrorsReturn) return code;
    if (handler != abi::kErrorsAreFatal && handler != abi::kErrorsAbort) {
      made_errhandlers().at(handler)->function(&comm, &code);
      return code;
    }
    const std::string text = text_of_code(code);
    std::fprintf(stderr, "cohort: rank %d: %s\n", Process::get().world()->rank(), text.c_str());
    Process::get().abort(text, 1);
  } catch (...) {
    std::fputs("cohort: outside of MPI_Init and MPI_Finalize, or in them: ", stderr);
    std::fputs(text_of_code(code).c_str(), stderr);
    std::fputs("\n", stderr);
    Process::get().abort("an error of MPI before it was there", 1);
  }
}

int report(const char* function, MPI_Comm comm, const std::exception_ptr& failure) noexcept {
  return report_code(comm, keep_failure(function, failure));
}

void comm_rank(MPI_Comm comm, int* rank) { *rank = comm_of(comm)->rank(); }
void comm_size(MPI_Comm comm, int* size) { *size = comm_of(comm)->size(); }

void comm_test_inter(MPI_Comm comm, int* flag) {
  (void)comm_of(comm);
  *flag = 0;
}
void comm_remote_size(MPI_Comm comm, int* /*size*/) {
  (void)comm_of(comm);
  fail(abi::kErrComm, "it is no intercommunicator, which cohort does not have");
}
void comm_remote_group(MPI_Comm comm, MPI_Group* /*group*/) { comm_remote_size(comm, nullptr); }
/// Cohort starts no processes.
void comm_get_parent(MPI_Comm* parent) { *parent = abi::kCommNull; }
void topo_test(MPI_Comm comm, int* status) {
  (void)comm_of(comm);
  *status = abi::kUndefined;
}

void comm_compare(MPI_Comm first, MPI_Comm second, int* result) {
  const std::vector<Rank>& a = comm_of(first)->shared->world_ranks();
  const std::vector<Rank>& b = comm_of(second)->shared->world_ranks();
  if (first == second)
    *result = abi::kIdent;
  else if (a == b)
    *result = abi::kCongruent;
  else
    *result = std::ranges::is_permutation(a, b) ? abi::kSimilar : abi::kUnequal;
}

void comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  const std::shared_ptr<Comm> parent = comm_of(comm);
  *made = add_comm(*parent, split(*parent, color, key));
}

void comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  const std::shared_ptr<Comm> parent = comm_of(comm);
  const bool is_undefined = type == abi::kUndefined || !is_by_host(type, info);
  const int color = is_undefined ? abi::kUndefined : static_cast<int>(parent->shared->first_of_host());
  *made = add_comm(*parent, split(*parent, color, key));
}

void comm_dup(MPI_Comm comm, MPI_Comm* made) {
  const std::shared_ptr<Comm> parent = comm_of(comm);
  *made = add_comm(*parent, split(*parent, 0, parent->rank()));
  comm_of(*made)->info.values.set(parent->info.values.get());
  duplicate_attributes(comm, *parent, *made);
}
void comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made) {
  comm_dup(comm, made);
  comm_of(*made)->info.values.set(info_of(info)->values.get());
}

namespace {

Prepared duplicate_later(MPI_Comm comm, const Info& hints, MPI_Comm* made) {
  Prepared prepared(comm);
  const std::shared_ptr<Comm> parent = prepared.comm();
  *made = abi::kCommNull;
  prepared.begin_with(parent->shared->prepare_split(0, parent->rank()));
  prepared.when_over([=, values = hints.values.get()](const bindings::Request& request) {
    *made = add_comm(*parent, request.made);
    comm_of(*made)->info.values.set(values);
    duplicate_attributes(comm, *parent, *made);
  });
  return prepared;
}

}  // namespace

Prepared comm_idup(MPI_Comm comm, MPI_Comm* made) { return duplicate_later(comm, comm_of(comm)->info, made); }
Prepared comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* made) {
  return duplicate_later(comm, *info_of(info), made);
}

void comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* made) {
  const std::shared_ptr<Comm> parent = comm_of(comm);
  const std::vector<Rank> ranks = ranks_within(*parent, *group_of(group));
  const auto own = std::ranges::find(ranks, parent->shared->rank());
  const bool is_member = own != ranks.end();
  const int color = is_member ? static_cast<int>(std::ranges::min(ranks)) : abi::kUndefined;
  *made = add_comm(*parent, split(*parent, color, static_cast<int>(own - ranks.begin())));
}

void comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  const std::shared_ptr<Comm> parent = comm_of(comm);
  std::vector<Rank> ranks = ranks_within(*parent, *group_of(group));
  *made = abi::kCommNull;
  if (std::ranges::find(ranks, parent->shared->rank()) == ranks.end()) return;
  std::size_t digest = 0;
  for (const Rank rank : ranks) digest = digest * 1000003 + rank + 1;
  std::string name = fmt::format("create{}.{:x}", tag, digest);
  {
    const std::lock_guard lock(parent->mutex);
    name += fmt::format(".{}", parent->groups_made[name]++);
  }
  *made = add_comm(*parent, parent->shared->group(std::move(ranks), std::move(name)));
}

/// Its end is told when what is under way on it is over. Programs that end in any order, as XLA does, free
/// after MPI_Finalize what that has closed.
void comm_free(MPI_Comm* comm) {
  if (Process::get().is_ended()) {
    *comm = abi::kCommNull;
    return;
  }
  if (*comm == abi::kCommWorld || *comm == abi::kCommSelf)
    fail(abi::kErrComm, "MPI_COMM_WORLD and MPI_COMM_SELF are not freed");
  const std::shared_ptr<Comm> of = comm_of(*comm);
  of->attributes.remove_all(*comm);
  made_comms().remove(*comm);
  *comm = abi::kCommNull;
}
void comm_disconnect(MPI_Comm* comm) { comm_free(comm); }

void comm_get_name(MPI_Comm comm, char* name, int* length) {
  if (comm == abi::kCommNull) return give_name("MPI_COMM_NULL", name, length);
  give_name(comm_of(comm)->name.get(), name, length);
}
void comm_set_name(MPI_Comm comm, const char* name) { comm_of(comm)->name.set(name); }

void comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* handler) {
  *handler = made_errhandlers().add(std::make_shared<Errhandler>(Errhandler{function}));
}
void comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  const std::array own = {abi::kErrorsAreFatal, abi::kErrorsReturn, abi::kErrorsAbort};
  if (std::ranges::find(own, handler) == own.end()) (void)made_errhandlers().at(handler);
  comm_of(comm)->errhandler = handler;
}
void comm_get_errhandler(MPI_Comm comm, MPI_Errhandler* handler) { *handler = comm_of(comm)->errhandler; }
void comm_call_errhandler(MPI_Comm comm, int code) {
  (void)comm_of(comm);
  (void)report_code(comm, code);
}
/// Kept: a communicator may still have it.
void errhandler_free(MPI_Errhandler* handler) { *handler = abi::kErrhandlerNull; }

void comm_create_keyval(MPI_Copy_function* copy, MPI_Delete_function* remove, int* key, void* extra) {
  *key = make_key(copy, remove, extra);
}
void comm_free_keyval(int* key) {
  free_key(*key);
  *key = abi::kKeyvalInvalid;
}
void comm_set_attr(MPI_Comm comm, int key, void* value) { comm_of(comm)->attributes.set(comm, key, value); }
void comm_delete_attr(MPI_Comm comm, int key) { comm_of(comm)->attributes.remove(comm, key); }

void comm_get_attr(MPI_Comm comm, int key, void* value, int* flag) {
  static int most_tag = abi::kMostTag;
  static int no_host = abi::kProcNull;
  static int any_io = abi::kAnySource;
  static int is_global = 0;
  static int universe = 0;
  static int last_code = abi::kErrRevoked;
  const std::shared_ptr<Comm> of = comm_of(comm);
  std::optional<void*> found;
  switch (key) {
    case abi::kTagUb: found = &most_tag; break;
    case abi::kHost: found = &no_host; break;
    case abi::kIo: found = &any_io; break;
    case abi::kWtimeIsGlobal: found = &is_global; break;
    case abi::kLastUsedCode: found = &last_code; break;
    case abi::kAppnum: break;
    case abi::kUniverseSize:
      universe = Process::get().world()->size();
      found = &universe;
      break;
    default: found = of->attributes.get(key);
  }
  *flag = found ? 1 : 0;
  if (found) *static_cast<void**>(value) = *found;
}

// MPI_Info_...

void comm_set_info(MPI_Comm comm, MPI_Info info) {
  comm_of(comm)->info.values.set(info_of(info)->values.get());
}
void comm_get_info(MPI_Comm comm, MPI_Info* info) {
  *info = made_infos().add(std::make_shared<Info>(comm_of(comm)->info));
}

void info_create(MPI_Info* info) { *info = made_infos().add(std::make_shared<Info>()); }
void info_dup(MPI_Info info, MPI_Info* made) {
  *made = made_infos().add(std::make_shared<Info>(*info_of(info)));
}
void info_free(MPI_Info* info) {
  made_infos().remove(*info);
  *info = abi::kInfoNull;
}
void info_set(MPI_Info info, const char* key, const char* value) {
  made_infos().at(info)->values.with([&](auto& values) { values[key] = value; });
}
void info_delete(MPI_Info info, const char* key) {
  if (made_infos().at(info)->values.with([&](auto& values) { return values.erase(key); }) == 0)
    fail(abi::kErrInfoNoKey, fmt::format("there is no key '{}'", key));
}
void info_get(MPI_Info info, const char* key, int room, char* value, int* flag) {
  const auto values = info_of(info)->values.get();
  const auto found = values.find(key);
  *flag = found != values.end() ? 1 : 0;
  int length = 0;
  if (*flag != 0) give_text(found->second, room + 1, value, &length);
}
void info_get_valuelen(MPI_Info info, const char* key, int* length, int* flag) {
  const auto values = info_of(info)->values.get();
  const auto found = values.find(key);
  *flag = found != values.end() ? 1 : 0;
  if (*flag != 0) *length = static_cast<int>(found->second.size());
}
void info_get_nkeys(MPI_Info info, int* keys) {
  *keys = static_cast<int>(info_of(info)->values.get().size());
}
void info_get_nthkey(MPI_Info info, int number, char* key) {
  const auto values = info_of(info)->values.get();
  if (number < 0 || static_cast<std::size_t>(number) >= values.size())
    fail(abi::kErrArg, fmt::format("key {} of {}", number, values.size()));
  int length = 0;
  give_text(std::next(values.begin(), number)->first, abi::kMostInfoKey, key, &length);
}

}  // namespace cohort::mpi
