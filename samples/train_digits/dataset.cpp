// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/dataset.h>

#include <cohort/samples/train_digits/random.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace cohort::samples {
namespace {

constexpr int kInk = 16;                               // the largest pixel value in the file
constexpr std::uintmax_t kMaxFileBytes = 1024 * 1024;  // digits.csv has 264,712

/// What an error message can show of a foreign field: short and printable.
std::string shown(std::string_view field) {
  constexpr std::size_t kShown = 16;
  std::string text(field.substr(0, kShown));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return field.size() > kShown ? text + "..." : text;
}

/// Walks the comma-separated integers of one line.
class LineReader {
 public:
  LineReader(const std::filesystem::path& file, std::size_t line, std::string_view text)
      : file_(file), line_(line), rest_(text) {}

  int next(int largest) {
    if (!rest_) {
      fail(fmt::format("ends after {} of {} fields", field_, kImagePixels + 1));
    }
    ++field_;
    const std::size_t comma = rest_->find(',');
    const std::string_view field = rest_->substr(0, comma);
    rest_ = comma == std::string_view::npos ? std::nullopt : std::optional(rest_->substr(comma + 1));

    int value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    const bool is_number = error == std::errc() && end == field.data() + field.size();
    if (!is_number || value < 0 || value > largest) {
      fail(fmt::format("field {} is '{}', expected an integer from 0 to {}", field_, shown(field), largest));
    }
    return value;
  }

  void expect_end() const {
    if (rest_) {
      fail(fmt::format("goes on with '{}' after {} fields", shown(*rest_), field_));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(fmt::format("{}:{}: {}", file_.string(), line_, what));
  }

  const std::filesystem::path& file_;
  const std::size_t line_;
  std::optional<std::string_view> rest_;  // nothing after the last field
  std::size_t field_ = 0;
};

std::ifstream open_checked(const std::filesystem::path& file) {
  std::error_code error;
  const std::uintmax_t size_bytes = std::filesystem::file_size(file, error);
  if (error) {
    throw std::runtime_error(fmt::format("{}: cannot read the digits: {}", file.string(), error.message()));
  }
  // A line is read whole, so a file of another kind must not decide how much memory that takes.
  if (size_bytes > kMaxFileBytes) {
    throw std::runtime_error(fmt::format("{}: is {} bytes, expected at most {}: not the digits file",
                                         file.string(), size_bytes, kMaxFileBytes));
  }
  std::ifstream input(file, std::ios::binary);
  if (!input) {
    throw std::runtime_error(fmt::format("{}: cannot open the digits file", file.string()));
  }
  return input;
}

}  // namespace

std::span<const float> Dataset::image(std::size_t index) const {
  return std::span(pixels).subspan(index * kImagePixels, kImagePixels);
}

void Dataset::append(std::span<const float> image, uint8_t label) {
  pixels.insert(pixels.end(), image.begin(), image.end());
  labels.push_back(label);
}

std::filesystem::path find_digits(const std::vector<std::filesystem::path>& places) {
  std::string tried;
  for (const std::filesystem::path& place : places) {
    std::error_code failure;
    if (std::filesystem::exists(place, failure)) return place;
    tried += (tried.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw std::runtime_error(
      fmt::format("the digits are in none of {}: give their file with --data PATH", tried));
}

Dataset load_digits(const std::filesystem::path& file) {
  std::ifstream input = open_checked(file);
  Dataset data;
  data.pixels.reserve(kDigitsRows * kImagePixels);
  data.labels.reserve(kDigitsRows);

  std::string line;
  while (std::getline(input, line)) {
    if (data.size() == kDigitsRows) {
      throw std::runtime_error(
          fmt::format("{}:{}: more than {} images", file.string(), kDigitsRows + 1, kDigitsRows));
    }
    LineReader reader(file, data.size() + 1, line);
    for (std::size_t pixel = 0; pixel < kImagePixels; ++pixel) {
      data.pixels.push_back(static_cast<float>(reader.next(kInk)) / kInk);
    }
    data.labels.push_back(static_cast<uint8_t>(reader.next(kDigitClasses - 1)));
    reader.expect_end();
  }
  if (input.bad() || data.size() != kDigitsRows) {
    throw std::runtime_error(
        fmt::format("{}: ends after {} of {} images", file.string(), data.size(), kDigitsRows));
  }
  return data;
}

Split split_dataset(const Dataset& data, std::size_t one_in, uint64_t seed) {
  if (one_in < 2) {
    throw std::invalid_argument(
        fmt::format("split_dataset: holding out one in {} leaves nothing to train on", one_in));
  }
  std::vector<uint32_t> order(data.size());
  std::iota(order.begin(), order.end(), 0u);
  Random(seed).shuffle(order);
  // Random within a digit, digit after digit: every n-th is then the same share of each digit.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return data.labels[a] < data.labels[b]; });
  Split split;
  for (std::size_t i = 0; i < order.size(); ++i) {
    Dataset& side = i % one_in == 0 ? split.held_out : split.train;
    side.append(data.image(order[i]), data.labels[order[i]]);
  }
  return split;
}

BatchSchedule::BatchSchedule(const Dataset& data, Options options)
    : data_(data), options_(options), order_(data.size()) {
  if (options.batch_size == 0) {
    throw std::invalid_argument("BatchSchedule: a batch of 0 images");
  }
  if (options.rank < 0 || options.rank >= options.ranks) {
    throw std::invalid_argument(
        fmt::format("BatchSchedule: rank {} of {} ranks", options.rank, options.ranks));
  }
  start_epoch(0);
}

std::size_t BatchSchedule::batches_per_epoch() const noexcept {
  return (data_.size() + options_.batch_size - 1) / options_.batch_size;
}

const Batch& BatchSchedule::batch(std::size_t epoch, std::size_t index) {
  if (index >= batches_per_epoch()) {
    throw std::out_of_range(fmt::format("BatchSchedule: batch {} of {}", index, batches_per_epoch()));
  }
  if (epoch != epoch_) {
    start_epoch(epoch);
  }
  const std::size_t first = index * options_.batch_size;
  const std::size_t last = std::min(first + options_.batch_size, data_.size());
  batch_.shard.pixels.clear();
  batch_.shard.labels.clear();
  batch_.global_size = last - first;
  for (std::size_t i = first + static_cast<std::size_t>(options_.rank); i < last;
       i += static_cast<std::size_t>(options_.ranks)) {
    batch_.shard.append(data_.image(order_[i]), data_.labels[order_[i]]);
  }
  return batch_;
}

void BatchSchedule::start_epoch(std::size_t epoch) {
  // From the identity each time, so that the order depends on the epoch asked for and not on those before it.
  std::iota(order_.begin(), order_.end(), 0u);
  Random mixed(options_.seed);
  Random(mixed.next() ^ epoch).shuffle(order_);
  epoch_ = epoch;
}

}  // namespace cohort::samples
