#include "launcher/bench/plot.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "launcher/bench/chart.h"

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRequests = 4000;  // that are drawn one by one
constexpr size_t kQuantiles = 200;      // points of a distribution

constexpr char kLatencyTitle[] = "Latency by time of arrival";
constexpr char kArrivalAxis[] = "sent, seconds from the start";
constexpr char kTimelineTitle[] = "Requests over time";
constexpr char kTimeAxis[] = "seconds from the start";
constexpr char kShareAxis[] = "% at or below";

// In the order of sending; of many, evenly chosen ones.
struct Shown {
  std::vector<const BenchRequest*> requests;
  size_t all = 0;
  std::string note() const {
    return requests.size() == all ? std::to_string(all) + " requests"
                                  : std::to_string(requests.size()) + " of " + std::to_string(all) +
                                        " requests are drawn";
  }
};

Shown choose(const std::vector<BenchRequest>& requests) {
  std::vector<const BenchRequest*> order;
  for (const BenchRequest& r : requests) order.push_back(&r);
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->sent < b->sent; });
  Shown shown{{}, order.size()};
  const size_t count = std::min(kMostRequests, order.size());
  for (size_t i = 0; i < count; ++i) shown.requests.push_back(order[i * order.size() / count]);
  return shown;
}

struct Distribution {
  const char* key;
  const char* name;
  std::vector<double> ms;  // sorted
  Points quantiles() const {
    Points out;
    const size_t count = std::min(kQuantiles, ms.size());
    out.emplace_back(ms.front(), 0);
    for (size_t i = 1; i <= count; ++i) {
      const size_t rank = i * ms.size() / count;
      const double share = 100.0 * static_cast<double>(rank) / static_cast<double>(ms.size());
      out.emplace_back(ms[rank - 1], out.back().second);  // a step
      out.emplace_back(ms[rank - 1], share);
    }
    return out;
  }
};

// Those that there are.
std::vector<Distribution> distributions(const std::vector<BenchRequest>& requests) {
  std::vector<Distribution> all{
      {"ttft", "TTFT", {}}, {"tpot", "TPOT", {}}, {"itl", "ITL", {}}, {"e2el", "E2EL", {}}};
  for (const BenchRequest& r : requests) {
    if (r.failed()) continue;
    if (r.first >= 0) all[0].ms.push_back(r.ttft() * 1e3);
    if (r.has_tpot()) all[1].ms.push_back(r.tpot() * 1e3);
    for (const double gap : r.gaps) all[2].ms.push_back(gap * 1e3);
    all[3].ms.push_back(r.e2el() * 1e3);
  }
  std::vector<Distribution> out;
  for (Distribution& d : all) {
    if (d.ms.empty()) continue;
    std::sort(d.ms.begin(), d.ms.end());
    out.push_back(std::move(d));
  }
  return out;
}

std::string rounded(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 10 ? "%.1f" : "%.0f", ms);
  return text;
}

Chart latency_chart(const Shown& shown, double end, double top) {
  Points ttft, e2el, failed;
  double most = 0;
  for (const BenchRequest* r : shown.requests) {
    if (r->failed()) {
      failed.emplace_back(r->sent, 0);
      continue;
    }
    if (r->first >= 0) ttft.emplace_back(r->sent, r->ttft() * 1e3);
    e2el.emplace_back(r->sent, r->e2el() * 1e3);
    most = std::max(most, e2el.back().second);
  }
  Chart chart(kLatencyTitle, {90, top, 860, 220}, {kArrivalAxis, nice_ticks(end, 10)},
              {"milliseconds", nice_ticks(most, 7)});
  chart.add_dots(e2el, "e2el");
  chart.add_dots(ttft, "ttft");
  chart.add_dots(failed, "failed");
  chart.add_legend("until the last token (E2EL)", "e2el");
  if (!ttft.empty()) chart.add_legend("until the first (TTFT)", "ttft");
  if (!failed.empty()) chart.add_legend("failed", "failed");
  return chart;
}

Chart timeline_chart(const Shown& shown, double end, double top, double height) {
  std::vector<Chart::Bar> waiting, running, failed;
  double y = 0;
  const double step = static_cast<double>(shown.all) / static_cast<double>(shown.requests.size());
  for (const BenchRequest* r : shown.requests) {
    y += step;
    const double middle = y - step / 2;
    if (r->failed()) {
      failed.push_back({r->sent, r->last, middle});
    } else if (r->first < 0) {
      waiting.push_back({r->sent, r->last, middle});
    } else {
      waiting.push_back({r->sent, r->first, middle});
      running.push_back({r->first, r->last, middle});
    }
  }
  Axis requests{"requests, as they were sent", nice_ticks(static_cast<double>(shown.all), 5)};
  if (requests.ticks.step < 1) requests.ticks = {1, static_cast<int>(shown.all)};
  const double row = height / requests.ticks.end() * step;
  Chart chart(kTimelineTitle, {90, top, 860, height}, {kTimeAxis, nice_ticks(end, 10)},
              std::move(requests));
  const double thickness = std::clamp(row * 0.8, 0.4, 10.0);
  chart.add_bars(waiting, "wait", thickness);
  chart.add_bars(running, "run", thickness);
  chart.add_bars(failed, "bad", thickness);
  chart.add_legend("from the first token to the last", "run");
  chart.add_legend("until the first token", "wait");
  if (!failed.empty()) chart.add_legend("failed", "bad");
  return chart;
}

Json axis(const std::string& field, const std::string& title) {
  return {{"field", field}, {"type", "quantitative"}, {"title", title}};
}

Json rows_of(const Shown& shown) {
  Json rows = Json::array();
  for (const BenchRequest* r : shown.requests) {
    Json row = {{"request", rows.size() + 1}, {"sent", r->sent}, {"last", r->last}};
    row["state"] = r->failed() ? "failed: " + r->failure : "answered";
    if (!r->failed()) {
      if (r->first >= 0) {
        row["first"] = r->first;
        row["TTFT"] = r->ttft() * 1e3;
      }
      if (r->has_tpot()) row["TPOT"] = r->tpot() * 1e3;
      row["E2EL"] = r->e2el() * 1e3;
      row["output_tokens"] = r->output_tokens;
    } else {
      row["message"] = r->message;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json latency_view() {
  return {
      {"title", kLatencyTitle},
      {"width", 800},
      {"height", 220},
      {"transform",
       {{{"fold", {"E2EL", "TTFT"}}, {"as", {"figure", "ms"}}}, {{"filter", "isValid(datum.ms)"}}}},
      {"mark", {{"type", "point"}, {"filled", true}, {"size", 16}, {"tooltip", true}}},
      {"encoding",
       {{"x", axis("sent", kArrivalAxis)},
        {"y", axis("ms", "milliseconds")},
        {"color", {{"field", "figure"}, {"type", "nominal"}, {"title", nullptr}}}}}};
}

Json timeline_layer(const char* from, const char* to, const char* filter, const char* color,
                    size_t rows) {
  const double thickness = std::clamp(240.0 / static_cast<double>(rows + 1), 0.5, 10.0);
  return {{"transform", {{{"filter", filter}}}},
          {"mark",
           {{"type", "rule"},
            {"color", color},
            {"strokeWidth", thickness},
            {"tooltip", {{"content", "data"}}}}},
          {"encoding",
           {{"x", axis(from, kTimeAxis)},
            {"x2", {{"field", to}}},
            {"y", axis("request", "requests, as they were sent")}}}};
}

Json timeline_view(size_t rows) {
  const char* const streamed = "isValid(datum.first)";
  return {{"title", kTimelineTitle},
          {"width", 800},
          {"height", 300},
          {"layer",
           {timeline_layer("sent", "first", streamed, "#c8c8c8", rows),
            timeline_layer("first", "last", streamed, "#0072b2", rows),
            timeline_layer("sent", "last", "!isValid(datum.first) && datum.state == 'answered'",
                           "#c8c8c8", rows),
            timeline_layer("sent", "last", "datum.state != 'answered'", "#c0392b", rows)}}};
}

}  // namespace

std::string plot_base(const std::string& file) {
  for (const std::string end : {".vl.json", ".svg"})
    if (file.size() > end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0)
      return file.substr(0, file.size() - end.size());
  return file;
}

std::string plot_svg(const std::vector<BenchRequest>& requests, const std::string& title) {
  const Shown shown = choose(requests);
  if (shown.requests.empty()) return svg_picture(980, 80, title, "no requests", {});
  double last_sent = 0, end = 0;
  for (const BenchRequest& r : requests) {
    last_sent = std::max(last_sent, r.sent);
    end = std::max(end, r.last);
  }
  // Requests that were sent all at once would stand on the axis, however short it is.
  const double arrivals = std::max(last_sent, end / 10);
  const double height = std::clamp(12.0 * static_cast<double>(shown.requests.size()), 80.0, 380.0);
  std::vector<Chart> charts{latency_chart(shown, arrivals, 100),
                            timeline_chart(shown, end, 420, height)};
  const double top = 520 + height;
  const auto all = distributions(requests);
  for (size_t i = 0; i < all.size(); ++i) {
    const Distribution& d = all[i];
    Chart chart(std::string(d.name) + ": p50 " + rounded(percentile(d.ms, 50)) + ", p99 " +
                    rounded(percentile(d.ms, 99)),
                {90 + 235 * static_cast<double>(i), top, 155, 130},
                {"milliseconds", nice_ticks(d.ms.back(), 3)}, {kShareAxis, {25, 4}});
    chart.add_line(d.quantiles(), "line");
    charts.push_back(std::move(chart));
  }
  return svg_picture(980, top + (all.empty() ? 0 : 190), title, shown.note(), charts);
}

Json plot_specification(const std::vector<BenchRequest>& requests, const std::string& title) {
  const Shown shown = choose(requests);
  Json curves = Json::array();
  for (const Distribution& d : distributions(requests)) {
    Json values = Json::array();
    for (const auto& [ms, share] : d.quantiles()) values.push_back({{"ms", ms}, {"share", share}});
    curves.push_back({{"title", d.name},
                      {"width", 150},
                      {"height", 130},
                      {"data", {{"values", std::move(values)}}},
                      {"mark", "line"},
                      {"encoding",
                       {{"x", axis("ms", "milliseconds")},
                        {"y", axis("share", kShareAxis)},
                        {"order", {{"field", "share"}, {"type", "quantitative"}}}}}});
  }
  return {
      {"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
      {"title", {{"text", title}, {"subtitle", shown.note()}}},
      {"data", {{"values", rows_of(shown)}}},
      {"vconcat", {latency_view(), timeline_view(shown.requests.size()), {{"hconcat", curves}}}}};
}

}  // namespace tandem::bench
