#include "base/profile/trace_json.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/json.h"

namespace tandem {
namespace {

constexpr size_t kPiece = size_t{1} << 20;

// With its quotes; bytes that are not UTF-8 are replaced.
std::string json_text(const std::string& text) { return dump_line(text); }

// Microseconds with all digits of the nanoseconds: spans nest as they did.
std::string microseconds(int64_t nanoseconds) {
  const int64_t n = std::max<int64_t>(0, nanoseconds);
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03d", static_cast<long long>(n / 1000),
                static_cast<int>(n % 1000));
  return text;
}

// Writes a list of objects, in pieces.
class EventWriter {
 public:
  EventWriter(const std::function<void(std::string_view)>& write, int64_t base)
      : write_(write), base_(base) {}
  ~EventWriter() = default;
  EventWriter(const EventWriter&) = delete;

  void raw(std::string_view text) { text_ += text; }
  void flush() {
    write_(text_);
    text_.clear();
  }

  // Of a process (thread < 0) or a thread; `value` is JSON.
  void metadata(const char* name, int process, int thread, const char* key,
                const std::string& value) {
    begin();
    text_ += "{\"ph\":\"M\",\"name\":\"";
    text_ += name;
    place(process, std::max(0, thread));
    text_ += ",\"args\":{\"";
    text_ += key;
    text_ += "\":" + value + "}}";
  }

  void span(const SpanEvent& event, int process, int thread) {
    const SpanKind& kind = *event.kind;
    const bool renamed = event.word != nullptr && kind.word == nullptr;
    begin();
    text_ += "{\"ph\":\"X\",\"name\":\"";
    text_ += renamed ? event.word : kind.name;
    text_ += "\",\"cat\":\"";
    text_ += kind.category;
    place(process, thread);
    text_ += ",\"ts\":" + microseconds(event.begin - base_);
    text_ += ",\"dur\":" + microseconds(event.end - event.begin);
    text_ += ",\"args\":{";
    bool first = true;
    const auto key = [&](const char* name) {
      if (!first) text_ += ',';
      first = false;
      text_ += '"';
      text_ += name;
      text_ += "\":";
    };
    for (size_t i = 0; i < kind.numbers.size() && kind.numbers[i] != nullptr; ++i) {
      key(kind.numbers[i]);
      text_ += std::to_string(event.numbers[i]);
    }
    if (event.word != nullptr && !renamed) {
      key(kind.word);
      text_ += '"';
      text_ += event.word;
      text_ += '"';
    }
    text_ += "}}";
    if (text_.size() > kPiece) flush();
  }

 private:
  void begin() {
    text_ += empty_ ? "\n" : ",\n";
    empty_ = false;
  }
  // Behind an open quote.
  void place(int process, int thread) {
    text_ += "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread);
  }

  const std::function<void(std::string_view)>& write_;
  const int64_t base_;
  std::string text_;
  bool empty_ = true;
};

// Viewers want what holds others before them. (Of the same time, the one that ended last was the
// outer one.)
std::vector<uint32_t> viewing_order(std::span<const SpanEvent> events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.rbegin(), order.rend(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return events[a].begin != events[b].begin ? events[a].begin < events[b].begin
                                              : events[a].end > events[b].end;
  });
  return order;
}

void write_group(const ProfileGroup& group, EventWriter& out) {
  const int process = group.number();
  out.metadata("process_name", process, -1, "name", json_text(group.name()));
  out.metadata("process_sort_index", process, -1, "sort_index", std::to_string(process));
  for (int i = 0; i < group.threads(); ++i) {
    const ProfileTrack& track = group.track(i);
    const int thread = i + 1;  // viewers take 0 for an idle processor
    std::string name = track.name();
    const auto events = track.events();
    if (const int64_t dropped = track.dropped(); dropped > 0)
      name += " (" + std::to_string(dropped) + " spans dropped)";
    out.metadata("thread_name", process, thread, "name", json_text(name));
    out.metadata("thread_sort_index", process, thread, "sort_index", std::to_string(i));
    for (const uint32_t at : viewing_order(events)) out.span(events[at], process, thread);
  }
}

}  // namespace

void write_trace(const Profile& profile,
                 const std::vector<std::pair<std::string, std::string>>& notes,
                 const std::function<void(std::string_view)>& write) {
  EventWriter out(write, profile.begun());
  out.raw("{\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":" + std::to_string(profile.begun()) +
          ",\"otherData\":{");
  for (const auto& [name, value] : notes) out.raw(json_text(name) + ":" + json_text(value) + ",");
  out.raw("\"dropped_spans\":\"" + std::to_string(profile.num_dropped()) + "\"},\"traceEvents\":[");
  for (const ProfileGroup* group : profile.groups()) write_group(*group, out);
  out.raw("\n]}\n");
  out.flush();
}

}  // namespace tandem
