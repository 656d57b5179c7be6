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

// Runs f, which may find the request wrong, where nobody else answers for it.
template <class F>
void or_refuse(const std::shared_ptr<Exchange>& exchange, const F& f) {
  try {
    f();
  } catch (const InputError& error) {
    exchange->post([exchange, response = error_response(error)] { exchange->respond(response); });
  }
}

// Pages take a while to draw; other connections share this thread.
void start_with_pages(AppContext& app, const std::shared_ptr<Exchange>& exchange,
                      GenerationRequest request) {
  if (!app.reads_images || !has_documents(request)) return start(app, exchange, std::move(request));
  app.run_apart([&app, exchange, r = std::make_shared<GenerationRequest>(std::move(request))] {
    or_refuse(exchange, [&] {
      replace_documents(*r, app.config);
      exchange->post([&app, exchange, r] {
        or_refuse(exchange, [&] { start(app, exchange, std::move(*r)); });
      });
    });
  });
}

}  // namespace

void post_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  start_with_pages(app, exchange, parse_completion(parse_body(exchange->request()), app.config));
}

void post_chat_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  start_with_pages(app, exchange, parse_chat(parse_body(exchange->request()), app.config));
}

}  // namespace tandem::server
