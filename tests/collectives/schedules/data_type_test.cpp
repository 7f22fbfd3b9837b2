// SPDX-License-Identifier: Apache-2.0
#include <cohort/collectives/schedules/data_type.h>
#include <gtest/gtest.h>

namespace cohort::data_type_test {
namespace {

static_assert(data_type_of<float>() == DataType::float32 && data_type_of<double>() == DataType::float64);
static_assert(data_type_of<std::int32_t>() == DataType::int32 &&
              data_type_of<std::int64_t>() == DataType::int64);
static_assert(!Element<std::byte> && !Element<bool> && !Element<long double>);

TEST(DataTypeTest, every_type_is_found_by_its_name) {
  for (const DataType type : kDataTypes) EXPECT_EQ(parse_data_type(to_string(type)), type);
  EXPECT_EQ(to_string(DataType::int64), "int64");
  EXPECT_EQ(parse_data_type("float"), std::nullopt);
  EXPECT_EQ(parse_data_type(""), std::nullopt);
}

TEST(DataTypeTest, every_type_is_that_of_its_element) {
  for (const DataType type : kDataTypes) {
    visit_element(type, [&](auto element) {
      EXPECT_EQ(data_type_of<decltype(element)>(), type);
      EXPECT_EQ(size_bytes(type), sizeof(element)) << to_string(type);
    });
  }
  EXPECT_EQ(kDataTypes.size(), kDataTypeCount - 1);
}

TEST(DataTypeTest, damaged_number_still_has_a_name_to_print) {
  EXPECT_EQ(to_string(static_cast<DataType>(200)), "unknown");
}

}  // namespace
}  // namespace cohort::data_type_test
