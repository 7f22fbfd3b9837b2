// SPDX-License-Identifier: Apache-2.0
#include <cohort/engine/system/figure_cache.h>

#include <cohort/engine/io/socket.h>
#include <cohort/engine/system/environment.h>
#include <cohort/engine/system/host.h>
#include <cohort/engine/system/processor.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace cohort {
namespace {

constexpr std::string_view kFirstLine = "cohort figures 1";
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMostKeyBytes = 200;
/// Runnable processes for each core, over the last minute, from which on the host is busy.
constexpr double kBusy = 0.7;

struct Entry {
  std::int64_t seconds = 0;
  std::string key;
  std::vector<double> figures;
};

std::int64_t seconds_of(FigureCache::Moment when) {
  return std::chrono::duration_cast<std::chrono::seconds>(when.time_since_epoch()).count();
}

/// The next word of a line, which loses it.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

template <class Number>
std::optional<Number> number_in(std::string_view word) {
  Number number{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

bool is_key(std::string_view text) {
  return !text.empty() && text.size() <= kMostKeyBytes &&
         std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter <= '~'; });
}

bool are_figures(std::span<const double> figures) {
  const auto is_one = [](double f) { return std::isfinite(f) && f >= 0 && f <= FigureCache::kLargest; };
  return !figures.empty() && figures.size() <= FigureCache::kMostFigures &&
         std::ranges::all_of(figures, is_one);
}

/// Nothing for a line that this does not write.
std::optional<Entry> parse(std::string_view line) {
  const std::optional<std::int64_t> seconds = number_in<std::int64_t>(take_word(line));
  Entry entry{seconds.value_or(0), std::string(take_word(line)), {}};
  for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) {
    const std::optional<double> figure = number_in<double>(word);
    if (!figure || entry.figures.size() == FigureCache::kMostFigures) return std::nullopt;
    entry.figures.push_back(*figure);
  }
  if (!seconds || !is_key(entry.key) || !are_figures(entry.figures)) return std::nullopt;
  return entry;
}

bool is_of_own_user(const struct stat& status) {
  return status.st_uid == host::user_id() && host::tells_users_apart();
}

/// A regular file of this user's that nobody else may write to, of a size that this would write.
bool is_own(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_of_own_user(status) &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 && status.st_size <= static_cast<off_t>(kMostFileBytes);
}

std::string text_of(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would otherwise wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open() || !is_own(file.number())) return {};
  std::string text(kMostFileBytes, '\0');
  std::size_t size = 0;
  for (ssize_t count = 1; count > 0 && size < text.size();
       size += static_cast<std::size_t>(std::max<ssize_t>(count, 0)))
    count = ::pread(file.number(), text.data() + size, text.size() - size, static_cast<off_t>(size));
  text.resize(size);
  return text;
}

std::vector<Entry> entries_of(const std::string& path) {
  const std::string text = text_of(path);
  std::string_view rest = text;
  std::vector<Entry> entries;
  for (bool is_first = true; !rest.empty(); is_first = false) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_first && line != kFirstLine) return {};
    if (is_first) continue;
    if (std::optional<Entry> entry = parse(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

std::string text_of(const std::vector<Entry>& entries) {
  std::string text = fmt::format("{}\n", kFirstLine);
  for (const Entry& entry : entries) {
    text += fmt::format("{} {}", entry.seconds, entry.key);
    for (const double figure : entry.figures) text += fmt::format(" {:.6g}", figure);
    text += '\n';
  }
  return text;
}

bool write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Nothing yet, or a file that this has written, of whatever version, or an empty one. Whatever else a path
/// names stays what it is.
bool may_be_replaced(const std::string& path) {
  constexpr std::string_view kBegin = kFirstLine.substr(0, kFirstLine.rfind(' '));
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISREG(status.st_mode) || !is_of_own_user(status)) return false;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::array<char, kBegin.size()> begin{};
  const ssize_t count = file.is_open() ? ::pread(file.number(), begin.data(), begin.size(), 0) : -1;
  return count == 0 ||
         (count > 0 && std::string_view(begin.data(), static_cast<std::size_t>(count)) == kBegin);
}

/// Readers see the old file or the new one.
void replace(const std::string& path, const std::string& text) {
  if (!may_be_replaced(path)) return;
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && std::filesystem::create_directories(folder, ignored))
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  std::string fresh = path + ".XXXXXX";
  const Descriptor file(::mkostemp(fresh.data(), O_CLOEXEC));
  if (!file.is_open()) return;
  const bool is_there = write_whole(file.number(), text) && std::rename(fresh.c_str(), path.c_str()) == 0;
  if (!is_there) ::unlink(fresh.c_str());
}

bool is_host_busy() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 && load > kBusy * processor::available_cores();
}

std::string default_path() {
  const std::string of_caches = environment::text("XDG_CACHE_HOME").value_or("");
  if (of_caches.starts_with('/')) return of_caches + "/cohort/figures";
  const std::string home = environment::text("HOME").value_or("");
  return home.starts_with('/') ? home + "/.cache/cohort/figures" : "";
}

}  // namespace

FigureCache FigureCache::from_environment() {
  const std::string path = environment::text("COHORT_CACHE").value_or("off");
  const bool refreshes = environment::number("COHORT_CACHE_REFRESH", 0, 1).value_or(0) != 0;
  if (path == "off") return {};
  return FigureCache(path == "on" ? default_path() : path, refreshes);
}

std::vector<double> FigureCache::find(std::string_view key, std::chrono::hours most_age) const {
  if (!is_on() || refreshes_) return {};
  const std::int64_t now = seconds_of(std::chrono::system_clock::now());
  for (Entry& entry : entries_of(path_)) {
    if (entry.key != key) continue;
    const bool is_fresh =
        entry.seconds <= now && entry.seconds >= now - std::chrono::seconds(most_age).count();
    return is_fresh ? std::move(entry.figures) : std::vector<double>();
  }
  return {};
}

void FigureCache::keep(std::string_view key, std::span<const double> figures) const {
  if (is_on() && !is_host_busy()) keep_from(std::chrono::system_clock::now(), key, figures);
}

void FigureCache::keep_from(Moment when, std::string_view key, std::span<const double> figures) const {
  if (!is_on() || !is_key(key) || !are_figures(figures)) return;
  std::vector<Entry> entries = entries_of(path_);
  std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; });
  entries.push_back({seconds_of(when), std::string(key), {figures.begin(), figures.end()}});
  std::ranges::stable_sort(entries, std::greater<>(), &Entry::seconds);
  if (entries.size() > kMostKeys) entries.resize(kMostKeys);
  replace(path_, text_of(entries));
}

}  // namespace cohort
