#include "server/api/engine_job.h"

#include <atomic>

#include "base/log/log.h"
#include "base/log/log_text.h"
#include "base/seconds_since.h"
#include "server/http/errors.h"
#include "server/telemetry/request_spans.h"
#include "server/telemetry/unix_time.h"

namespace tandem::server {
namespace {

// Of one HTTP request, whose documents may have thousands.
constexpr size_t kMostTracedPrompts = 100;

}  // namespace

void EngineJob::start(std::vector<EngineApi::Request> requests) {
  const int limit = app_.config.max_requests;
  if (requests.size() > static_cast<size_t>(limit))  // never, however often it is tried
    throw invalid_request(list_field(), std::to_string(requests.size()) +
                                            " at once; the server takes at most " +
                                            std::to_string(limit) + " (--max-requests)");
  if (!app_.enter(static_cast<int>(requests.size()))) {
    app_.metrics.request_refused("http_prompts");
    return exchange_->respond(too_many_requests(limit, app_.engine.status().info.until_next_end()));
  }
  exchange_->on_gone([self = shared_from_this()] { self->cancel(); });
  // The client chooses the id, and may choose one twice.
  static std::atomic<uint64_t> serial{0};
  const std::string unique = id_ + "-" + std::to_string(serial++);
  const std::string place = exchange_->take_place();
  submissions_.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const bool placed = i == 0 && !place.empty();
    submissions_[i].id = placed ? place : unique + "-" + std::to_string(i);
    requests[i].id = submissions_[i].id;
    if (i > 0) requests[i].batch = submissions_[0].id;
    app_.engine.submit(
        std::move(requests[i]), [self = shared_from_this(), i](proto::RequestChunk chunk) {
          self->exchange_->post([self, i, c = std::move(chunk)] { self->receive(i, c); });
        });
  }
}

void EngineJob::receive(size_t request, const proto::RequestChunk& chunk) {
  Submission& part = submissions_[request];
  if (part.done) return;
  current_ = request;
  on_chunk(request, chunk);
  if (!chunk.finished() && !chunk.has_error()) return;
  part.done = true;
  app_.leave(1);
  ++num_done_;
  if (ended_) return;
  if (chunk.has_error()) {
    ended_ = true;
    log_fault(chunk.error());
    fail(renamed(request, chunk.error()));
    cancel();
  } else if (num_done_ == submissions_.size()) {
    ended_ = true;
    finish();
  }
}

void EngineJob::count_end(const proto::RequestChunk& chunk, int prompt_tokens) {
  Metrics::Ended end;
  end.reason = chunk.has_error() ? chunk.error().type() : "stop";
  end.total = seconds_since(exchange_->begun());
  end.queue = chunk.metrics().queue_time();
  end.prompt_tokens = prompt_tokens;
  report(end, nullptr);
}

void EngineJob::report(const Metrics::Ended& ended, const proto::GenerationOptions* options) {
  app_.metrics.request_ended(ended);
  const TraceContext& trace = exchange_->request().trace;
  if (app_.spans == nullptr || !trace.sampled() || current_ >= kMostTracedPrompts) return;
  app_.spans->add(spans_of_prompt(
      trace, {submissions_[current_].id, app_.config.model_names.front(), ended, options},
      unix_nanoseconds()));
}

proto::Error EngineJob::renamed(size_t request, const proto::Error& error) const {
  proto::Error out = error;
  const std::string field = field_of(request, error.param());
  out.set_param(field);
  FieldNames names;  // this field's come first: its names may be one for each request
  if (!error.param().empty()) names.add(error.param(), field);
  names.add(names_);
  out.set_message(names.in(error.message()));
  return out;
}

// What is still under way; the engine answers each with an error, which ends its part.
void EngineJob::cancel() {
  ended_ = true;
  for (const Submission& part : submissions_)
    if (!part.done) app_.engine.cancel(part.id);
}

// Errors of the server are for whoever runs it, too.
void EngineJob::log_fault(const proto::Error& error) const {
  if (status_of(error.type()) != 500) return;
  const HttpRequest& request = exchange_->request();
  log_error("{} {}: {} id={}{}", request.method, escape_field(request.path),
            escape_controls(error.message()), request.id, request.trace.text());
}

void EngineJob::fail(const proto::Error& error) { exchange_->respond(error_response(error)); }

}  // namespace tandem::server
