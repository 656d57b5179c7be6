// A trace file read back, and what has to hold for any.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tandem::test {

struct TraceSpan {
  std::string name, category;
  int64_t begin, end;  // nanoseconds
  nlohmann::json args;
};

struct Trace {
  nlohmann::json notes;                   // "otherData"
  std::map<int64_t, std::string> groups;  // names of processes
  std::map<std::pair<int64_t, int64_t>, std::string> threads;
  std::map<std::pair<int64_t, int64_t>, std::vector<TraceSpan>> spans;  // in the file's order

  // Of the group's first thread.
  const std::vector<TraceSpan>& first(const std::string& group) const {
    static const std::vector<TraceSpan> kNone;
    for (const auto& [number, name] : groups) {
      const auto it = spans.find({number, 1});
      if (name == group) return it == spans.end() ? kNone : it->second;
    }
    return kNone;
  }
};

inline int64_t count_of(const std::vector<TraceSpan>& spans, const std::string& category) {
  return std::count_if(spans.begin(), spans.end(),
                       [&](const TraceSpan& s) { return s.category == category; });
}

// By our own parser. Fails the test where there is no name, or a span of negative time or one that
// overlaps another of its thread without holding it.
inline Trace read_trace(const std::string& text) {
  const nlohmann::json json = parse_json(text, "the trace");
  Trace out;
  out.notes = json.at("otherData");
  const auto nanoseconds = [](const nlohmann::json& microseconds) {
    return static_cast<int64_t>(std::llround(microseconds.get<double>() * 1e3));
  };
  for (const auto& e : json.at("traceEvents")) {
    const std::pair<int64_t, int64_t> place{e.at("pid"), e.at("tid")};
    if (e.at("ph") == "M") {
      if (e["name"] == "process_name") out.groups[place.first] = e["args"]["name"];
      if (e["name"] == "thread_name") out.threads[place] = e["args"]["name"];
      continue;
    }
    EXPECT_EQ(e.at("ph"), "X");
    const int64_t begin = nanoseconds(e.at("ts")), length = nanoseconds(e.at("dur"));
    EXPECT_GE(begin, 0);
    EXPECT_GE(length, 0);
    out.spans[place].push_back({e.at("name"), e.at("cat"), begin, begin + length, e.at("args")});
  }
  for (const auto& [place, spans] : out.spans) {
    EXPECT_TRUE(out.threads.count(place) == 1 && out.groups.count(place.first) == 1);
    std::vector<int64_t> open;  // ends, the innermost last
    int64_t last = 0;
    for (const TraceSpan& s : spans) {
      EXPECT_GE(s.begin, last) << "viewers want them by their begins";
      last = s.begin;
      while (!open.empty() && open.back() <= s.begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(s.end, open.back()) << s.name << " ends outside of what holds it";
      }
      open.push_back(s.end);
    }
  }
  return out;
}

}  // namespace tandem::test
