// How likely targets are, given their sources (docs/scoring.md): a request to the engine for each,
// one answer for all.
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "server/api/engine_job.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "server/api/routes.h"
#include "server/api/text_pairs.h"

namespace tandem::server {
namespace {

class TargetScoreJob final : public EngineJob {
 public:
  TargetScoreJob(AppContext& app, std::shared_ptr<Exchange> exchange, std::string model,
                 TextPairs pairs, FieldNames names)
      : EngineJob(app, std::move(exchange)),
        model_(std::move(model)),
        pairs_(std::move(pairs)),
        parts_(pairs_.size()) {
    names_ = std::move(names);
  }

 private:
  struct TargetScore {
    int source_tokens = 0, target_start = 0;
    std::vector<proto::TokenLogprobs> logprobs;
  };

  void on_chunk(size_t index, const proto::RequestChunk& chunk) override {
    TargetScore& part = parts_[index];
    if (chunk.has_inputs()) {
      part.source_tokens = encoder_length(chunk.inputs());
      part.target_start = chunk.inputs().target_start();
    }
    for (const auto& logprobs : chunk.prompt_logprobs()) part.logprobs.push_back(logprobs);
    for (const auto& news : chunk.outputs())
      for (const auto& logprobs : news.logprobs()) part.logprobs.push_back(logprobs);
    if (chunk.finished() || chunk.has_error()) count_end(chunk, part.source_tokens);
  }

  std::string field_of(size_t index, const std::string& field) const override {
    if (field.find("target") != std::string::npos) return pairs_.name_of_second(index);
    if (!is_of_prompt(field)) return names_.of(field);
    return pairs_.name_of_first(pairs_.first_of(index));
  }

  std::string list_field() const override { return pairs_.second_name; }

  void finish() override {
    Json data = Json::array();
    int tokens = 0;
    for (const TargetScore& part : parts_) {
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
                      {"object", "target_score"},
                      {"score", mean},
                      {"cumulative_logprob", sum},
                      {"perplexity", std::exp(-mean)},
                      {"token_ids", ids},
                      {"token_logprobs", values}});
    }
    exchange_->respond(
        {.body = dump_ordered_line(
             {{"id", "targetscores-" + exchange_->request().id},
              {"object", "list"},
              {"created", std::time(nullptr)},
              {"model", model_},
              {"data", data},
              {"usage",
               {{"prompt_tokens", tokens}, {"completion_tokens", 0}, {"total_tokens", tokens}}}})});
  }

  const std::string model_;
  const TextPairs pairs_;
  std::vector<TargetScore> parts_;
};

}  // namespace

void post_target_scores(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  std::string lora;
  const std::string model = check_model(app.config, body, lora);
  TextPairs pairs = take_text_pairs(body, "prompt", "target", app.config);
  const bool append_eos = take_bool(body, "append_eos").value_or(true);
  const Urgency urgency = take_urgency(body, app.config);
  FieldNames names;
  proto::GenerationOptions options =
      take_options(body, names, {"src_lang", "source_lang", "tgt_lang", "target_lang", "task"});
  set_lora(lora, options);
  refuse_rest(body);
  if (pairs.first.size() == 1)
    check_copies(pairs.first.front().size(), pairs.size(), app.config, "prompt");
  std::vector<EngineApi::Request> requests(pairs.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t first = pairs.first_of(i);
    proto::Prompt& prompt = requests[i].prompt;
    prompt = text_prompt(pairs.first[first], pairs.name_of_first(first));
    prompt.mutable_target()->set_text(pairs.second[i]);
    prompt.mutable_target()->set_field(pairs.name_of_second(i));
    prompt.set_append_eos(append_eos);
    requests[i].options = options;
    requests[i].timeout = urgency.timeout;
    requests[i].priority = urgency.priority;
  }
  std::make_shared<TargetScoreJob>(app, exchange, model, std::move(pairs), std::move(names))
      ->start(std::move(requests));
}

}  // namespace tandem::server
