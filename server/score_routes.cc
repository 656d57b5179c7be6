// Scores of targets: a request to the engine for each, one answer for all.
#include <cmath>

#include "kernels/core/error.h"
#include "server/engine_job.h"
#include "server/generation_request.h"
#include "server/json_body.h"
#include "server/routes.h"

namespace tandem::server {
namespace {

std::vector<std::string> texts_of(const std::optional<nlohmann::json>& value, const char* field) {
  if (!value) throw invalid_request(field, "is missing");
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || value->empty())
    throw invalid_request(field, "expected a text or a list of texts");
  std::vector<std::string> texts;
  for (const nlohmann::json& text : *value) {
    if (!text.is_string()) throw invalid_request(field, "expected a text or a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

class ScoreJob final : public EngineJob {
 public:
  ScoreJob(AppContext& app, std::shared_ptr<Exchange> exchange, std::string model, size_t sources,
           size_t targets)
      : EngineJob(app, std::move(exchange)),
        model_(std::move(model)),
        num_sources_(sources),
        parts_(targets) {}

 private:
  struct Part {
    int source_tokens = 0, target_start = 0;
    std::vector<proto::TokenLogprobs> logprobs;
  };

  void on_chunk(size_t index, const proto::RequestChunk& chunk) override {
    Part& part = parts_[index];
    if (chunk.has_inputs()) {
      part.source_tokens = chunk.inputs().encoder_prompt_token_ids_size();
      part.target_start = chunk.inputs().target_start();
    }
    for (const auto& logprobs : chunk.prompt_logprobs()) part.logprobs.push_back(logprobs);
    for (const auto& news : chunk.outputs())
      for (const auto& logprobs : news.logprobs()) part.logprobs.push_back(logprobs);
    if (chunk.finished() || chunk.has_error()) count_end(chunk, part.source_tokens);
  }

  std::string field_of(size_t index, const std::string& field) const override {
    if (field.find("target") != std::string::npos) return "text_2[" + std::to_string(index) + "]";
    if (field.rfind("prompt", 0) != 0) return field;
    return "text_1[" + std::to_string(num_sources_ > 1 ? index : 0) + "]";
  }

  const char* list_field() const override { return "text_2"; }

  void finish() override {
    Json data = Json::array();
    int tokens = 0;
    for (const Part& part : parts_) {
      // Of the decoder's tokens behind the first; the target begins at target_start.
      const size_t first = static_cast<size_t>(std::max(1, part.target_start)) - 1;
      Json ids = Json::array(), values = Json::array();
      double sum = 0;
      for (size_t i = first; i < part.logprobs.size(); ++i) {
        const proto::TokenLogprob& token = part.logprobs[i].top(0);
        ids.push_back(token.token_id());
        values.push_back(std::isfinite(token.logprob()) ? Json(token.logprob()) : Json());
        sum += token.logprob();
      }
      const double mean = sum / static_cast<double>(std::max<size_t>(1, ids.size()));
      tokens += part.source_tokens + static_cast<int>(ids.size());
      data.push_back({{"index", data.size()},
                      {"object", "score"},
                      {"score", mean},
                      {"cumulative_logprob", sum},
                      {"perplexity", std::exp(-mean)},
                      {"token_ids", ids},
                      {"token_logprobs", values}});
    }
    exchange_->respond(
        {.body = dump(
             {{"id", "score-" + exchange_->request().id},
              {"object", "list"},
              {"created", std::time(nullptr)},
              {"model", model_},
              {"data", data},
              {"usage",
               {{"prompt_tokens", tokens}, {"completion_tokens", 0}, {"total_tokens", tokens}}}})});
  }

  const std::string model_;
  const size_t num_sources_;
  std::vector<Part> parts_;
};

}  // namespace

void post_score(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  const std::string model = check_model(app.config, body);
  const auto sources = texts_of(take(body, "text_1"), "text_1");
  const auto targets = texts_of(take(body, "text_2"), "text_2");
  const bool append_eos = take_bool(body, "append_eos").value_or(true);
  refuse_rest(body);
  if (sources.size() != 1 && sources.size() != targets.size())
    throw invalid_request("text_1", std::to_string(sources.size()) + " sources for " +
                                        std::to_string(targets.size()) +
                                        " targets; give one, or one for each");
  if (targets.size() > static_cast<size_t>(app.config.max_prompts))
    throw invalid_request(
        "text_2", "at most " + std::to_string(app.config.max_prompts) + " targets fit a request");
  if (sources.size() == 1)
    check_copies(sources.front().size(), targets.size(), app.config, "text_1");
  std::vector<EngineApi::Request> requests(targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    requests[i].prompt_json = dump({{"encoder_prompt", sources[sources.size() == 1 ? 0 : i]},
                                    {"target", targets[i]},
                                    {"append_eos", append_eos}});
    requests[i].timeout = app.config.request_timeout;
  }
  std::make_shared<ScoreJob>(app, exchange, model, sources.size(), targets.size())
      ->start(std::move(requests));
}

}  // namespace tandem::server
