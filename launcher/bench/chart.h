// Charts as SVG: axes with round numbers, series on top.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

// Round numbers from 0: their step is 1, 2 or 5 times a power of ten, or 25 for percent.
struct Ticks {
  double step = 1;
  int count = 1;  // steps; the axis ends with the last
  double end() const { return step * count; }
  // As many decimals as the step has; thousands apart.
  std::string label(int i) const;
};
// Up to `most` or just above, in about `steps` steps.
Ticks nice_ticks(double most, int steps);

// For text and attributes.
std::string xml_escaped(const std::string& text);

struct Axis {
  std::string title;  // with the unit
  Ticks ticks;
};

using Points = std::vector<std::pair<double, double>>;

// One chart in a picture; coordinates are the axes'.
class Chart {
 public:
  // The area of the data in the picture, in pixels; titles and labels are outside.
  struct Area {
    double left, top, width, height;
  };
  Chart(const std::string& title, Area area, Axis x, Axis y);

  // style: a CSS class.
  void add_line(const Points& points, const std::string& style);
  void add_dots(const Points& points, const std::string& style);
  // Horizontal bars from one x to another, of a height in pixels.
  struct Bar {
    double from, to, y;
  };
  void add_bars(const std::vector<Bar>& bars, const std::string& style, double height);
  // Above the right corner, from the right to the left.
  void add_legend(const std::string& text, const std::string& style);

  std::string svg() const { return "<g>" + svg_ + "</g>\n"; }

 private:
  double pixel_x(double x) const { return area_.left + x / x_.ticks.end() * area_.width; }
  double pixel_y(double y) const {
    return area_.top + area_.height - y / y_.ticks.end() * area_.height;
  }
  void add_text(double x, double y, const std::string& attributes, const std::string& text);

  Area area_;
  Axis x_, y_;
  double legend_end_;
  std::string svg_;
};

// A whole picture of these charts.
std::string svg_picture(double width, double height, const std::string& title,
                        const std::string& note, const std::vector<Chart>& charts);

}  // namespace tandem::bench
