#include "server/http/trace_context.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "server/http/url.h"

namespace tandem::server {
namespace {

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

// By the last 56 bits of a trace's id, which are random: so all services choose the same traces.
bool is_chosen(const std::string& trace_id, double ratio) {
  const uint64_t random = std::stoull(trace_id.substr(trace_id.size() - 14), nullptr, 16);
  return static_cast<double>(random) >= std::ldexp(1 - ratio, 56);
}

}  // namespace

TraceContext trace_of(const std::string* traceparent) {
  // version-trace-parent-flags; later versions may go on behind a dash.
  constexpr size_t kSize = 2 + 1 + 32 + 1 + 16 + 1 + 2;
  if (traceparent == nullptr || traceparent->size() < kSize) return {};
  const std::string_view all = *traceparent;
  const std::string_view version = all.substr(0, 2), trace = all.substr(3, 32),
                         parent = all.substr(36, 16), flags = all.substr(53, 2);
  const bool dashes = all[2] == '-' && all[35] == '-' && all[52] == '-';
  const bool ends = all.size() == kSize || (version != "00" && all[kSize] == '-');
  if (!dashes || !ends || version == "ff" || !is_hex(version) || !is_hex(trace) ||
      !is_hex(parent) || !is_hex(flags) || is_zero(trace) || is_zero(parent))
    return {};
  return {std::string(trace), std::string(parent), random_span_id(), std::string(flags)};
}

std::string random_span_id() {
  std::string id;
  while (is_zero(id)) id = random_id().substr(0, 16);
  return id;
}

TraceContext TraceSampler::begin(const std::string* traceparent) const {
  TraceContext trace = trace_of(traceparent);
  if (!on || (trace && parent_based)) return trace;
  if (!trace) {
    while (is_zero(trace.trace_id)) trace.trace_id = random_id();
    trace.span_id = random_span_id();
  }
  trace.flags = is_chosen(trace.trace_id, ratio) ? "01" : "00";
  return trace;
}

bool TraceContext::sampled() const {
  return flags.size() == 2 && std::string_view("13579bdf").find(flags[1]) != std::string_view::npos;
}

std::string TraceContext::text() const {
  if (trace_id.empty()) return "";
  const std::string own = " trace=" + trace_id + " span=" + span_id;
  return parent_id.empty() ? own : own + " parent=" + parent_id;
}

std::string TraceContext::response() const {
  return "00-" + trace_id + "-" + span_id + "-" + flags;
}

}  // namespace tandem::server
