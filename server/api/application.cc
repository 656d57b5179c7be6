#include "server/api/application.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log/log.h"
#include "base/log/log_fields.h"
#include "base/log/log_text.h"
#include "base/strings/nearest_name.h"
#include "server/api/api_key.h"
#include "server/api/cors.h"
#include "server/api/deepl/deepl.h"
#include "server/api/huggingface/huggingface.h"
#include "server/api/libretranslate/libretranslate.h"
#include "server/api/routes.h"
#include "server/api/unread_place.h"
#include "server/http/errors.h"
#include "server/telemetry/request_spans.h"
#include "server/telemetry/unix_time.h"

namespace tandem::server {
namespace {

// Adds what every answer of the server has.
class Decorated final : public Exchange {
 public:
  Decorated(std::shared_ptr<Exchange> inner, const ServerConfig& config)
      : inner_(std::move(inner)), config_(config) {}
  const HttpRequest& request() const override { return inner_->request(); }
  std::string take_body() override { return inner_->take_body(); }
  std::chrono::steady_clock::time_point begun() const override { return begun_; }
  std::string take_place() override { return place ? place->take() : std::string(); }
  void respond(HttpResponse response) override {
    as_deepl_error(request(), response);
    as_libretranslate_error(request(), response);
    as_huggingface_error(request(), response);
    allow_origin(config_, request(), response);
    inner_->respond(std::move(response));
  }
  void start_stream(HttpResponse head) override {
    allow_origin(config_, request(), head);
    inner_->start_stream(std::move(head));
  }
  void start_socket(HttpResponse head, OnMessage on_message) override {
    inner_->start_socket(std::move(head), std::move(on_message));
  }
  void hold(bool held) override { inner_->hold(held); }
  void end_socket(uint16_t code, std::string reason) override {
    inner_->end_socket(code, std::move(reason));
  }
  void write(std::string data) override { inner_->write(std::move(data)); }
  void end() override { inner_->end(); }
  void on_gone(std::function<void()> callback) override { inner_->on_gone(std::move(callback)); }
  void on_ending(std::function<void()> callback) override {
    inner_->on_ending(std::move(callback));
  }
  void post(std::function<void()> f) override { inner_->post(std::move(f)); }

  std::shared_ptr<UnreadPlace> place;  // null: it is read at once

 private:
  std::shared_ptr<Exchange> inner_;
  const ServerConfig& config_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

// Whether the body is a file, or a form with one.
bool takes_file(const Route& route, const HttpRequest& request, const AppContext& context) {
  if (route.kind != Route::Kind::kMayHear) return route.has_form();
  const std::string* type = request.header("content-type");
  const bool json = type != nullptr && type->find("json") != type->npos;
  return !json && !context.speech_tasks.empty();
}

bool is_get(const std::string& method) { return method == "GET" || method == "HEAD"; }

// The access log's line, as fields.
nlohmann::ordered_json log_fields(const HttpRequest& request, int status, size_t bytes,
                                  double seconds, bool complete) {
  nlohmann::ordered_json fields = {{"remote", request.remote},
                                   {"method", escape_controls(request.method)},
                                   {"path", escape_controls(request.path.substr(0, 200))},
                                   {"status", status},
                                   {"complete", complete},
                                   {"bytes", bytes},
                                   {"milliseconds", std::round(seconds * 1e4) / 10},
                                   {"request_id", request.id}};
  if (request.trace) {
    fields["trace_id"] = request.trace.trace_id;
    fields["span_id"] = request.trace.span_id;
    if (!request.trace.parent_id.empty()) fields["parent_id"] = request.trace.parent_id;
  }
  return fields;
}

std::string no_route(const std::string& path) {
  std::vector<std::string> known;
  for (const Route& r : routes()) known.emplace_back(r.path);
  return "there is no " + path + suggestion(path, known) + "; /docs lists all routes";
}

}  // namespace

// Where the request does not go to a handler. route: what it asks for, as far as there is one.
std::optional<HttpResponse> Application::refusal(const HttpRequest& request,
                                                 const Route*& route) const {
  route = nullptr;
  std::string methods;
  const std::string path = path_of_route(request.path);
  const bool everything = request.path == "*";  // of OPTIONS alone
  if (everything) methods = "GET, HEAD, POST";
  for (const Route& r : routes()) {
    if (!r.matches(path)) continue;
    methods +=
        (methods.empty() ? "" : ", ") + std::string(is_get(r.method) ? "GET, HEAD" : r.method);
    if (request.method == r.method || (is_get(request.method) && is_get(r.method))) route = &r;
  }
  if (methods.empty()) return error_response(404, no_route(request.path));
  if (request.method == "OPTIONS") return options_answer(context_.config, request, methods);
  if (route == nullptr) {
    HttpResponse response = error_response(405, request.path + " takes " + methods);
    response.headers.emplace_back("allow", methods + ", OPTIONS");
    return response;
  }
  if (!route->open() && !route->key_in_body && !has_key(context_.config, request))
    return error_response(401, kWrongKey);
  if (takes_file(*route, request, context_) && is_foreign_form(context_.config, request))
    return error_response(403, "pages of other origins may not send forms (--allowed-origins)");
  if (route->needs_speech() && context_.speech_tasks.empty())
    return error_response(
        not_supported("model", context_.config.model_names.front() + " reads no sound"));
  return std::nullopt;
}

Admission Application::admit(const HttpRequest& head) {
  const Route* route = nullptr;
  Admission admission{.refusal = refusal(head, route)};
  if (admission.refusal) {
    as_deepl_error(head, *admission.refusal);
    as_libretranslate_error(head, *admission.refusal);
    as_huggingface_error(head, *admission.refusal);
    allow_origin(context_.config, head, *admission.refusal);
  }
  // (DeepL's package and LibreTranslate's ask for languages by GET, with a form.)
  admission.takes_body =
      route != nullptr && (!is_get(route->method) || route->handler == get_deepl_languages ||
                           route->handler == get_libretranslate_languages);
  const bool file = route != nullptr && takes_file(*route, head, context_);
  admission.form = file;
  admission.audio = file && route->kind != Route::Kind::kReads;
  admission.file = file && route->kind == Route::Kind::kMayHear;
  admission.open = route != nullptr && route->open();
  return admission;
}

void Application::handle(const std::shared_ptr<Exchange>& plain) {
  const auto exchange = std::make_shared<Decorated>(plain, context_.config);
  const HttpRequest& request = exchange->request();
  const Route* route = nullptr;
  if (auto refused = refusal(request, route)) return exchange->respond(std::move(*refused));
  if (route->computes()) {
    if (context_.ending)
      return exchange->respond(error_response(503, "the server is shutting down"));
    // Thousands may come in a second: refusing must take no time from computing.
    if (const auto full = context_.engine.refuse_unread()) {
      context_.metrics.request_ended({.reason = full->type()});
      return exchange->respond(error_response(*full));
    }
  }
  if (route->computes() && may_wait_unread(request, *route, context_.config)) {
    const auto place = std::make_shared<UnreadPlace>(context_, request.id);
    exchange->place = place;
    const bool waits = place->enter([this, exchange, place, route] {
      exchange->post([this, exchange, place, route] {
        if (!place->left()) serve(exchange, *route);
      });
    });
    if (waits) return exchange->on_gone([place] { place->leave(); });
  }
  serve(exchange, *route);
}

void Application::serve(const std::shared_ptr<Exchange>& exchange, const Route& route) {
  const HttpRequest& request = exchange->request();
  try {
    route.handler(context_, exchange);
  } catch (const InputError& e) {
    exchange->respond(error_response(e));
  } catch (const std::exception& e) {
    log_error("{} {}: {} id={}{}", request.method, escape_field(request.path),
              escape_controls(e.what()), request.id, request.trace.text());
    exchange->respond(error_response(500, "an error of the server; its log says more"));
  }
}

void Application::answered(const HttpRequest& request, int status, size_t bytes, double seconds,
                           bool complete) {
  const auto known = std::find_if(
      routes().begin(), routes().end(), [&, path = path_of_route(request.path)](const Route& r) {
        return r.matches(path) && (path != "/" || is_get(r.method) == is_get(request.method));
      });
  const std::string_view route = known != routes().end() ? known->path : "other";
  context_.metrics.http_answered(std::string(route), status, seconds);
  // Whoever polls is not news.
  const bool polled =
      known != routes().end() && status < 400 && (known->open() || known->handler == get_status);
  const bool scraped = known != routes().end() && known->handler == get_metrics;
  if (context_.spans != nullptr && request.trace.sampled() && !polled && !scraped)
    context_.spans->add(
        {span_of_http(request, {route, status, bytes, seconds, complete}, unix_nanoseconds())});
  if (!context_.config.access_log) return;
  const LogFields beside([&] { return log_fields(request, status, bytes, seconds, complete); });
  log_at(polled ? LogLevel::kDebug : LogLevel::kInfo,
         "{} \"{} {}\" {}{} {} bytes {:.1f} ms id={}{}", request.remote, request.method,
         escape_field(request.path.substr(0, 200)), status, complete ? "" : " (client gone)", bytes,
         seconds * 1e3, request.id, request.trace.text());
}

}  // namespace tandem::server
