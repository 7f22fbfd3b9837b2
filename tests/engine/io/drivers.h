// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/engine.h>
#include <cohort/engine/io/epoll_driver.h>
#include <cohort/engine/io/uring_driver.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

namespace cohort {

/// What every driver of the kernel's promises is tested with each of them.
class Drivers : public ::testing::TestWithParam<std::string_view> {
 protected:
  [[nodiscard]] static bool is_uring() { return GetParam() == "uring"; }
  [[nodiscard]] static std::unique_ptr<Driver> make() {
    return is_uring() ? make_uring_driver() : make_epoll_driver("for a test");
  }
  [[nodiscard]] static EngineOptions sleepy() {
    return {.driver = make(), .compute_threads = 1, .spin = Duration::zero()};
  }
};

/// For INSTANTIATE_TEST_SUITE_P.
inline auto every_driver() { return ::testing::Values("uring", "epoll"); }
inline std::string driver_name(const ::testing::TestParamInfo<std::string_view>& one) {
  return std::string(one.param);
}

inline Task<int> perform(Engine& engine, IoOperation::Request request) {
  IoOperation operation(engine.driver(), request);
  co_return co_await operation;
}

}  // namespace cohort
