// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_frame.h>

#include <cohort/tests/support/outcome.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace cohort::join_frame_test {
namespace {

using ::cohort::test::error_from;
using ::cohort::test::kind_of;
using ::testing::HasSubstr;

PeerInfo rank_3() {
  PeerInfo info;
  info.rank = 3;
  info.process = 4121;
  info.incarnation = 0x0123456789abcdef;
  info.engine = 0xfedcba9876543210;
  info.host_id.fill(std::byte{0x5a});
  info.machine_id = 0x0011223344556677;
  for (const std::size_t core : {0, 1, 63, 64, 127, 500, 1023}) info.cores.set(core);
  info.host = "node7";
  info.data_address = Address::parse("10.0.0.2:4711");
  info.fabric = 0xfe80000000000001;
  return info;
}

void expect_equal(const PeerInfo& one, const PeerInfo& other) {
  EXPECT_EQ(one.rank, other.rank);
  EXPECT_EQ(one.process, other.process);
  EXPECT_EQ(one.incarnation, other.incarnation);
  EXPECT_EQ(one.engine, other.engine);
  EXPECT_EQ(one.host_id, other.host_id);
  EXPECT_EQ(one.machine_id, other.machine_id);
  EXPECT_EQ(one.cores, other.cores);
  EXPECT_EQ(one.host, other.host);
  EXPECT_EQ(one.data_address.size_bytes(), other.data_address.size_bytes());
  EXPECT_EQ(one.fabric, other.fabric);
}

/// Of decoding a record whose address field holds that text.
std::optional<Error> error_with_address(std::string_view text) {
  PeerInfo info = rank_3();
  info.data_address = Address();
  std::array<std::byte, kPeerRecordBytes> record{};
  encode_record(info, record);
  std::ranges::copy(std::as_bytes(std::span(text)), record.end() - 72);  // the fabric comes behind it
  return error_from([&] { static_cast<void>(decode_record(record, "rank 3")); });
}

TEST(JoinFrame, an_introduction_comes_back_as_it_was) {
  const JoinFrameBytes bytes = encode_introduction(rank_3(), std::chrono::milliseconds(1500));
  const JoinFrame frame = decode_frame(bytes, "rank 3");
  EXPECT_EQ(frame.kind, JoinFrame::Kind::introduction);
  EXPECT_EQ(frame.patience, std::chrono::milliseconds(1500));
  expect_equal(frame.info, rank_3());
  EXPECT_EQ(frame.info.data_address.to_string(), "10.0.0.2:4711");
}

TEST(JoinFrame, patience_is_bounded_and_never_rounded_to_nothing) {
  const auto patience_after = [](Duration patience) {
    return decode_frame(encode_introduction(rank_3(), patience), "rank 3").patience;
  };
  EXPECT_EQ(patience_after(std::chrono::nanoseconds(1)), std::chrono::milliseconds(1));
  EXPECT_EQ(patience_after(-std::chrono::seconds(1)), Duration::zero());
  EXPECT_EQ(patience_after(Duration::max()), std::chrono::milliseconds(~std::uint32_t{0}));
}

TEST(JoinFrame, an_address_of_version_6_and_none_at_all_come_back) {
  for (const char* text : {"[::1]:80", "[2001:db8::10.0.0.1]:65535", ""}) {
    PeerInfo info = rank_3();
    info.data_address = *text == '\0' ? Address() : Address::parse(text);
    std::array<std::byte, kPeerRecordBytes> record{};
    encode_record(info, record);
    expect_equal(decode_record(record, "rank 3"), info);
  }
}

TEST(JoinFrame, a_link_local_address_comes_back_with_its_interface) {
  PeerInfo info = rank_3();
  info.data_address = Address::parse("[fe80::1%lo]:80");
  std::array<std::byte, kPeerRecordBytes> record{};
  encode_record(info, record);
  EXPECT_EQ(decode_record(record, "rank 3").data_address.to_string(), "[fe80::1%lo]:80");
}

TEST(JoinFrame, a_link_local_address_of_an_interface_that_is_not_here_comes_without_it) {
  EXPECT_FALSE(error_with_address("[fe80::1%nowhere0]:80"));
}

TEST(JoinFrame, names_are_never_resolved_for_a_peer) {
  EXPECT_FALSE(error_with_address("127.0.0.1:1"));
  for (const char* text : {"localhost:80", "cafe:80", "unix:x", "evil.example:80", "1.2.3.4", "[::1",
                           "[cafe]:80", "[cafe%lo]:80", "[localhost%lo]:80", "[fe80::1%lo", "1.2.3.4%lo:80",
                           "1.2.3.4:99999", "\xff\xff", "127.0.0.1:1 "}) {
    const auto error = error_with_address(text);
    EXPECT_EQ(kind_of(error), "ProtocolError") << text;
    if (error) {
      EXPECT_THAT(error->what(), HasSubstr("rank 3 sent"));
    }
  }
}

TEST(JoinFrame, signals_come_back) {
  for (const auto kind : {JoinFrame::Kind::ready, JoinFrame::Kind::go})
    EXPECT_EQ(decode_frame(encode_signal(kind), "rank 3").kind, kind);
  const JoinFrame waiting = decode_frame(encode_waiting("2, 5-7"), "rank 3");
  EXPECT_EQ(waiting.kind, JoinFrame::Kind::waiting);
  EXPECT_EQ(waiting.text, "2, 5-7");
  const JoinFrame complete = decode_frame(encode_complete("rank 3 (node7, pid 4121)"), "rank 0");
  EXPECT_EQ(complete.kind, JoinFrame::Kind::complete);
  EXPECT_EQ(complete.text, "rank 3 (node7, pid 4121)");
}

TEST(JoinFrame, what_comes_before_records_says_how_many_and_which_connections_are_made) {
  for (const auto links : {ControlLinks::all, ControlLinks::neighbours}) {
    const JoinFrame table = decode_frame(encode_table(links), "rank 0");
    EXPECT_EQ(table.kind, JoinFrame::Kind::table);
    EXPECT_EQ(table.links, links);
    const JoinFrame neighbours = decode_frame(encode_neighbours(links, 19), "rank 0");
    EXPECT_EQ(neighbours.kind, JoinFrame::Kind::neighbours);
    EXPECT_EQ(neighbours.links, links);
    EXPECT_EQ(neighbours.records, 19U);
  }
  JoinFrameBytes bytes = encode_table(ControlLinks::neighbours);
  bytes[5] = std::byte{3};
  const auto error = error_from([&] { static_cast<void>(decode_frame(bytes, "rank 0")); });
  EXPECT_EQ(kind_of(error), "ProtocolError");
}

TEST(JoinFrame, a_refusal_carries_kind_culprit_and_text) {
  const Error cause = Error(ErrorKind::WorldSize, "rank 2 says 5").with_culprit(2);
  const JoinFrame frame = decode_frame(encode_refusal(cause, 0), "rank 0");
  ASSERT_TRUE(frame.refusal);
  EXPECT_EQ(frame.refusal->kind(), ErrorKind::WorldSize);
  EXPECT_EQ(frame.refusal->culprit(), Rank{2});
  EXPECT_EQ(frame.refusal->message(), "rank 2 says 5");
  EXPECT_EQ(decode_frame(encode_refusal(Error(ErrorKind::Internal, "x"), 0), "rank 0").refusal->culprit(),
            std::nullopt);
}

TEST(JoinFrame, texts_and_host_names_are_cut_and_cannot_play_with_a_terminal) {
  const std::string text = "\x1b[2J\n" + std::string(1000, 'x');
  EXPECT_EQ(decode_frame(encode_waiting(text), "rank 0").text,
            "?[2J?" + std::string(kMostFrameText - 5, 'x'));
  const JoinFrame frame = decode_frame(encode_refusal(Error(ErrorKind::PeerDied, text), 0), "rank 0");
  EXPECT_EQ(frame.refusal->message().substr(0, 6), "?[2J?x");
  EXPECT_EQ(frame.refusal->message().size(), kMostFrameText);

  PeerInfo info = rank_3();
  info.host = text;
  std::array<std::byte, kPeerRecordBytes> record{};
  encode_record(info, record);
  EXPECT_EQ(decode_record(record, "rank 3").host, "?[2J?" + std::string(59, 'x'));
  record[168] = std::byte{0x07};  // the first letter, by a peer that does not cut
  EXPECT_EQ(decode_record(record, "rank 3").host.front(), '?');
}

TEST(JoinFrame, what_no_encoder_writes_is_refused_with_the_value) {
  const auto error_after = [](std::size_t at, unsigned value) {
    JoinFrameBytes bytes = encode_refusal(Error(ErrorKind::PeerDied, "x"), 0);
    bytes[at] = static_cast<std::byte>(value);
    return error_from([&] { static_cast<void>(decode_frame(bytes, "rank 5")); });
  };
  for (const auto& [at, value] :
       {std::pair{0U, 0x00U}, {4U, 0U}, {4U, 9U}, {5U, 200U}, {6U, 1U}, {12U, 1U}}) {
    const auto error = error_after(at, value);
    EXPECT_EQ(kind_of(error), "ProtocolError") << "byte " << at << " = " << value;
    if (error) {
      EXPECT_THAT(error->what(), HasSubstr("rank 5 sent"));
    }
  }
}

TEST(JoinFrame, any_bytes_decode_or_are_refused) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> byte(0, 255);
  const JoinFrameBytes begin = encode_introduction(rank_3(), std::chrono::seconds(1));
  for (int round = 0; round < 20000; ++round) {
    JoinFrameBytes bytes = begin;
    for (int change = 0; change < 8; ++change)
      bytes[static_cast<std::size_t>(random()) % bytes.size()] = static_cast<std::byte>(byte(random));
    const auto error = error_from([&] { static_cast<void>(decode_frame(bytes, "rank 3")); });
    if (error) {
      ASSERT_EQ(error->kind(), ErrorKind::ProtocolError) << error->what();
    }
  }
}

}  // namespace
}  // namespace cohort::join_frame_test
