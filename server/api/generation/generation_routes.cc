#include <optional>

#include "base/error.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/document_prompts.h"
#include "server/api/generation/generation_job.h"
#include "server/api/routes.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

void start(AppContext& app, const std::shared_ptr<Exchange>& exchange, GenerationRequest request) {
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

// Pages take a while to draw; other connections share this thread.
void start_with_pages(AppContext& app, const std::shared_ptr<Exchange>& exchange,
                      GenerationRequest request) {
  if (!app.reads_images || !has_documents(request)) return start(app, exchange, std::move(request));
  app.run_apart([&app, exchange, r = std::make_shared<GenerationRequest>(std::move(request))] {
    std::optional<InputError> wrong;
    try {
      replace_documents(*r, app.config);
    } catch (const InputError& error) {
      wrong = error;
    }
    exchange->post([&app, exchange, r, wrong] {
      try {
        if (wrong) throw *wrong;
        start(app, exchange, std::move(*r));
      } catch (const InputError& error) {  // serve() has returned
        exchange->respond(error_response(error));
      }
    });
  });
}

}  // namespace

void post_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  GenerationRequest request = parse_completion(std::move(body), app.config);
  start_with_pages(app, exchange, std::move(request));
}

void post_chat_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  GenerationRequest request = parse_chat(std::move(body), app.config);
  start_with_pages(app, exchange, std::move(request));
}

}  // namespace tandem::server
