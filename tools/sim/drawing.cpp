// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/sim/drawing.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cohort::sim {
namespace {

constexpr double kWidth = 640;
constexpr double kHeight = 320;
constexpr double kMargin = 40;
constexpr double kLeft = 140;    ///< of the names of algorithms
constexpr double kLegend = 200;  ///< of what the curves are
constexpr double kRow = 22;
constexpr std::size_t kMostCells = 64;
// With as many marks as colours less one no two of 42 curves have both in common.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#000000", "#56b4e9"};
constexpr double kMark = 4;
/// Around where they stand, as a path.
constexpr std::array<const char*, 6> kMarks = {"m-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
                                               "m-3.5,-3.5h7v7h-7z",
                                               "m0,-5l4.5,8h-9z",
                                               "m0,-5l5,5l-5,5l-5,-5z",
                                               "m0,5l4.5,-8h-9z",
                                               "m-4,-1h3v-3h2v3h3v2h-3v3h-2v-3h-3z"};

/// A logarithmic axis from the least to the greatest value.
struct Axis {
  double least = 1e300;
  double most = 0;

  void add(double value) {
    if (value <= 0) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] double at(double value, double length) const {
    return most > least ? std::log(std::max(value, least) / least) / std::log(most / least) * length : 0;
  }
};

std::string text(double x, double y, const std::string& words, const char* anchor = "start") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

/// What shows which algorithm it is.
struct Style {
  const char* colour;
  const char* mark;

  explicit Style(std::size_t curve)
      : colour(kColours[curve % kColours.size()]), mark(kMarks[curve % kMarks.size()]) {}
  [[nodiscard]] std::string at(double x, double y) const {
    return fmt::format("<path d=\"M{:.1f},{:.1f}{}\" fill=\"{}\"/>\n", x, y, mark, colour);
  }
};

std::string size_text(std::size_t bytes) {
  constexpr std::array<const char*, 4> kUnits = {"", "K", "M", "G"};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::string time_text(double microseconds) {
  constexpr double kThousand = 1e3;
  constexpr double kMillion = 1e6;
  if (microseconds >= kMillion) return fmt::format("{:g} s", microseconds / kMillion);
  return microseconds >= kThousand ? fmt::format("{:g} ms", microseconds / kThousand)
                                   : fmt::format("{:g} us", microseconds);
}

/// The frame, each size below it, and a line for each power of ten of the time.
std::string draw_frame(const std::vector<std::size_t>& bytes, const Axis& sizes, const Axis& times) {
  std::string svg =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n",
                  kLeft, kMargin, kWidth, kHeight);
  for (const std::size_t size : bytes)
    svg += text(kLeft + sizes.at(static_cast<double>(size), kWidth), kMargin + kHeight + kRow,
                size_text(size), "middle");
  for (int power = static_cast<int>(std::ceil(std::log10(times.least))); std::pow(10, power) <= times.most;
       ++power) {
    const double time = std::pow(10, power);
    const double y = kMargin + kHeight - times.at(time, kHeight);
    svg += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#ddd\"/>\n", kLeft, y, kWidth);
    svg += text(kLeft - 4, y + 4, time_text(time), "end");
  }
  return svg;
}

std::string draw_curves(const std::vector<Curve>& curves) {
  Axis sizes;
  Axis times;
  for (const Curve& curve : curves)
    for (std::size_t i = 0; i < curve.bytes.size(); ++i) {
      sizes.add(static_cast<double>(curve.bytes[i]));
      times.add(curve.predictions[i].microseconds);
    }
  std::string svg = draw_frame(curves.front().bytes, sizes, times);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Style style(i);
    std::string points;
    for (std::size_t j = 0; j < curves[i].bytes.size(); ++j) {
      const double x = kLeft + sizes.at(static_cast<double>(curves[i].bytes[j]), kWidth);
      const double y = kMargin + kHeight - times.at(curves[i].predictions[j].microseconds, kHeight);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      svg += style.at(x, y);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", points, style.colour);
    const double row = kMargin + kRow * (static_cast<double>(i) + 0.5);
    svg += style.at(kLeft + kWidth + kRow, row);
    svg += fmt::format("<g fill=\"{}\">{}</g>", style.colour,
                       text(kLeft + kWidth + 2 * kRow, row + kMark, curves[i].name));
  }
  return svg;
}

/// One row of cells, the busiest first: from white, idle, to red, busy all the time.
std::string draw_heat(const Curve& curve, double y) {
  std::vector<Use> uses = curve.predictions.back().uses;
  std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) { return a.busy > b.busy; });
  uses.resize(std::min(uses.size(), kMostCells));
  std::string svg = text(kLeft - 4, y + kRow / 2, curve.name, "end");
  const double cell = kWidth / kMostCells;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const double picoseconds = curve.predictions.back().microseconds * 1e6;
    const double share =
        picoseconds == 0 ? 0 : std::min(1.0, static_cast<double>(uses[i].busy) / picoseconds);
    const int rest = static_cast<int>(std::lround(255 * (1 - share)));
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"rgb(255,{},{})\">"
        "<title>{}: busy {:.1f}%, {} bytes</title></rect>\n",
        kLeft + cell * static_cast<double>(i), y, cell, kRow - 4, rest, rest, uses[i].name, 100 * share,
        uses[i].bytes);
  }
  return svg;
}

}  // namespace

const Prediction* Curve::at(std::size_t size) const {
  const auto found = std::ranges::find(bytes, size);
  return found == bytes.end() ? nullptr : &predictions[static_cast<std::size_t>(found - bytes.begin())];
}

std::string draw(const std::string& title, const std::vector<Curve>& curves) {
  const double legend = kRow * (static_cast<double>(curves.size()) + 1);
  const double heat = kMargin + std::max(kHeight + 3 * kRow, legend);
  const double height = heat + kRow * static_cast<double>(curves.size() + 1);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLeft + kWidth + kLegend, height);
  svg += text(kLeft, kMargin / 2, title);
  svg += draw_curves(curves);
  svg += text(kLeft, heat - 6,
              "how busy the links were at the largest size, the busiest first: white idle, red always");
  for (std::size_t i = 0; i < curves.size(); ++i)
    svg += draw_heat(curves[i], heat + kRow * static_cast<double>(i));
  return svg + "</svg>\n";
}

}  // namespace cohort::sim
