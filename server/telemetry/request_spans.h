// Spans of requests: one for the HTTP request, below it one for each prompt with vLLM's attributes,
// and below that one for each stage whose time is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "server/http/http.h"
#include "server/metrics/metrics.h"
#include "server/telemetry/span.h"

namespace tandem::server {

// An answer that has been sent, or given up.
struct HttpAnswer {
  std::string_view route;  // as the table of routes has it
  int status = 0;
  size_t bytes = 0;
  double seconds = 0;
  bool complete = true;
};
// now: when it ended, in nanoseconds since 1970.
Span span_of_http(const HttpRequest& request, const HttpAnswer& answer, int64_t now);

struct PromptEnd {
  std::string id;     // the engine's
  std::string model;  // the name that answers have
  Metrics::Ended ended;
  const proto::GenerationOptions* options = nullptr;  // null: it generates nothing
};
// trace: of the HTTP request, whose span is the parent.
std::vector<Span> spans_of_prompt(const TraceContext& trace, const PromptEnd& prompt, int64_t now);

}  // namespace tandem::server
