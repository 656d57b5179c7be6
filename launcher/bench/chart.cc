#include "launcher/bench/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tandem::bench {
namespace {

// The series' colours are told apart by those who see no red or green, too.
constexpr char kStyle[] =
    "text{fill:#333}.title{font-size:17px;font-weight:600;fill:#111}.name{font-weight:600;fill:"
    "#111;font-size:13px}.grid{stroke:#e4e4e4;fill:none}.axis{stroke:#888;fill:none}"
    ".line{fill:none;stroke:#0072b2;stroke-width:1.6}"
    ".e2el{stroke:#0072b2;stroke-width:5;stroke-linecap:round;fill:none;stroke-opacity:.75}"
    ".ttft{stroke:#e69f00;stroke-width:5;stroke-linecap:round;fill:none;stroke-opacity:.85}"
    ".failed{stroke:#c0392b;stroke-width:5;stroke-linecap:round;fill:none}"
    ".wait{stroke:#c8c8c8;fill:none}.run{stroke:#0072b2;fill:none}.bad{stroke:#c0392b;fill:none}";

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string pixels(double value) { return format("%.1f", value); }

}  // namespace

std::string Ticks::label(int i) const {
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, step * i);
  std::string out = text;
  const size_t point = std::min(out.find('.'), out.size());
  for (size_t at = point; at > 3; at -= 3) out.insert(at - 3, ",");
  return out;
}

Ticks nice_ticks(double most, int steps) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  const double rough = most / steps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  Ticks ticks;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    ticks.step = factor * power;
    if (ticks.step >= rough * (1 - 1e-9)) break;
  }
  ticks.count = std::max(1, static_cast<int>(std::ceil(most / ticks.step - 1e-9)));
  return ticks;
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '\'')
      out += "&#39;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

Chart::Chart(const std::string& title, Area area, Axis x, Axis y)
    : area_(area), x_(std::move(x)), y_(std::move(y)), legend_end_(area.left + area.width) {
  const double bottom = area_.top + area_.height, right = area_.left + area_.width;
  for (int i = 0; i <= y_.ticks.count; ++i) {
    const double at = pixel_y(y_.ticks.step * i);
    svg_ += "<path d='M" + pixels(area_.left) + " " + pixels(at) + "H" + pixels(right) +
            "' class='grid'/>";
    add_text(area_.left - 6, at + 4, "text-anchor='end'", y_.ticks.label(i));
  }
  for (int i = 0; i <= x_.ticks.count; ++i) {
    const double at = pixel_x(x_.ticks.step * i);
    svg_ += "<path d='M" + pixels(at) + " " + pixels(bottom) + "v5' class='axis'/>";
    add_text(at, bottom + 18, "text-anchor='middle'", x_.ticks.label(i));
  }
  svg_ += "<path d='M" + pixels(area_.left) + " " + pixels(area_.top) + "V" + pixels(bottom) + "H" +
          pixels(right) + "' class='axis'/>";
  add_text(area_.left, area_.top - 12, "class='name'", title);
  add_text(area_.left + area_.width / 2, bottom + 36, "text-anchor='middle'", x_.title);
  const double side = area_.left - 52, middle = area_.top + area_.height / 2;
  add_text(
      side, middle,
      "text-anchor='middle' transform='rotate(-90 " + pixels(side) + " " + pixels(middle) + ")'",
      y_.title);
}

void Chart::add_text(double x, double y, const std::string& attributes, const std::string& text) {
  svg_ += "<text x='" + pixels(x) + "' y='" + pixels(y) + "' " + attributes + ">" +
          xml_escaped(text) + "</text>";
}

void Chart::add_line(const Points& points, const std::string& style) {
  std::string path;
  for (const auto& [x, y] : points)
    path += (path.empty() ? "M" : "L") + pixels(pixel_x(x)) + " " + pixels(pixel_y(y));
  svg_ += "<path d='" + path + "' class='" + style + "'/>";
}

void Chart::add_dots(const Points& points, const std::string& style) {
  std::string path;
  for (const auto& [x, y] : points)
    path += "M" + pixels(pixel_x(x)) + " " + pixels(pixel_y(y)) + "h0";
  svg_ += "<path d='" + path + "' class='" + style + "'/>";
}

void Chart::add_bars(const std::vector<Bar>& bars, const std::string& style, double height) {
  std::string path;
  for (const Bar& bar : bars)
    path += "M" + pixels(pixel_x(bar.from)) + " " + format("%.2f", pixel_y(bar.y)) + "h" +
            pixels(std::max(0.3, pixel_x(bar.to) - pixel_x(bar.from)));
  svg_ += "<path d='" + path + "' class='" + style + "' stroke-width='" + format("%.2f", height) +
          "'/>";
}

void Chart::add_legend(const std::string& text, const std::string& style) {
  // The width of the text is not known, but is about that.
  const double begin = legend_end_ - 6.2 * static_cast<double>(text.size());
  add_text(begin, area_.top - 12, "", text);
  svg_ += "<path d='M" + pixels(begin - 18) + " " + pixels(area_.top - 16) + "h12' class='" +
          style + "' stroke-width='6'/>";
  legend_end_ = begin - 36;
}

std::string svg_picture(double width, double height, const std::string& title,
                        const std::string& note, const std::vector<Chart>& charts) {
  const std::string size = format("%g", width) + " " + format("%g", height);
  std::string svg = "<svg xmlns='http://www.w3.org/2000/svg' width='" + format("%g", width) +
                    "' height='" + format("%g", height) + "' viewBox='0 0 " + size +
                    "' font-family='system-ui, sans-serif' font-size='12'>\n<style>" + kStyle +
                    "</style>\n<rect width='100%' height='100%' fill='#fff'/>\n"
                    "<text x='24' y='32' class='title'>" +
                    xml_escaped(title) + "</text>\n<text x='24' y='52'>" + xml_escaped(note) +
                    "</text>\n";
  for (const Chart& chart : charts) svg += chart.svg();
  return svg + "</svg>\n";
}

}  // namespace tandem::bench
