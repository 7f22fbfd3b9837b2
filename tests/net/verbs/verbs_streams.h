// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cohort/engine/error.h>
#include <cohort/engine/task_scope.h>
#include <cohort/net/verbs/verbs_stream.h>
#include <cohort/tests/support/fake_verbs.h>
#include <cohort/tests/support/outcome.h>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

/// Streams over a library that is made up, for what no device at hand does on demand.
namespace cohort::verbs {

using test::FakeDevice;
using test::FakeVerbs;
using Bytes = std::vector<std::byte>;

inline EngineOptions without_spinning() {
  EngineOptions options;
  options.spin = Duration::zero();
  return options;
}

/// Two ends of a connection, on one device: `one` belongs to rank 0, `other` to rank 1.
class VerbsStreams : public ::testing::Test {
 public:
  void SetUp() override {
    fake.devices = {FakeDevice{.gids = {FakeVerbs::ipv4(0)}}};
    device.emplace(fake.library(), *choose_port(fake.library(), settings).port, settings);
    connect();
  }
  void TearDown() override {
    one.reset();
    other.reset();
    device.reset();
    EXPECT_EQ(fake.objects, 0) << "something was not given back";
  }
  void use_short_patience() {
    settings.timeout = 10;  // 4 ms
    settings.retry_count = 0;
    start_anew();
  }
  /// On a device with these settings.
  void start_anew() {
    one.reset();
    other.reset();
    device.emplace(fake.library(), *choose_port(fake.library(), settings).port, settings);
    connect();
  }
  void connect() {
    one.reset();
    other.reset();
    one.emplace(engine, *device, 1);
    other.emplace(engine, *device, 0);
    one->connect(other->end_point());
    other->connect(one->end_point());
  }

  static int send(VerbsStream& stream, const Bytes& bytes) { return stream.try_send_some(bytes, {}); }
  static int send(VerbsStream& stream, std::size_t bytes) { return send(stream, Bytes(bytes)); }
  static int receive(VerbsStream& stream, Bytes& into) { return stream.try_receive_some(into); }
  static int receive(VerbsStream& stream, std::size_t most) {
    Bytes into(most);
    return receive(stream, into);
  }
  /// Bytes that differ from those of other pages, too.
  static Bytes numbered(std::size_t first, std::size_t bytes) {
    Bytes result(bytes);
    for (std::size_t i = first; i < first + bytes; ++i)
      result[i - first] = static_cast<std::byte>((i * 31 >> 3) + (i >> 12) * 7 + (i >> 20) * 3);
    return result;
  }
  /// As if its peer had sent that.
  void say(VerbsStream& to, Immediate::Kind kind, std::uint32_t bytes, std::uint32_t messages,
           std::uint32_t came) {
    say(to, Immediate{kind, bytes, messages}.encode(), came);
  }
  void say(VerbsStream& to, std::uint32_t immediate, std::uint32_t came) {
    static_assert(std::endian::native == std::endian::little);
    fake.say_to(to.end_point().pairs[0].number, __builtin_bswap32(immediate), came);
  }
  static void expect_failure(VerbsStream& stream, std::string_view text) {
    EXPECT_EQ(receive(stream, 1), -EIO);
    EXPECT_EQ(send(stream, 1), -EIO);
    EXPECT_THAT(stream.explain(EIO), ::testing::HasSubstr(std::string(text)));
  }

  /// Until that stream has something to tell, with the device's events watched.
  void run_until_readable(VerbsStream& stream) {
    TaskScope services;
    auto whole = [&]() -> Task<> {
      services.spawn(device->watch_events(engine));
      const auto error =
          co_await test::error_of(with_deadline(std::chrono::seconds(60), stream.until_readable()));
      EXPECT_FALSE(error) << error->what();
      services.cancel();
      co_await services.join();
    };
    engine.run(whole());
  }

  FakeVerbs fake;
  Settings settings;
  Engine engine{without_spinning()};
  std::optional<Device> device;
  std::optional<VerbsStream> one, other;
};

}  // namespace cohort::verbs
