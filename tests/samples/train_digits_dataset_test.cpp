// SPDX-License-Identifier: Apache-2.0
#include <cohort/samples/train_digits/dataset.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace cohort::samples::train_digits_dataset_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::filesystem::path digits_file() { return COHORT_TEST_SOURCE_DIR "/samples/data/digits.csv"; }

const Dataset& digits() {
  static const Dataset data = load_digits(digits_file());
  return data;
}

/// A file of the test's own, gone afterwards.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& content)
      : path_(std::filesystem::path(testing::TempDir()) / ("digits-" + std::to_string(getpid()) + ".csv")) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~ScratchFile() { std::filesystem::remove(path_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string refusal(const std::filesystem::path& file) {
  try {
    static_cast<void>(load_digits(file));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::size_t> count_by_label(const Dataset& data) {
  std::vector<std::size_t> counts(kDigitClasses);
  for (const uint8_t label : data.labels) {
    ++counts[label];
  }
  return counts;
}

/// An image as a key, to recognise it in another data set.
std::vector<float> key(const Dataset& data, std::size_t index) {
  const std::span<const float> image = data.image(index);
  std::vector<float> values(image.begin(), image.end());
  values.push_back(data.labels[index]);
  return values;
}

using Census = std::map<std::vector<float>, int>;

void count_into(Census& census, const Dataset& data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    ++census[key(data, i)];
  }
}

TEST(TrainDigitsDataset, shipped_file_holds_the_1797_published_images) {
  ASSERT_EQ(digits().size(), kDigitsRows);
  ASSERT_EQ(digits().pixels.size(), kDigitsRows * kImagePixels);
  EXPECT_EQ(count_by_label(digits()),
            (std::vector<std::size_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  const auto [darkest, lightest] = std::minmax_element(digits().pixels.begin(), digits().pixels.end());
  EXPECT_EQ(*darkest, 0.0f);
  EXPECT_EQ(*lightest, 1.0f);
  const std::vector<float> first_row{0, 0, 5 / 16.0f, 13 / 16.0f, 9 / 16.0f, 1 / 16.0f, 0, 0};
  EXPECT_TRUE(std::equal(first_row.begin(), first_row.end(), digits().image(0).begin()));
}

TEST(TrainDigitsDataset, damaged_file_is_refused_naming_line_field_and_value) {
  std::ifstream input(digits_file(), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(input)), {});
  const std::size_t second = good.find('\n') + 1;
  const std::size_t third = good.find('\n', second) + 1;
  const auto with_second_line = [&](const std::string& line) {
    return good.substr(0, second) + line + "\n" + good.substr(third);
  };
  const std::string line = good.substr(second, third - second - 1);
  const std::string from_second_field = line.substr(line.find(','));
  const std::string but_label = line.substr(0, line.rfind(','));

  struct Case {
    std::string content;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {"", ": ends after 0 of 1797 images"},
      {good.substr(0, second), ": ends after 1 of 1797 images"},
      {good.substr(0, second + 2), ":2: field 2 is '', expected an integer from 0 to 16"},
      {good.substr(0, second + 1), ":2: ends after 1 of 65 fields"},
      {good + good.substr(0, second), ":1798: more than 1797 images"},
      {with_second_line(""), ":2: field 1 is ''"},
      {with_second_line("x" + from_second_field), ":2: field 1 is 'x', expected an integer from 0 to 16"},
      {with_second_line("17" + from_second_field), ":2: field 1 is '17', expected an integer from 0 to 16"},
      {with_second_line("-1" + from_second_field), ":2: field 1 is '-1'"},
      {with_second_line("1.5" + from_second_field), ":2: field 1 is '1.5'"},
      {with_second_line(" 1" + from_second_field), ":2: field 1 is ' 1'"},
      {with_second_line("99999999999999999999" + from_second_field), ":2: field 1 is '9999999999999999...'"},
      {with_second_line(but_label), ":2: ends after 64 of 65 fields"},
      {with_second_line(but_label + ",10"), ":2: field 65 is '10', expected an integer from 0 to 9"},
      {with_second_line(line + ",1"), ":2: goes on with '1' after 65 fields"},
      {"\177ELF\1", ":1: field 1 is '?ELF?'"},
      {std::string(2'000'000, '0'), ": is 2000000 bytes, expected at most 1048576"},
  };
  ASSERT_EQ(refusal(ScratchFile(good).path()), "accepted");
  for (const Case& damaged : cases) {
    const ScratchFile file(damaged.content);
    EXPECT_THAT(refusal(file.path()), AllOf(HasSubstr(file.path().string()), HasSubstr(damaged.expected)));
  }
}

TEST(TrainDigitsDataset, missing_file_and_folder_are_refused_with_the_reason) {
  EXPECT_THAT(refusal("/nonexistent/digits.csv"),
              HasSubstr("/nonexistent/digits.csv: cannot read the digits: No such file"));
  EXPECT_THAT(refusal(testing::TempDir()), HasSubstr("cannot read the digits"));
}

TEST(TrainDigitsDataset, split_holds_out_the_same_share_of_each_digit_and_loses_no_image) {
  const Split split = split_dataset(digits(), 5, 1);
  EXPECT_EQ(split.held_out.size(), 360u);
  EXPECT_EQ(split.train.size(), 1437u);
  const std::vector<std::size_t> all = count_by_label(digits());
  const std::vector<std::size_t> held_out = count_by_label(split.held_out);
  for (std::size_t digit = 0; digit < kDigitClasses; ++digit) {
    EXPECT_NEAR(static_cast<double>(held_out[digit]), static_cast<double>(all[digit]) / 5, 1.0)
        << "digit " << digit;
  }
  Census before;
  Census after;
  count_into(before, digits());
  count_into(after, split.train);
  count_into(after, split.held_out);
  EXPECT_EQ(before, after);
}

TEST(TrainDigitsDataset, split_depends_on_the_seed_alone) {
  EXPECT_EQ(split_dataset(digits(), 5, 7).held_out.pixels, split_dataset(digits(), 5, 7).held_out.pixels);
  EXPECT_NE(split_dataset(digits(), 5, 7).held_out.pixels, split_dataset(digits(), 5, 8).held_out.pixels);
  EXPECT_THROW(static_cast<void>(split_dataset(digits(), 1, 7)), std::invalid_argument);
}

TEST(TrainDigitsDataset, shards_of_any_number_of_ranks_make_up_the_same_global_batch) {
  BatchSchedule alone(digits(), {.batch_size = 50, .seed = 3});
  ASSERT_EQ(alone.batches_per_epoch(), 36u);
  for (const int ranks : {1, 2, 3, 4, 7, 8, 60}) {
    for (const std::size_t index : {std::size_t{0}, std::size_t{20}, std::size_t{35}}) {
      const Batch whole = alone.batch(1, index);
      ASSERT_EQ(whole.shard.size(), index == 35 ? 47u : 50u);
      std::size_t images = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        BatchSchedule schedule(digits(), {.batch_size = 50, .seed = 3, .rank = rank, .ranks = ranks});
        const Batch& batch = schedule.batch(1, index);
        EXPECT_EQ(batch.global_size, whole.shard.size());
        for (std::size_t i = 0; i < batch.shard.size(); ++i, ++images) {
          const std::size_t in_whole = static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(ranks);
          EXPECT_EQ(key(batch.shard, i), key(whole.shard, in_whole)) << "rank " << rank << " of " << ranks;
        }
      }
      EXPECT_EQ(images, whole.shard.size()) << ranks << " ranks";
    }
  }
}

TEST(TrainDigitsDataset, each_epoch_shows_every_image_once_in_an_order_of_its_own) {
  BatchSchedule schedule(digits(), {.batch_size = 128, .seed = 1});
  Census expected;
  count_into(expected, digits());
  std::vector<std::vector<float>> beginnings;
  for (const std::size_t epoch : {0u, 1u, 2u}) {
    Census seen;
    for (std::size_t index = 0; index < schedule.batches_per_epoch(); ++index) {
      count_into(seen, schedule.batch(epoch, index).shard);
    }
    EXPECT_EQ(seen, expected) << "epoch " << epoch;
    beginnings.push_back(schedule.batch(epoch, 0).shard.pixels);
  }
  EXPECT_NE(beginnings[0], beginnings[1]);
  EXPECT_NE(beginnings[1], beginnings[2]);
  EXPECT_EQ(schedule.batch(1, 0).shard.pixels, beginnings[1]) << "an epoch asked for again must be the same";
}

TEST(TrainDigitsDataset, impossible_schedules_are_refused) {
  using Options = BatchSchedule::Options;
  EXPECT_THROW(BatchSchedule(digits(), Options{.batch_size = 0}), std::invalid_argument);
  EXPECT_THROW(BatchSchedule(digits(), Options{.rank = 2, .ranks = 2}), std::invalid_argument);
  EXPECT_THROW(BatchSchedule(digits(), Options{.rank = -1, .ranks = 2}), std::invalid_argument);
  EXPECT_THROW(BatchSchedule(digits(), Options{.rank = 0, .ranks = 0}), std::invalid_argument);
  BatchSchedule schedule(digits(), {});
  EXPECT_THROW(static_cast<void>(schedule.batch(0, schedule.batches_per_epoch())), std::out_of_range);
}

}  // namespace
}  // namespace cohort::samples::train_digits_dataset_test
