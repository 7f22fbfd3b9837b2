// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/join_frame.h>

#include <cohort/net/auth/wire.h>
#include <cohort/net/text.h>

#include <fmt/format.h>

#include <algorithm>

namespace cohort {
namespace {

constexpr std::uint32_t kFrameMagic = 0x356e6a63;  // "cjn5"
constexpr std::uint32_t kNobody = ~std::uint32_t{0};
constexpr std::size_t kHostField = 64;
constexpr std::size_t kAddressField = 64;
constexpr std::size_t kWordBits = 64;
constexpr std::chrono::milliseconds kMostPatience{~std::uint32_t{0}};

[[noreturn]] void refuse(std::string_view from, std::string_view what) {
  throw Error(
      ErrorKind::ProtocolError,
      fmt::format("{} sent a message while joining that is not allowed: {}; run the same build of cohort "
                  "on all ranks",
                  from, what));
}

wire::Writer begin(JoinFrameBytes& bytes, JoinFrame::Kind kind, std::uint8_t code, std::uint32_t number) {
  wire::Writer writer(bytes);
  writer.put(kFrameMagic);
  writer.put(static_cast<std::uint8_t>(kind));
  writer.put(code);
  writer.put(std::uint16_t{0});
  writer.put(number);
  writer.put(std::uint32_t{0});
  return writer;
}

JoinFrameBytes encode_text(JoinFrame::Kind kind, std::string_view text) {
  JoinFrameBytes bytes{};
  wire::Writer writer = begin(bytes, kind, 0, 0);
  writer.put_text(text, kMostFrameText);
  return bytes;
}

std::array<std::uint64_t, kMostCores / kWordBits> words_of(CoreSet cores) {
  std::array<std::uint64_t, kMostCores / kWordBits> words{};
  for (std::uint64_t& word : words) {
    word = (cores & CoreSet(~std::uint64_t{0})).to_ullong();
    cores >>= kWordBits;
  }
  return words;
}

/// As inet_ntop and Address::to_string() write it: "10.0.0.2:4711", "[fe80::1%eth0]:4711". inet_aton's forms,
/// as "1.2" and "0x7f000001", are none.
bool is_numeric_address(std::string_view text) {
  const bool is_v6 = text.starts_with('[');
  const std::string_view letters = is_v6 ? "0123456789abcdef.:[]" : "0123456789.:";
  const std::size_t interface = is_v6 ? std::min(text.find('%'), text.size()) : text.size();
  return text.substr(0, interface).find_first_not_of(letters) == std::string_view::npos;
}

/// A link-local one is of an interface, which may be called otherwise here: who knows the link says which it
/// is.
Address decode_address(const std::string& text, std::string_view from) {
  if (text.empty()) return Address();
  const std::string shown = printable(text, kAddressField);
  if (!is_numeric_address(text)) refuse(from, fmt::format("'{}' is no numeric address", shown));
  std::string why;
  try {
    return Address::parse_numeric(text);
  } catch (const Error& error) {
    why = error.message();
  }
  const std::size_t end = text.find("]:");
  const bool is_of_interface = text.starts_with("[fe80:") && end != std::string::npos && text.find('%') < end;
  if (!is_of_interface) refuse(from, why);
  try {
    return Address::parse_numeric(text.substr(0, text.find('%')) + text.substr(end));
  } catch (const Error& error) {
    refuse(from, error.message());
  }
}

ControlLinks decode_links(std::uint8_t code, std::string_view from) {
  const auto links = static_cast<ControlLinks>(code);
  if (links != ControlLinks::all && links != ControlLinks::neighbours)
    refuse(from, fmt::format("{} says of no control connections that they are made", code));
  return links;
}

Error decode_refusal(std::uint8_t code, std::uint32_t culprit, std::string_view text, std::string_view from) {
  if (code > static_cast<std::uint8_t>(ErrorKind::Internal))
    refuse(from, fmt::format("{} is no kind of error", code));
  const Error error(static_cast<ErrorKind>(code), printable(text, kMostFrameText));
  return culprit == kNobody ? error : error.with_culprit(culprit);
}

}  // namespace

std::string_view to_string(JoinFrame::Kind kind) noexcept {
  switch (kind) {
    case JoinFrame::Kind::introduction: return "introduction";
    case JoinFrame::Kind::table: return "table";
    case JoinFrame::Kind::waiting: return "waiting";
    case JoinFrame::Kind::ready: return "ready";
    case JoinFrame::Kind::go: return "go";
    case JoinFrame::Kind::refusal: return "refusal";
    case JoinFrame::Kind::complete: return "complete";
    case JoinFrame::Kind::neighbours: return "neighbours";
  }
  return "unknown";
}

JoinFrameBytes encode_introduction(const PeerInfo& info, Duration patience) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(std::max(patience, Duration::zero()));
  JoinFrameBytes bytes{};
  const auto milliseconds = static_cast<std::uint32_t>(std::min(whole, kMostPatience).count());
  wire::Writer writer = begin(bytes, JoinFrame::Kind::introduction, 0, milliseconds);
  std::array<std::byte, kPeerRecordBytes> record{};
  encode_record(info, record);
  writer.put(record);
  return bytes;
}

JoinFrameBytes encode_table(ControlLinks links) {
  JoinFrameBytes bytes{};
  begin(bytes, JoinFrame::Kind::table, static_cast<std::uint8_t>(links), 0);
  return bytes;
}

JoinFrameBytes encode_neighbours(ControlLinks links, std::uint32_t records) {
  JoinFrameBytes bytes{};
  begin(bytes, JoinFrame::Kind::neighbours, static_cast<std::uint8_t>(links), records);
  return bytes;
}

JoinFrameBytes encode_signal(JoinFrame::Kind kind) {
  JoinFrameBytes bytes{};
  begin(bytes, kind, 0, 0);
  return bytes;
}

JoinFrameBytes encode_waiting(std::string_view for_ranks) {
  return encode_text(JoinFrame::Kind::waiting, for_ranks);
}

JoinFrameBytes encode_complete(std::string_view who_has_the_rank) {
  return encode_text(JoinFrame::Kind::complete, who_has_the_rank);
}

JoinFrameBytes encode_refusal(const Error& cause, Rank teller) {
  JoinFrameBytes bytes{};
  const auto code = static_cast<std::uint8_t>(cause.kind());
  wire::Writer writer = begin(bytes, JoinFrame::Kind::refusal, code, cause.culprit().value_or(kNobody));
  const std::string rest = fmt::format("cut here: the rest is in what rank {} printed", teller);
  const std::string text = shortened(cause.message(), kMostFrameText, rest);
  writer.put_text(printable(text, kMostFrameText), kMostFrameText);
  return bytes;
}

JoinFrame decode_frame(std::span<const std::byte, kJoinFrameBytes> bytes, std::string_view from) {
  wire::Reader reader(bytes);
  const auto magic = reader.get<std::uint32_t>();
  if (magic != kFrameMagic)
    refuse(from, fmt::format("it begins with {:08x} instead of {:08x}", magic, kFrameMagic));
  const auto kind = reader.get<std::uint8_t>();
  const auto code = reader.get<std::uint8_t>();
  const auto reserved = reader.get<std::uint16_t>();
  const auto number = reader.get<std::uint32_t>();
  const auto reserved_too = reader.get<std::uint32_t>();
  if (reserved != 0 || reserved_too != 0) refuse(from, "a reserved field is not zero");

  JoinFrame frame;
  frame.kind = static_cast<JoinFrame::Kind>(kind);
  switch (frame.kind) {
    case JoinFrame::Kind::ready:
    case JoinFrame::Kind::go: return frame;
    case JoinFrame::Kind::table:
    case JoinFrame::Kind::neighbours:
      frame.links = decode_links(code, from);
      frame.records = number;
      return frame;
    case JoinFrame::Kind::introduction: {
      std::array<std::byte, kPeerRecordBytes> record{};
      reader.get(record);
      frame.patience = std::chrono::milliseconds(number);
      frame.info = decode_record(record, from);
      return frame;
    }
    case JoinFrame::Kind::waiting:
    case JoinFrame::Kind::complete:
      frame.text = printable(reader.get_text(kMostFrameText), kMostFrameText);
      return frame;
    case JoinFrame::Kind::refusal:
      frame.refusal = decode_refusal(code, number, reader.get_text(kMostFrameText), from);
      return frame;
  }
  refuse(from, fmt::format("{} is no kind of message", kind));
}

void encode_record(const PeerInfo& info, std::span<std::byte, kPeerRecordBytes> into) {
  wire::Writer writer(into);
  writer.put(info.rank);
  writer.put(info.process);
  writer.put(info.incarnation);
  writer.put(info.engine);
  writer.put(info.host_id);
  writer.put(info.machine_id);
  for (const std::uint64_t word : words_of(info.cores)) writer.put(word);
  writer.put_text(printable(info.host, kHostField), kHostField);
  const std::string address = info.data_address.size_bytes() == 0 ? "" : info.data_address.to_string();
  COHORT_ASSERT(address.size() <= kAddressField, "the address {} has {} letters", address, address.size());
  writer.put_text(address, kAddressField);
  writer.put(info.fabric);
}

PeerInfo decode_record(std::span<const std::byte, kPeerRecordBytes> bytes, std::string_view from) {
  wire::Reader reader(bytes);
  PeerInfo info;
  info.rank = reader.get<std::uint32_t>();
  info.process = reader.get<std::uint32_t>();
  info.incarnation = reader.get<std::uint64_t>();
  info.engine = reader.get<std::uint64_t>();
  reader.get(info.host_id);
  info.machine_id = reader.get<std::uint64_t>();
  for (std::size_t i = 0; i < kMostCores / kWordBits; ++i)
    info.cores |= CoreSet(reader.get<std::uint64_t>()) << (i * kWordBits);
  info.host = printable(reader.get_text(kHostField), kHostField);
  info.data_address = decode_address(reader.get_text(kAddressField), from);
  info.fabric = reader.get<std::uint64_t>();
  return info;
}

std::string printable(std::string_view text, std::size_t most) {
  std::string result(text.substr(0, most));
  for (char& letter : result)
    if (letter < ' ' || letter > '~') letter = '?';
  return result;
}

}  // namespace cohort
