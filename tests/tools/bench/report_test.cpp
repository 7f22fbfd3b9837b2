// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/report.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace cohort::bench::report_test {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

Options options_of(Format format, Rank ranks = 4) {
  Options options;
  options.format = format;
  options.ranks = ranks;
  options.sizes_bytes = {8};
  return options;
}

Result result_of(Operator op, std::size_t bytes, Rank ranks) {
  Result result;
  result.point = {op, bytes};
  result.shape = shape_of(op, bytes, 4, ranks);
  result.algorithm = "ring";
  result.min_us = 1;
  result.median_us = 2;
  result.p99_us = 3.456;
  result.iterations = 100;
  return result;
}

TEST(Report, csv_is_what_the_comparison_with_other_libraries_reads) {
  const Options options = options_of(Format::csv);
  Report report(options, "shm");
  EXPECT_EQ(report.begin(operator_of<AllReduce>),
            "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters\n");
  // The size that was asked for, also where blocks of whole elements make it another.
  EXPECT_EQ(report.row(result_of(operator_of<AllGather>, 1001, 4)),
            "cohort,shm,all_gather,4,1001,1.000,2.000,3.456,100\n");
  EXPECT_EQ(report.begin(operator_of<Barrier>), "");
  EXPECT_EQ(report.row(result_of(operator_of<Barrier>, 0, 4)),
            "cohort,shm,barrier,4,0,1.000,2.000,3.456,100\n");
  EXPECT_EQ(report.end(), "");
}

TEST(Report, csv_names_what_is_not_the_usual_way) {
  Options options = options_of(Format::csv);
  options.is_shared = true;
  EXPECT_EQ(Report(options, "shm").label(), "shm-shared");
  options.is_in_process = true;
  EXPECT_EQ(Report(options, "tcp").label(), "tcp-threads-shared");
}

TEST(Report, csv_says_where_the_cores_were_if_asked) {
  Options options = options_of(Format::csv);
  options.near_wait = std::chrono::milliseconds(0);
  Report report(options, "shm");
  EXPECT_EQ(
      report.begin(operator_of<Barrier>),
      "peer,transport,collective,ranks,bytes,min_us,median_us,p99_us,iters,rtt_before_ns,rtt_after_ns\n");
  Result result = result_of(operator_of<Barrier>, 0, 4);
  result.round_trip_before_ns = 130.4;
  result.round_trip_after_ns = 480.6;
  EXPECT_EQ(report.row(result), "cohort,shm,barrier,4,0,1.000,2.000,3.456,100,130,481\n");
}

TEST(Report, a_wrong_result_is_no_csv_row) {
  const Options options = options_of(Format::csv);
  Report report(options, "shm");
  Result result = result_of(operator_of<AllReduce>, 8, 4);
  result.wrong = 2;
  EXPECT_EQ(report.row(result), "");
  EXPECT_EQ(report.total_wrong(), 2U);
}

TEST(Report, table_has_the_columns_of_nccl_tests) {
  const Options options = options_of(Format::table);
  Report report(options, "tcp");
  EXPECT_THAT(report.begin(operator_of<AllReduce>), HasSubstr("all_reduce: 4 processes over tcp"));
  EXPECT_THAT(
      words_of(report.row(result_of(operator_of<AllReduce>, 8000, 4))),
      ::testing::ElementsAre("8000", "2000", "float32", "sum", "-1", "2.00", "4.00", "6.00", "0", "ring"));
  Result wrong = result_of(operator_of<AllReduce>, 4000, 4);
  wrong.wrong = 5;
  EXPECT_THAT(words_of(report.row(wrong)), ::testing::ElementsAre("4000", "1000", "float32", "sum", "-1",
                                                                  "2.00", "2.00", "3.00", "5", "ring"));
  const std::string end = report.end();
  EXPECT_THAT(end, HasSubstr("5 FAILED"));
  EXPECT_THAT(end, HasSubstr("4.5000 GB/s"));
}

TEST(Report, what_an_operator_has_not_is_none) {
  Options options = options_of(Format::table);
  options.root = 3;
  options.checks_results = false;
  Report report(options, "shm");
  EXPECT_THAT(words_of(report.row(result_of(operator_of<Barrier>, 0, 4))),
              ::testing::ElementsAre("0", "0", "none", "none", "-1", "2.00", "0.00", "0.00", "N/A", "ring"));
  EXPECT_THAT(
      words_of(report.row(result_of(operator_of<Broadcast>, 8, 4))),
      ::testing::ElementsAre("8", "2", "float32", "none", "3", "2.00", "0.00", "0.00", "N/A", "ring"));
  // As nccl-tests: the count of one rank's block, the size of the whole.
  EXPECT_THAT(
      words_of(report.row(result_of(operator_of<ReduceScatter>, 8000, 4))),
      ::testing::ElementsAre("8000", "500", "float32", "sum", "-1", "2.00", "4.00", "3.00", "N/A", "ring"));
}

TEST(Report, json_is_an_object_a_line) {
  const Options options = options_of(Format::json);
  Report report(options, "shm");
  EXPECT_EQ(report.begin(operator_of<AllReduce>) + report.end(), "");
  const std::string row = report.row(result_of(operator_of<AllReduce>, 8000, 4));
  EXPECT_EQ(row.find('\n'), row.size() - 1);
  const auto json = nlohmann::json::parse(row);
  EXPECT_EQ(json["collective"], "all_reduce");
  EXPECT_EQ(json["algorithm"], "ring");
  EXPECT_EQ(json["median_us"], 2.0);
  EXPECT_EQ(json["busbw_gb_per_s"], 6.0);
  EXPECT_EQ(json["wrong"], 0);
}

TEST(BusFactor, is_that_of_nccl_tests) {
  EXPECT_EQ(operator_of<AllReduce>->bus_factor(4), 1.5);
  EXPECT_EQ(operator_of<AllGather>->bus_factor(4), 0.75);
  EXPECT_EQ(operator_of<ReduceScatter>->bus_factor(4), 0.75);
  EXPECT_EQ(operator_of<Broadcast>->bus_factor(4), 1);
  EXPECT_EQ(operator_of<Barrier>->bus_factor(4), 0);
}

TEST(Summarise, takes_minimum_median_and_99th_percentile) {
  std::vector<double> samples;
  for (int i = 1000; i > 0; --i) samples.push_back(i);
  Result result;
  summarise(samples, result);
  EXPECT_EQ(result.min_us, 1);
  EXPECT_EQ(result.median_us, 501);
  EXPECT_EQ(result.p99_us, 991);
  EXPECT_EQ(result.iterations, 1000U);
  double one[] = {7};
  summarise(one, result);
  EXPECT_EQ(result.min_us, 7);
  EXPECT_EQ(result.median_us, 7);
  EXPECT_EQ(result.p99_us, 7);
}

TEST(Shape, is_whole_elements_and_at_least_one_for_each_rank) {
  EXPECT_EQ(shape_of(operator_of<AllReduce>, 10, 4, 3).size_bytes, 8U);
  EXPECT_EQ(shape_of(operator_of<AllReduce>, 1, 8, 3).in, 1U);
  const Shape gather = shape_of(operator_of<AllGather>, 4096, 4, 3);
  EXPECT_EQ(gather.in, 341U);
  EXPECT_EQ(gather.out, 1023U);
  EXPECT_EQ(gather.size_bytes, 4092U);
  const Shape scatter = shape_of(operator_of<ReduceScatter>, 8, 4, 3);
  EXPECT_EQ(scatter.in, 3U);
  EXPECT_EQ(scatter.out, 1U);
}

TEST(Sizes, go_from_the_smallest_to_the_largest_and_no_further) {
  EXPECT_EQ(sizes_between(8, 64, 2), (std::vector<std::size_t>{8, 16, 32, 64}));
  EXPECT_EQ(sizes_between(8, 100, 4), (std::vector<std::size_t>{8, 32}));
  EXPECT_EQ(sizes_between(8, 8, 2), (std::vector<std::size_t>{8}));
  EXPECT_EQ(sizes_between(16, 8, 2), (std::vector<std::size_t>{}));
  constexpr std::size_t kLargest = ~std::size_t{0};
  EXPECT_EQ(sizes_between(kLargest / 2, kLargest, 3), (std::vector<std::size_t>{kLargest / 2}));
}

}  // namespace
}  // namespace cohort::bench::report_test
