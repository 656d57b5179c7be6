// W3C Trace Context (https://www.w3.org/TR/trace-context/): the trace that a request belongs to.
#pragma once

#include <string>

namespace tandem::server {

struct TraceContext {
  std::string trace_id;   // 32 hexadecimal digits; empty: the request belongs to no trace
  std::string parent_id;  // 16: the caller's span; empty: the trace begins here
  std::string span_id;    // 16, random: what the server does for the request
  std::string flags;      // 2

  explicit operator bool() const { return !trace_id.empty(); }
  // Whether its spans are to be kept, by the flags.
  bool sampled() const;
  // For a line of the log, with a blank in front; empty without a trace.
  std::string text() const;
  // The value of the answer's header `traceresponse`.
  std::string response() const;
};

// Of the header `traceparent`; null, malformed or forbidden values are no trace.
TraceContext trace_of(const std::string* traceparent);

// 16 hexadecimal digits, not all of them 0.
std::string random_span_id();

// Which requests have spans that are kept, where spans are kept at all.
struct TraceSampler {
  bool on = false;           // otherwise a request without a trace gets none
  bool parent_based = true;  // a caller that has decided is followed
  double ratio = 1;          // of the others, by their trace's id

  // Of a request with that header (null: none).
  TraceContext begin(const std::string* traceparent) const;
};

}  // namespace tandem::server
