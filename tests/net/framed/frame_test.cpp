// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/framed/frame.h>

#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>

#include <string>

namespace cohort::test::frame_test {
namespace {

using framed::FrameBytes;
using framed::FrameHeader;
using framed::FrameType;
using ::testing::HasSubstr;

FrameHeader full() {
  FrameHeader header;
  header.type = FrameType::put;
  header.signal = Signal::DataSignal;
  header.window = WindowId::ccl_out;
  header.lane = 0x0102;
  header.source = 0x03040506;
  header.sequence = 0x0708090a0b0c0d0e;
  header.signature = {.what = 0x1112131415161718, .count = 0x2122232425262728};
  header.offset = 0x3132333435363738;
  header.bytes = 0x4142434445464748;
  return header;
}

TEST(Frame, comes_back_as_it_was_written) {
  for (const FrameType type :
       {FrameType::signal, FrameType::put, FrameType::get, FrameType::get_reply, FrameType::data}) {
    FrameHeader header = full();
    header.type = type;
    if (type == FrameType::signal) header.bytes = 0;
    EXPECT_EQ(framed::decode(framed::encode(header)), header) << framed::to_string(type);
  }
}

TEST(Frame, is_written_least_significant_byte_first) {
  const FrameBytes bytes = framed::encode(full());
  const unsigned char expected[framed::kFrameBytes] = {
      'C',  'T',  'C',  'P',  1,    2,    1,    3,     // magic, version, type, signal, window
      0x02, 0x01, 0,    0,    0x06, 0x05, 0x04, 0x03,  // lane, source
      0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 0x07,  // sequence
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,  // signature
      0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,  //
      0x38, 0x37, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,  // offset
      0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41, 0, 0, 0, 0, 0, 0, 0, 0,  // bytes
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(Frame, refuses_what_encode_does_not_write_and_names_it) {
  struct Case {
    std::size_t at;
    int value;
    std::string text;
  };
  const Case cases[] = {
      {3, 'X', "magic 0x58435443 where 0x50435443"},
      {4, 2, "version 0x2 where 1"},
      {5, 0, "type 0x0 where 1 to 5"},
      {5, 6, "type 0x6 where 1 to 5"},
      {6, 3, "signal 0x3 where 0 to 2"},
      {7, 5, "window 0x5 where 0 to 4"},
      {10, 1, "reserved bytes 0x1 where zero"},
      {63, 1, "reserved bytes 0x100000000000000 where zero"},
      {5, 1, "bytes of a signal 0x4142434445464748 where zero"},
  };
  for (const Case& wrong : cases) {
    FrameBytes bytes = framed::encode(full());
    bytes[wrong.at] = static_cast<std::byte>(wrong.value);
    const auto error = error_from([&] { (void)framed::decode(bytes); });
    ASSERT_EQ(kind_of(error), "ProtocolError") << wrong.text;
    EXPECT_THAT(error->what(), HasSubstr(wrong.text));
  }
}

TEST(Frame, every_byte_matters_or_must_be_zero) {
  const FrameBytes bytes = framed::encode(full());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    FrameBytes other = bytes;
    other[i] ^= std::byte{0x40};
    bool is_same = false;
    const auto error = error_from([&] { is_same = framed::decode(other) == full(); });
    EXPECT_FALSE(is_same) << "byte " << i << (error ? " refused" : " taken");
  }
}

}  // namespace
}  // namespace cohort::test::frame_test
