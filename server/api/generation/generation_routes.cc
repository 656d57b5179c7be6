#include "server/api/generation/generation_job.h"
#include "server/api/json_body.h"
#include "server/api/routes.h"

namespace tandem::server {

void post_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  std::make_shared<GenerationJob>(app, exchange,
                                  parse_completion(parse_body(exchange->request()), app.config))
      ->start();
}

void post_chat_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  std::make_shared<GenerationJob>(app, exchange,
                                  parse_chat(parse_body(exchange->request()), app.config))
      ->start();
}

}  // namespace tandem::server
