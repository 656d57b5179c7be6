#include "server/api/application.h"

#include <openssl/crypto.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/log_text.h"
#include "server/api/deepl/deepl.h"
#include "server/api/errors.h"
#include "server/api/routes.h"

namespace tandem::server {
namespace {

// CORS: what a browser's page of another origin may do. The origin that is allowed, or "*"; null:
// none is, or there is no origin.
const std::string* allowed_origin(const ServerConfig& config, const HttpRequest& request) {
  const std::string* origin = request.header("origin");
  if (origin == nullptr) return nullptr;
  for (const std::string& allowed : config.allowed_origins)
    if (allowed == "*" || allowed == *origin) return &allowed;
  return nullptr;
}

void allow_origin(const ServerConfig& config, const HttpRequest& request, HttpResponse& response) {
  const std::string* allowed = allowed_origin(config, request);
  if (allowed == nullptr) return;
  response.headers.emplace_back("access-control-allow-origin", *allowed);
  if (*allowed != "*") response.headers.emplace_back("vary", "origin");
  response.headers.emplace_back("access-control-expose-headers",
                                "x-request-id, retry-after, traceresponse");
}

// A form of another site's page, which browsers send without asking the server before.
bool is_foreign_form(const ServerConfig& config, const HttpRequest& request) {
  const std::string* site = request.header("sec-fetch-site");
  return site != nullptr && (*site == "cross-site" || *site == "same-site") &&
         allowed_origin(config, request) == nullptr;
}

// Adds what every answer of the server has.
class Decorated final : public Exchange {
 public:
  Decorated(std::shared_ptr<Exchange> inner, const ServerConfig& config)
      : inner_(std::move(inner)), config_(config) {}
  const HttpRequest& request() const override { return inner_->request(); }
  std::string take_body() override { return inner_->take_body(); }
  void respond(HttpResponse response) override {
    as_deepl_error(request(), response);
    allow_origin(config_, request(), response);
    inner_->respond(std::move(response));
  }
  void start_stream(HttpResponse head) override {
    allow_origin(config_, request(), head);
    inner_->start_stream(std::move(head));
  }
  void write(std::string data) override { inner_->write(std::move(data)); }
  void end() override { inner_->end(); }
  void on_gone(std::function<void()> callback) override { inner_->on_gone(std::move(callback)); }
  void post(std::function<void()> f) override { inner_->post(std::move(f)); }

 private:
  std::shared_ptr<Exchange> inner_;
  const ServerConfig& config_;
};

HttpResponse preflight() {
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers = {{"access-control-allow-methods", "GET, POST, OPTIONS"},
                      {"access-control-allow-headers",
                       "authorization, content-type, x-request-id, traceparent, tracestate"},
                      {"access-control-max-age", "600"}};
  return response;
}

bool is_get(const std::string& method) { return method == "GET" || method == "HEAD"; }

// The time does not tell how many characters were right.
bool same_key(const std::string& a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

bool Application::may_enter(const HttpRequest& request) const {
  if (context_.config.api_keys.empty()) return true;
  std::string_view given;
  if (const std::string* header = request.header("authorization"))
    for (const std::string_view scheme : {"bearer ", "deepl-auth-key "}) {
      const bool is_it =
          header->size() > scheme.size() &&
          std::equal(scheme.begin(), scheme.end(), header->begin(),
                     [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b | 0x20 : b); });
      if (is_it) given = std::string_view(*header).substr(scheme.size());
    }
  bool found = false;
  for (const std::string& key : context_.config.api_keys) found |= same_key(key, given);
  return found;
}

// Where the request does not go to a handler. route: what it asks for, as far as there is one.
std::optional<HttpResponse> Application::refusal(const HttpRequest& request,
                                                 const Route*& route) const {
  route = nullptr;
  std::string methods;
  for (const Route& r : routes()) {
    if (!r.matches(request.path)) continue;
    methods += (methods.empty() ? "" : ", ") + std::string(r.method);
    if (request.method == r.method || (is_get(request.method) && is_get(r.method))) route = &r;
  }
  if (methods.empty()) return error_response(404, "there is no " + request.path);
  if (request.method == "OPTIONS") return preflight();
  if (route == nullptr) {
    HttpResponse response = error_response(405, request.path + " takes " + methods);
    response.headers.emplace_back("allow", methods);
    return response;
  }
  if (!route->open() && !may_enter(request))
    return error_response(401,
                          "the API key is missing or wrong (header \"Authorization: Bearer KEY\")");
  if (route->hears() && is_foreign_form(context_.config, request))
    return error_response(403, "pages of other origins may not send forms (--allowed-origins)");
  if (route->hears() && context_.speech_tasks.empty())
    return error_response(
        not_supported("model", context_.config.model_names.front() + " reads no sound"));
  return std::nullopt;
}

Admission Application::admit(const HttpRequest& head) {
  const Route* route = nullptr;
  Admission admission{.refusal = refusal(head, route)};
  if (admission.refusal) {
    as_deepl_error(head, *admission.refusal);
    allow_origin(context_.config, head, *admission.refusal);
  }
  // (DeepL's package asks for languages by GET, with a form.)
  admission.takes_body =
      route != nullptr && (!is_get(route->method) || route->handler == get_deepl_languages);
  admission.audio = route != nullptr && route->hears();
  admission.open = route != nullptr && route->open();
  return admission;
}

void Application::handle(const std::shared_ptr<Exchange>& plain) {
  const auto exchange = std::make_shared<Decorated>(plain, context_.config);
  const HttpRequest& request = exchange->request();
  const Route* route = nullptr;
  if (auto refused = refusal(request, route)) return exchange->respond(std::move(*refused));
  if (route->computes()) {
    // Thousands may come in a second: refusing must take no time from computing.
    if (const auto full = context_.engine.refuse_unread()) {
      context_.metrics.request_ended({.reason = full->type()});
      return exchange->respond(error_response(*full));
    }
  }
  try {
    route->handler(context_, exchange);
  } catch (const InputError& e) {
    exchange->respond(error_response(e));
  } catch (const std::exception& e) {
    spdlog::error("{} {}: {} id={}{}", request.method, escape_field(request.path),
                  escape_controls(e.what()), request.id, request.trace.text());
    exchange->respond(error_response(500, "an error of the server; its log says more"));
  }
}

void Application::answered(const HttpRequest& request, int status, size_t bytes, double seconds,
                           bool complete) {
  const auto known = std::find_if(routes().begin(), routes().end(),
                                  [&](const Route& r) { return r.matches(request.path); });
  context_.metrics.http_answered(std::string(known != routes().end() ? known->path : "other"),
                                 status, seconds);
  if (!context_.config.access_log) return;
  // Whoever polls is not news.
  const bool polled =
      known != routes().end() && status < 400 && (known->open() || known->handler == get_status);
  spdlog::log(polled ? spdlog::level::debug : spdlog::level::info,
              "{} \"{} {}\" {}{} {} bytes {:.1f} ms id={}{}", request.remote, request.method,
              escape_field(request.path.substr(0, 200)), status, complete ? "" : " (client gone)",
              bytes, seconds * 1e3, request.id, request.trace.text());
}

}  // namespace tandem::server
