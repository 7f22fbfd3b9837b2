// SPDX-License-Identifier: Apache-2.0
#include <cohort/tools/bench/chart.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

namespace cohort::bench {
namespace {

constexpr double kPictureWidth = 620;
constexpr double kPictureHeight = 260;
constexpr double kEdge = 60;
constexpr double kNames = 150;
constexpr double kNameRow = 18;
constexpr std::array<const char*, 8> kInks = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#000000", "#56b4e9", "#8c564b"};

/// Of positive values, onto a length.
struct Scale {
  double least = 1e300;
  double most = 0;

  void add(double value) {
    if (value <= 0) return;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  [[nodiscard]] bool is_empty() const { return most == 0; }
  [[nodiscard]] double at(double value, double length) const {
    return most > least ? std::log(value / least) / std::log(most / least) * length : length / 2;
  }
};

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 4> kUnits = {"", "K", "M", "G"};
  std::size_t unit = 0;
  for (; unit + 1 < kUnits.size() && bytes >= 1024; ++unit) bytes /= 1024;
  return fmt::format("{:g}{}", std::round(bytes * 10) / 10, kUnits[unit]);
}

std::string label(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, words);
}

using ValuesOfCurve = std::function<const std::vector<double>&(const MeasuredCurve&)>;

/// One picture at that height: lines for powers of ten, sizes below, a curve for each operator.
std::string draw_picture(const std::vector<MeasuredCurve>& curves, const ValuesOfCurve& values,
                         const std::string& what, double top) {
  Scale sizes;
  Scale scale;
  for (const MeasuredCurve& curve : curves) {
    for (const double size : curve.bytes) sizes.add(size);
    for (const double value : values(curve)) scale.add(value);
  }
  if (scale.is_empty()) return {};
  const double bottom = top + kPictureHeight;
  std::string svg =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n",
                  kEdge, top, kPictureWidth, kPictureHeight);
  svg += label(kEdge, top - 6, "start", what);
  for (double power = std::pow(10, std::ceil(std::log10(scale.least))); power <= scale.most; power *= 10) {
    const double y = bottom - scale.at(power, kPictureHeight);
    svg += fmt::format("<path d=\"M{} {:.1f}h{}\" stroke=\"#ddd\"/>\n", kEdge, y, kPictureWidth);
    svg += label(kEdge - 4, y + 4, "end", fmt::format("{:g}", power));
  }
  for (double size = sizes.least; size <= sizes.most * 1.001; size *= 8)
    svg += label(kEdge + sizes.at(size, kPictureWidth), bottom + 14, "middle", bytes_text(size));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* const ink = kInks[i % kInks.size()];
    std::string points;
    for (std::size_t j = 0; j < curves[i].bytes.size(); ++j) {
      const double value = values(curves[i])[j];
      if (value <= 0 || curves[i].bytes[j] <= 0) continue;
      const double x = kEdge + sizes.at(curves[i].bytes[j], kPictureWidth);
      const double y = bottom - scale.at(value, kPictureHeight);
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} B: {:.4g}</title></circle>\n",
          x, y, ink, curves[i].bytes[j], value);
    }
    svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", points,
                       ink);
    svg += fmt::format("<g fill=\"{}\">{}</g>\n", ink,
                       label(kEdge + kPictureWidth + 10, top + kNameRow * (static_cast<double>(i) + 1),
                             "start", curves[i].name));
  }
  return svg;
}

}  // namespace

std::string draw_chart(const std::string& title, const std::vector<MeasuredCurve>& curves) {
  const double names = kNameRow * static_cast<double>(curves.size() + 1);
  const double each = std::max(kPictureHeight, names) + kEdge;
  const auto times = [](const MeasuredCurve& curve) -> const std::vector<double>& { return curve.median_us; };
  const auto rates = [](const MeasuredCurve& curve) -> const std::vector<double>& {
    return curve.bus_gb_per_s;
  };
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
             "font-family=\"sans-serif\" "
             "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             kEdge + kPictureWidth + kNames, kEdge + 2 * each) +
         label(kEdge, kEdge / 2 - 6, "start", title) +
         draw_picture(curves, times, "time (us), median", kEdge) +
         draw_picture(curves, rates, "bus bandwidth (GB/s)", kEdge + each) + "</svg>\n";
}

}  // namespace cohort::bench
