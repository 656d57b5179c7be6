#include "server/http/trace_context.h"

#include <algorithm>
#include <string_view>

#include "server/http/url.h"

namespace tandem::server {
namespace {

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

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
  return {std::string(trace), std::string(parent), random_id().substr(0, 16), std::string(flags)};
}

std::string TraceContext::text() const {
  return trace_id.empty() ? "" : " trace=" + trace_id + " span=" + span_id + " parent=" + parent_id;
}

std::string TraceContext::response() const {
  return "00-" + trace_id + "-" + span_id + "-" + flags;
}

}  // namespace tandem::server
