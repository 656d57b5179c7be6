#include "launcher/bench/plot.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace tandem::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRequests = 4000;  // that are drawn one by one
constexpr size_t kQuantiles = 200;      // points of a distribution

using Points = std::vector<std::pair<double, double>>;

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
  for (const std::string end : {".vl.json", ".html"})
    if (file.size() > end.size() && file.compare(file.size() - end.size(), end.size(), end) == 0)
      return file.substr(0, file.size() - end.size());
  return file;
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

std::string plot_page(const Json& specification, const std::string& title) {
  std::string json = json_text(specification);
  for (size_t at = 0; (at = json.find('<', at)) != json.npos;) json.replace(at, 1, "\\u003c");
  std::string escaped;
  for (const char c : title) {
    if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c == '&' ? std::string("&amp;") : std::string(1, c);
    }
  }
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" +
                     escaped + "</title>\n";
  for (const char* library : {"vega@5", "vega-lite@5", "vega-embed@6"})
    page += std::string("<script src=\"https://cdn.jsdelivr.net/npm/") + library + "\"></script>\n";
  return page + "<div id=\"plot\"></div>\n<script>vegaEmbed(\"#plot\", " + json +
         ")</script>\n</html>\n";
}

}  // namespace tandem::bench
