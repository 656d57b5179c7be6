// W3C Trace Context (https://www.w3.org/TR/trace-context/): the trace that a request belongs to.
#pragma once

#include <string>

namespace tandem::server {

struct TraceContext {
  std::string trace_id;   // 32 hexadecimal digits; empty: the request belongs to no trace
  std::string parent_id;  // 16: the caller's span
  std::string span_id;    // 16, random: what the server does for the request
  std::string flags;      // 2

  explicit operator bool() const { return !trace_id.empty(); }
  // For a line of the log, with a blank in front; empty without a trace.
  std::string text() const;
  // The value of the answer's header `traceresponse`.
  std::string response() const;
};

// Of the header `traceparent`; null, malformed or forbidden values are no trace.
TraceContext trace_of(const std::string* traceparent);

}  // namespace tandem::server
