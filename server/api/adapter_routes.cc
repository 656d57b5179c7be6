// Adapters that come and go while the engine serves, in vLLM's form.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "runtime/request/adapter_names.h"
#include "server/api/fields/json_body.h"
#include "server/api/routes.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

AdapterNames& adapters_of(const AppContext& app) {
  if (app.config.adapters == nullptr)
    throw not_supported("lora_name", "this engine has no adapters");
  return *app.config.adapters;
}

std::string take_name(nlohmann::json& body, const char* field) {
  auto name = take_string(body, field);
  if (!name || name->empty()) throw invalid_request(field, "is missing");
  return *name;
}

HttpResponse said(const std::string& text) {
  HttpResponse out;
  out.content_type = "text/plain; charset=utf-8";
  out.body = text;
  return out;
}

void post_load_adapter(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  AdapterNames& adapters = adapters_of(app);
  const std::string name = take_name(body, "lora_name"), path = take_name(body, "lora_path");
  for (const char* ignored : {"base_model_name", "load_inplace"}) take(body, ignored);
  refuse_rest(body);
  for (const auto* names : {&app.config.model_names, &app.config.silent_names})
    if (std::find(names->begin(), names->end(), name) != names->end())
      throw invalid_request("lora_name", "is the model's own name");
  // Reading the file takes a while; other connections share this thread.
  app.run_apart([&adapters, exchange, name, path] {
    HttpResponse response;
    try {
      adapters.load(name, path);
      response = said("Success: LoRA adapter '" + name + "' added successfully.");
    } catch (const InputError& error) {
      response = error_response(error);
    }
    exchange->post([exchange, response] { exchange->respond(response); });
  });
}

void post_unload_adapter(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  const std::string name = take_name(body, "lora_name");
  take(body, "lora_int_id");
  refuse_rest(body);
  adapters_of(app).unload(name);
  exchange->respond(said("Success: LoRA adapter '" + name + "' removed successfully."));
}

}  // namespace

std::vector<Route> adapter_routes() {
  const auto route = [](std::string_view path, Handler handler, const char* summary,
                        const char* request) {
    return Route{"POST",  path,
                 handler, Route::Kind::kAnswers,
                 summary, {.request = request, .other_types = "text/plain"}};
  };
  return {route("/v1/load_lora_adapter", post_load_adapter,
                "Loads an adapter, if the server allows it", "LoadAdapter"),
          route("/v1/unload_lora_adapter", post_unload_adapter, "Unloads it", "UnloadAdapter")};
}

}  // namespace tandem::server
