// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/hostlist.h>

#include <cohort/engine/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace cohort {
namespace {

constexpr std::size_t kMostDigits = 9;
constexpr std::string_view kDigits = "0123456789";

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

std::uint32_t value_of(std::string_view digits) noexcept {
  std::uint32_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// One list, and where in it the reader is.
class Reader {
 public:
  Reader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  [[nodiscard]] bool is_at_end() const noexcept { return position_ == text_.size(); }
  [[nodiscard]] char next() const noexcept { return is_at_end() ? '\0' : text_[position_]; }
  bool take(char expected) noexcept {
    if (is_at_end() || text_[position_] != expected) return false;
    ++position_;
    return true;
  }
  void expect(char expected) {
    if (!take(expected)) refuse(fmt::format("'{}' is missing", expected));
  }
  std::string_view take_until(std::string_view stops) noexcept {
    const std::size_t begin = position_;
    position_ = std::min(text_.find_first_of(stops, begin), text_.size());
    return text_.substr(begin, position_ - begin);
  }
  std::string_view take_digits() {
    const std::size_t begin = position_;
    while (!is_at_end() && is_digit(text_[position_])) ++position_;
    if (position_ == begin) refuse("a number is missing");
    if (position_ - begin > kMostDigits) refuse(fmt::format("a number has more than {} digits", kMostDigits));
    return text_.substr(begin, position_ - begin);
  }
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorKind::InvalidArgument,
                fmt::format("{}='{}': {} at character {}; a list is like n1,n[02-04,7]", source_, text_, why,
                            position_ + 1));
  }

 private:
  const std::string_view text_;
  const std::string_view source_;
  std::size_t position_ = 0;
};

void limit(const Reader& reader, std::size_t count) {
  if (count > kMostHosts) reader.refuse(fmt::format("more than {} hosts", kMostHosts));
}

/// "08-11" and the like: what stands between commas in brackets.
void read_range(Reader& reader, std::vector<std::string>& into) {
  const std::string_view first = reader.take_digits();
  if (!reader.take('-')) {
    into.emplace_back(first);
    return;
  }
  const std::string_view last = reader.take_digits();
  const bool is_padded = first.size() > 1 && first.front() == '0';
  const bool is_last_padded = last.size() > 1 && last.front() == '0';
  const bool is_width_clear = is_padded ? last.size() == first.size() : !is_last_padded;
  if (!is_width_clear) reader.refuse(fmt::format("{} and {} have zeros of different widths", first, last));
  if (value_of(last) < value_of(first)) reader.refuse(fmt::format("{} is above {}", first, last));
  limit(reader, into.size() + value_of(last) - value_of(first) + 1);
  for (std::uint32_t number = value_of(first); number <= value_of(last); ++number)
    into.push_back(is_padded ? fmt::format("{:0{}}", number, first.size()) : std::to_string(number));
}

std::vector<std::string> read_brackets(Reader& reader) {
  std::vector<std::string> numbers;
  do read_range(reader, numbers);
  while (reader.take(','));
  reader.expect(']');
  return numbers;
}

/// What stands between commas outside of brackets.
std::vector<std::string> read_item(Reader& reader) {
  std::vector<std::string> hosts{""};
  const auto append_each = [&](const std::vector<std::string>& ends) {
    limit(reader, hosts.size() * ends.size());
    std::vector<std::string> longer;
    for (const std::string& host : hosts)
      for (const std::string& end : ends) longer.push_back(host + end);
    hosts = std::move(longer);
  };
  bool is_empty = true;
  while (!reader.is_at_end() && reader.next() != ',') {
    is_empty = false;
    if (reader.take('['))
      append_each(read_brackets(reader));
    else if (reader.next() == ']' || reader.next() == ' ' || reader.next() == '\t')
      reader.refuse(fmt::format("'{}' does not belong there", reader.next()));
    else
      append_each({std::string(reader.take_until("[], \t"))});
  }
  if (is_empty) reader.refuse("a host is missing");
  return hosts;
}

/// A name with a number in it that a list may count: before it, its digits, and after it.
struct Numbered {
  std::string_view before;
  std::string_view digits;
  std::string_view after;

  [[nodiscard]] bool is_padded() const noexcept { return digits.size() > 1 && digits.front() == '0'; }
};

std::optional<Numbered> numbered(std::string_view host) {
  const std::size_t last = host.find_last_of(kDigits);
  if (last == std::string_view::npos) return std::nullopt;
  std::size_t first = last;
  while (first > 0 && is_digit(host[first - 1])) --first;
  if (last - first + 1 > kMostDigits) return std::nullopt;
  return Numbered{host.substr(0, first), host.substr(first, last - first + 1), host.substr(last + 1)};
}

/// Whether one list in brackets reads as both, the second directly after the first.
bool follows(const Numbered& one, const Numbered& next) noexcept {
  const bool is_alike = one.digits.size() == next.digits.size() || (!one.is_padded() && !next.is_padded());
  return is_alike && value_of(next.digits) == value_of(one.digits) + 1;
}

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text, std::string_view source) {
  Reader reader(text, source);
  std::vector<std::string> hosts;
  do {
    std::vector<std::string> some = read_item(reader);
    limit(reader, hosts.size() + some.size());
    std::ranges::move(some, std::back_inserter(hosts));
  } while (reader.take(','));
  return hosts;
}

std::string compress_hostlist(std::span<const std::string> hosts) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size();) {
    text += text.empty() ? "" : ",";
    const std::optional<Numbered> head = numbered(hosts[i]);
    std::vector<Numbered> row;
    if (head) row.push_back(*head);
    while (head && i + row.size() < hosts.size()) {
      const std::optional<Numbered> next = numbered(hosts[i + row.size()]);
      if (!next || next->before != head->before || next->after != head->after) break;
      row.push_back(*next);
    }
    if (row.size() < 2) {
      text += hosts[i++];
      continue;
    }
    text += fmt::format("{}[", head->before);
    for (std::size_t first = 0; first < row.size();) {
      std::size_t last = first;
      while (last + 1 < row.size() && follows(row[last], row[last + 1])) ++last;
      text += fmt::format("{}{}", first == 0 ? "" : ",", row[first].digits);
      if (last != first) text += fmt::format("-{}", row[last].digits);
      first = last + 1;
    }
    text += fmt::format("]{}", head->after);
    i += row.size();
  }
  return text;
}

std::vector<std::size_t> expand_counts(std::string_view text, std::string_view source) {
  Reader reader(text, source);
  std::vector<std::size_t> counts;
  do {
    const std::size_t count = value_of(reader.take_digits());
    std::size_t times = 1;
    if (reader.take('(')) {
      reader.expect('x');
      times = value_of(reader.take_digits());
      reader.expect(')');
    }
    limit(reader, counts.size() + times);
    counts.insert(counts.end(), times, count);
  } while (reader.take(','));
  if (!reader.is_at_end()) reader.refuse(fmt::format("'{}' does not belong there", reader.next()));
  return counts;
}

}  // namespace cohort
