// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/pmi/pmix_client.h>

#include <cohort/engine/error.h>
#include <cohort/net/join/pmi/pmix_abi.h>

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cohort {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

}  // namespace

/// Its functions, and who this process is to it.
struct PmixClient::Library {
  Library() : handle(::dlopen(kLibrary, RTLD_NOW | RTLD_GLOBAL)) {  // its plugins look for its symbols
    if (handle == nullptr)
      throw Error(ErrorKind::Unsupported,
                  fmt::format("{} cannot be loaded ({}): install it (Debian: libpmix2), or set COHORT_ADDR",
                              kLibrary, ::dlerror()));
    find(init, "PMIx_Init");
    find(finalize, "PMIx_Finalize");
    find(put, "PMIx_Put");
    find(commit, "PMIx_Commit");
    find(fence, "PMIx_Fence");
    find(get, "PMIx_Get");
    find(text_of, "PMIx_Error_string");
    check(init(&self, nullptr, 0), "PMIx_Init");
  }

  /// Never closed: it has threads.
  void* handle;
  pmix::Process self{};
  bool is_final = false;

  pmix::Status (*init)(pmix::Process*, pmix::Info*, std::size_t) = nullptr;
  pmix::Status (*finalize)(const pmix::Info*, std::size_t) = nullptr;
  pmix::Status (*put)(std::uint8_t, const char*, pmix::Value*) = nullptr;
  pmix::Status (*commit)() = nullptr;
  pmix::Status (*fence)(const pmix::Process*, std::size_t, const pmix::Info*, std::size_t) = nullptr;
  pmix::Status (*get)(const pmix::Process*, const char*, const pmix::Info*, std::size_t,
                      pmix::Value**) = nullptr;
  const char* (*text_of)(pmix::Status) = nullptr;

  template <class Function>
  void find(Function& function, const char* name) const {
    void* const symbol = ::dlsym(handle, name);
    if (symbol == nullptr)
      throw Error(ErrorKind::Unsupported, fmt::format("{} has no {}: set COHORT_ADDR", kLibrary, name));
    std::memcpy(&function, &symbol, sizeof function);
  }

  void check(pmix::Status status, const char* call) const {
    if (status == pmix::kSuccess) return;
    throw Error(ErrorKind::Unsupported,
                fmt::format("{} failed: {} ({}); set COHORT_ADDR=HOST:PORT of rank 0's host, and "
                            "COHORT_SECRET_FILE",
                            call, text_of(status), status));
  }

  pmix::Value* value_of(std::uint32_t rank, const char* key) const {
    pmix::Process process = self;
    process.rank = rank;
    pmix::Value* value = nullptr;
    check(get(&process, key, nullptr, 0, &value), "PMIx_Get");
    return value;
  }
};

PmixClient::PmixClient() : library_(std::make_unique<Library>()) {}

PmixClient::~PmixClient() {
  if (!library_->is_final) (void)library_->finalize(nullptr, 0);
}

Rank PmixClient::rank() const noexcept { return library_->self.rank; }

Rank PmixClient::size() {
  const pmix::Value* const value = library_->value_of(pmix::kRankWildcard, pmix::kJobSize);
  if (value->type != pmix::kUint32)
    throw Error(ErrorKind::Unsupported, fmt::format("PMIx gives a size of type {}", value->type));
  return value->data.uint32;
}

void PmixClient::put(std::string_view key, const std::string& value) {
  std::string copy = value;
  pmix::Value given{};
  given.type = pmix::kString;
  given.data.string = copy.data();
  library_->check(library_->put(pmix::kScopeGlobal, std::string(key).c_str(), &given), "PMIx_Put");
  library_->check(library_->commit(), "PMIx_Commit");
}

std::string PmixClient::get(std::string_view key) {
  const pmix::Value* const value = library_->value_of(0, std::string(key).c_str());
  if (value->type != pmix::kString || value->data.string == nullptr)
    throw Error(ErrorKind::Unsupported, fmt::format("PMIx gives '{}' as type {}", key, value->type));
  return value->data.string;
}

void PmixClient::fence() {
  pmix::Info collect{};
  std::strncpy(collect.key, pmix::kCollectData, pmix::kKeyBytes - 1);
  collect.value.type = pmix::kBool;
  collect.value.data.flag = true;
  library_->check(library_->fence(nullptr, 0, &collect, 1), "PMIx_Fence");
}

void PmixClient::finalize() {
  library_->is_final = true;
  library_->check(library_->finalize(nullptr, 0), "PMIx_Finalize");
}

}  // namespace cohort
