// SPDX-License-Identifier: Apache-2.0
#include <cohort/net/join/pmi/pmi1_client.h>

#include <cohort/engine/error.h>
#include <cohort/engine/system/environment.h>

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <sstream>

namespace cohort {
namespace {

constexpr auto kLastDescriptor = static_cast<std::uint64_t>(std::numeric_limits<int>::max());

std::map<std::string, std::string, std::less<>> words_of(const std::string& line) {
  std::map<std::string, std::string, std::less<>> words;
  std::istringstream stream(line);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

std::string value_of(const std::map<std::string, std::string, std::less<>>& words, std::string_view key) {
  const auto found = words.find(key);
  return found == words.end() ? std::string() : found->second;
}

std::size_t number_of(const std::string& text) {
  std::size_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::optional<LineChannel> Pmi1Client::channel(Duration patience) {
  if (const auto inherited = environment::number("PMI_FD", 0, kLastDescriptor)) {
    LineChannel channel(static_cast<int>(*inherited));
    if (channel.is_connection()) return channel;
    return std::nullopt;  // of a launcher of one that started this process, which closed it
  }
  const auto port = environment::text("PMI_PORT");
  const auto id = environment::text("PMI_ID");
  if (!port || !id) return std::nullopt;
  LineChannel channel(Address::parse(*port), patience);
  channel.send(fmt::format("cmd=initack pmiid={}", *id), patience);
  const std::string answer = channel.receive(patience);
  if (value_of(words_of(answer), "cmd") != "initack")
    throw Error(ErrorKind::ProtocolError,
                fmt::format("the launcher at PMI_PORT={} answered '{}'", *port, answer));
  // Size, rank and debug follow, each as a line "cmd=set".
  for (int i = 0; i < 3; ++i) (void)channel.receive(patience);
  return channel;
}

Pmi1Client::Pmi1Client(LineChannel channel, Duration patience)
    : channel_(std::move(channel)), patience_(patience) {
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  const Words limits = ask("cmd=get_maxes", "maxes");
  longest_value_ = number_of(value_of(limits, "vallen_max"));
  space_ = value_of(ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
}

/// Lock-step: an answer for each request, before the next one.
Pmi1Client::Words Pmi1Client::ask(std::string_view request, std::string_view answer) {
  channel_.send(request, patience_);
  const std::string line = channel_.receive(patience_);
  Words words = words_of(line);
  const std::string rc = value_of(words, "rc");
  if (value_of(words, "cmd") != answer || (!rc.empty() && rc != "0"))
    throw Error(ErrorKind::ProtocolError, fmt::format("the launcher answered '{}' to '{}' (PMI-1)", line,
                                                      request.substr(0, request.find(" value="))));
  return words;
}

void Pmi1Client::put(std::string_view key, std::string_view value) {
  if (value.size() >= longest_value_)
    throw Error(ErrorKind::Unsupported,
                fmt::format("the launcher takes values of {} characters, and {} are needed (PMI-1)",
                            longest_value_, value.size()));
  ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result");
}

std::string Pmi1Client::get(std::string_view key) {
  return value_of(ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result"), "value");
}

void Pmi1Client::barrier() { ask("cmd=barrier_in", "barrier_out"); }

void Pmi1Client::finalize() { ask("cmd=finalize", "finalize_ack"); }

}  // namespace cohort
