// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/platform.h>

#include <cohort/engine/system/caches.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/processor.h>

namespace cohort {
namespace {

class RealPlatform final : public Platform {
 public:
  std::string host_name() override { return host::name(); }
  std::string host_fingerprint() override { return host::fingerprint(); }
  unsigned available_cores() override { return processor::available_cores(); }
  std::size_t core_cache_bytes() override { return caches::core_bytes(); }
  std::size_t last_level_cache_bytes() override { return caches::last_level_bytes(); }
  void yield_core() noexcept override { processor::yield(); }
};

}  // namespace

std::unique_ptr<Platform> make_real_platform() { return std::make_unique<RealPlatform>(); }

}  // namespace cohort
