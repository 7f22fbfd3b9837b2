// SPDX-License-Identifier: Apache-2.0
// From MPI_Init to MPI_Finalize.
#include <cohort/bindings/mpi/comm.h>
#include <cohort/bindings/mpi/text.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/variables.h>
#include <cohort_mpi/calls.h>

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace cohort::mpi {
namespace {

constexpr std::size_t kAlignment = 64;
/// What a parent sees of the code that a process ends with.
constexpr int kExitMask = 0xff;

/// Programs that set no handler of their own get this one.
MPI_Errhandler first_errhandler() {
  const std::string how = environment::text("COHORT_MPI_ERRORS").value_or("fatal");
  if (how == "return") return abi::kErrorsReturn;
  if (how != "fatal")
    fail(abi::kErrArg, fmt::format("COHORT_MPI_ERRORS is '{}'; it is fatal or return", how));
  return abi::kErrorsAreFatal;
}

}  // namespace

/// Never destroyed: other threads may be in a call when the program ends.
Process& Process::get() {
  static auto* const process = new Process();
  return *process;
}

void Process::start() {
  if (is_started_.exchange(true)) fail(abi::kErrOther, "it was called before; once is enough");
  try {
    join();
  } catch (...) {
    is_started_ = false;
    throw;
  }
}

void Process::join() {
  CommunicatorOptions options = CommunicatorOptions::from_environment();
  environment::warn_of_misspelt_variables(options.join.rank);
  options.wording.at_once = "by MPI_Isend or MPI_Sendrecv";
  session_ = std::make_unique<bindings::Session>();
  auto world = std::make_shared<Comm>();
  world->shared = session_->join(std::move(options));
  world->name.set("MPI_COMM_WORLD");
  auto self = std::make_shared<Comm>();
  self->shared = world->shared->group({world->shared->rank()}, "self");
  self->name.set("MPI_COMM_SELF");
  world->errhandler = self->errhandler = first_errhandler();
  world_ = std::move(world);
  self_ = std::move(self);
}

void Process::end() {
  const std::shared_ptr<Comm> before = world();
  self_->attributes.remove_all(abi::kCommSelf);
  before->attributes.remove_all(abi::kCommWorld);
  wait_for_buffered();
  for (const auto& request : take(freed_)) (void)request->is_over_by(kNever);
  is_ended_ = true;
  std::vector<std::shared_ptr<bindings::Request>> closings;
  for (const auto& comm : remove_made_comms()) {
    closings.push_back(comm->shared->prepare_close());
    comm->shared->start(closings.back());
  }
  for (const auto& closing : closings) (void)closing->is_over_by(kNever);
  self_->shared->close();
  before->shared->close();
}

void Process::abort(const std::string& reason, int status) noexcept {
  if (is_started_ && !is_ended_ && world_ != nullptr) try {
      world_->shared->abort(reason);
    } catch (...) {
      std::fputs("cohort: the other ranks could not be told\n", stderr);
    }
  std::fflush(nullptr);
  ::_exit(status);
}

std::shared_ptr<Comm> Process::world() const {
  if (is_ended_) fail(abi::kErrOther, "MPI_Finalize was called before; make calls of MPI until then");
  if (world_ == nullptr) fail(abi::kErrOther, "MPI_Init was not called; call it before");
  return world_;
}

std::shared_ptr<Comm> Process::self() const {
  (void)world();
  return self_;
}

void Process::keep_buffered(std::shared_ptr<bindings::Request> request) {
  const std::lock_guard lock(mutex_);
  std::erase_if(buffered_, [](const auto& one) { return one->is_over() && one->failure() == nullptr; });
  buffered_.push_back(std::move(request));
}

void Process::wait_for_buffered() {
  for (const auto& request : take(buffered_)) request->wait();
}

void Process::keep_freed(std::shared_ptr<bindings::Request> request) {
  const std::lock_guard lock(mutex_);
  std::erase_if(freed_, [](const auto& one) { return one->is_over(); });
  freed_.push_back(std::move(request));
}

std::vector<std::shared_ptr<bindings::Request>> Process::take(
    std::vector<std::shared_ptr<bindings::Request>>& from) {
  const std::lock_guard lock(mutex_);
  return std::exchange(from, {});
}

// What programs call.

void init(int* /*argc*/, char*** /*argv*/) { Process::get().start(); }
void init_thread(int* /*argc*/, char*** /*argv*/, int /*required*/, int* provided) {
  Process::get().start();
  if (provided != nullptr) *provided = abi::kThreadMultiple;
}
void initialized(int* flag) { *flag = Process::get().is_started() ? 1 : 0; }
void finalized(int* flag) { *flag = Process::get().is_ended() ? 1 : 0; }
void finalize() { Process::get().end(); }
void query_thread(int* provided) { *provided = abi::kThreadMultiple; }
/// Of any thread, as each may call what the main one may.
void is_thread_main(int* flag) { *flag = 1; }

void abort(MPI_Comm /*comm*/, int code) {
  std::fprintf(stderr, "cohort: MPI_Abort with code %d\n", code);
  Process::get().abort(fmt::format("it called MPI_Abort with code {}", code),
                       (code & kExitMask) == 0 ? 1 : code);
}

void get_version(int* version, int* subversion) {
  *version = abi::kVersion;
  *subversion = abi::kSubversion;
}
void get_library_version(char* version, int* length) {
  const std::string text =
      fmt::format("cohort {}, a part of MPI by the binary interface of MPICH", COHORT_VERSION);
  std::memcpy(version, text.c_str(), text.size() + 1);
  *length = static_cast<int>(text.size());
}
void get_processor_name(char* name, int* length) {
  ::utsname host{};
  ::uname(&host);
  give_name(host.nodename, name, length);
}

void alloc_mem(MPI_Aint size, MPI_Info /*info*/, void* base) {
  if (size < 0) fail(abi::kErrArg, fmt::format("{} bytes", size));
  const std::size_t bytes = (static_cast<std::size_t>(size) + kAlignment) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr) fail(abi::kErrNoMem, fmt::format("there are no {} bytes", size));
  *static_cast<void**>(base) = memory;
}
void free_mem(void* base) { std::free(base); }

void buffer_attach(void* buffer, Number size) {
  Process& process = Process::get();
  if (process.buffer_bytes >= 0) fail(abi::kErrBuffer, "there is one; detach it before");
  if (size < 0) fail(abi::kErrArg, fmt::format("a buffer of {} bytes", size));
  process.buffer = buffer;
  process.buffer_bytes = size;
}
void buffer_detach(void* buffer, NumberOut size) {
  Process& process = Process::get();
  *static_cast<void**>(buffer) = process.buffer;
  size.set(std::max<Number>(process.buffer_bytes, 0));
  process.buffer = nullptr;
  process.buffer_bytes = -1;
  process.wait_for_buffered();
}

void pcontrol(int /*level*/) {}

void error_class(int code, int* of) { *of = class_of_code(code); }
void error_string(int code, char* text, int* length) {
  give_text(text_of_code(code), abi::kMostErrorString, text, length);
}

}  // namespace cohort::mpi
