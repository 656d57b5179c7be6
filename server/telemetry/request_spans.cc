#include "server/telemetry/request_spans.h"

#include <algorithm>
#include <utility>

#include "base/log/log_text.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

constexpr size_t kLongestValue = 200;  // of what a client chose

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

std::string bounded(std::string_view text) {
  return escape_controls(text.substr(0, kLongestValue));
}

// vLLM's names.
Attributes attributes_of_prompt(const PromptEnd& prompt) {
  const Metrics::Ended& e = prompt.ended;
  Attributes out = {{"gen_ai.response.model", prompt.model},
                    {"gen_ai.request.id", bounded(prompt.id)},
                    {"gen_ai.usage.prompt_tokens", int64_t{e.prompt_tokens}},
                    {"gen_ai.usage.completion_tokens", int64_t{e.output_tokens}}};
  if (e.sequences > 0) {
    out.emplace_back("gen_ai.request.n", int64_t{e.sequences});
    out.emplace_back("gen_ai.usage.num_sequences", int64_t{e.sequences});
  }
  if (e.max_tokens > 0) out.emplace_back("gen_ai.request.max_tokens", e.max_tokens);
  if (const proto::GenerationOptions* o = prompt.options; o != nullptr) {
    if (o->has_temperature()) out.emplace_back("gen_ai.request.temperature", o->temperature());
    if (o->has_top_p()) out.emplace_back("gen_ai.request.top_p", o->top_p());
  }
  out.emplace_back("gen_ai.response.finish_reasons", std::vector<std::string>{e.reason});
  out.emplace_back("gen_ai.latency.time_in_queue", e.queue);
  if (e.first_token >= 0) {
    out.emplace_back("gen_ai.latency.time_to_first_token", e.first_token);
    out.emplace_back("gen_ai.latency.time_in_model_prefill",
                     std::max(e.first_token - e.queue, 0.0));
    out.emplace_back("gen_ai.latency.time_in_model_decode", std::max(e.total - e.first_token, 0.0));
  }
  out.emplace_back("gen_ai.latency.time_in_model_inference", std::max(e.total - e.queue, 0.0));
  out.emplace_back("gen_ai.latency.e2e", e.total);
  if (e.preemptions > 0) out.emplace_back("tandem.preemptions", int64_t{e.preemptions});
  return out;
}

}  // namespace

Span span_of_http(const HttpRequest& request, const HttpAnswer& answer, int64_t now) {
  const TraceContext& trace = request.trace;
  Span span{.trace_id = trace.trace_id,
            .span_id = trace.span_id,
            .parent_id = trace.parent_id,
            .name = bounded(request.method) + " " + std::string(answer.route),
            .kind = Span::Kind::kServer,
            .begin = now - nanoseconds(answer.seconds),
            .end = now};
  span.attributes = {{"http.request.method", bounded(request.method)},
                     {"http.route", std::string(answer.route)},
                     {"url.path", bounded(request.path)},
                     {"url.scheme", std::string(request.secure ? "https" : "http")},
                     {"client.address", request.remote},
                     {"http.response.status_code", int64_t{answer.status}},
                     {"http.response.body.size", static_cast<int64_t>(answer.bytes)},
                     {"tandem.request_id", request.id}};
  if (const std::string* agent = request.header("user-agent"))
    span.attributes.emplace_back("user_agent.original", bounded(*agent));
  if (!answer.complete) span.attributes.emplace_back("tandem.client_gone", true);
  if (answer.status >= 400)
    span.attributes.emplace_back("error.type", std::to_string(answer.status));
  span.failed = answer.status >= 500;
  return span;
}

std::vector<Span> spans_of_prompt(const TraceContext& trace, const PromptEnd& prompt, int64_t now) {
  const Metrics::Ended& e = prompt.ended;
  Span whole{.trace_id = trace.trace_id,
             .span_id = random_span_id(),
             .parent_id = trace.span_id,
             .name = "llm_request",
             .begin = now - nanoseconds(e.total),
             .end = now,
             .attributes = attributes_of_prompt(prompt)};
  if (e.reason != "stop" && e.reason != "length") {
    whole.attributes.emplace_back("error.type", e.reason);
    whole.failed = e.reason != "abort" && status_of(e.reason) >= 500;
  }
  std::vector<Span> out = {whole};
  const auto stage = [&](const char* name, double from, double to) {
    from = std::clamp(from, 0.0, e.total);
    to = std::clamp(to, from, e.total);
    out.push_back({.trace_id = trace.trace_id,
                   .span_id = random_span_id(),
                   .parent_id = whole.span_id,
                   .name = name,
                   .begin = whole.begin + nanoseconds(from),
                   .end = whole.begin + nanoseconds(to)});
  };
  if (e.queue > 0) stage("queue", 0, e.queue);
  if (e.first_token >= 0) {
    stage("prefill", e.queue, e.first_token);
    stage("decode", e.first_token, e.total);
  } else if (e.queue > 0 && !whole.failed && prompt.options == nullptr) {
    stage("encode", e.queue, e.total);  // all there is to an embedding
  }
  return out;
}

}  // namespace tandem::server
