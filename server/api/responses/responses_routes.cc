#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_job.h"
#include "server/api/responses/responses.h"
#include "server/api/routes.h"

namespace tandem::server {

void post_responses(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  ResponseRequest request = parse_response(parse_body(exchange->request()), app.config);
  const auto format = [&](const AppContext&, const GenerationRequest& generation,
                          const std::string& id) {
    return response_format(generation, std::move(request.repeated), id, std::time(nullptr));
  };
  std::make_shared<GenerationJob>(app, exchange, std::move(request.generation), format)->start();
}

}  // namespace tandem::server
