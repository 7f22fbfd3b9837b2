// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/control_message.h>

#include <cohort/net/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace cohort {

void ControlMessage::set_text(std::string_view value) noexcept {
  const std::string_view fitting = value.substr(0, text.size() - 1);
  std::ranges::copy(fitting, text.begin());
  text[fitting.size()] = '\0';
}

std::string ControlMessage::text_for_people() const {
  std::string result(text.data(), strnlen(text.data(), text.size()));
  for (char& letter : result)
    if (letter < ' ' || letter > '~') letter = '?';
  return result;
}

ControlMessage ControlMessage::revoke(const Error& cause, Rank teller) noexcept {
  ControlMessage message;
  message.type = Type::revoke;
  message.kind = static_cast<std::uint8_t>(cause.kind());
  message.culprit = cause.culprit().value_or(kNobody);
  message.sequence = cause.sequence().value_or(0);
  message.is_of_bytes = cause.is_of_bytes() ? 1 : 0;
  try {
    const std::string rest = fmt::format("cut here: the rest is in what rank {} printed", teller);
    message.set_text(shortened(cause.message(), message.text.size() - 1, rest));
  } catch (const std::bad_alloc&) {
    message.set_text(cause.message());
  }
  return message;
}

Error ControlMessage::cause() const {
  const auto last = static_cast<std::uint8_t>(ErrorKind::Internal);
  const auto error_kind = kind <= last ? static_cast<ErrorKind>(kind) : ErrorKind::Revoked;
  Error error = Error(error_kind, text_for_people()).with_sequence(sequence);
  if (is_of_bytes != 0) error = error.with_bytes();
  return culprit == kNobody ? error : error.with_culprit(culprit);
}

}  // namespace cohort
