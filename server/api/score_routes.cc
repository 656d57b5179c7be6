// vLLM's scores: how alike two texts are, by the cosine of their embeddings (those of
// /v1/embeddings). Each text is a request to the engine.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/prompt_reader.h"
#include "server/api/engine_job.h"
#include "server/api/generation/generation_request.h"
#include "server/api/json_body.h"
#include "server/api/routes.h"
#include "server/api/text_pairs.h"

namespace tandem::server {
namespace {

// As torch's cosine_similarity: no vector is shorter than 1e-8.
double cosine(const proto::Embedding& a, const proto::Embedding& b) {
  double dot = 0, aa = 0, bb = 0;
  for (int i = 0; i < std::min(a.values_size(), b.values_size()); ++i) {
    const double x = a.values(i), y = b.values(i);
    dot += x * y;
    aa += x * x;
    bb += y * y;
  }
  return dot / (std::max(std::sqrt(aa), 1e-8) * std::max(std::sqrt(bb), 1e-8));
}

class ScoreJob final : public EngineJob {
 public:
  ScoreJob(AppContext& app, std::shared_ptr<Exchange> exchange, std::string model, TextPairs pairs,
           FieldNames names)
      : EngineJob(app, std::move(exchange)),
        model_(std::move(model)),
        pairs_(std::move(pairs)),
        parts_(pairs_.first.size() + pairs_.second.size()) {
    names_ = std::move(names);
  }

 private:
  struct EncodedText {  // a text: the first ones, then the second ones
    int tokens = 0;
    proto::Embedding embedding;
  };

  void on_chunk(size_t index, const proto::RequestChunk& chunk) override {
    EncodedText& part = parts_[index];
    if (chunk.has_inputs()) part.tokens = encoder_length(chunk.inputs());
    if (chunk.has_embedding()) part.embedding = chunk.embedding();
    if (chunk.finished() || chunk.has_error()) count_end(chunk, part.tokens);
  }

  std::string field_of(size_t index, const std::string& field) const override {
    if (!is_of_prompt(field)) return names_.of(field);
    const size_t firsts = pairs_.first.size();
    return index < firsts ? pairs_.name_of_first(index) : pairs_.name_of_second(index - firsts);
  }

  std::string list_field() const override { return pairs_.second_name; }

  void finish() override {
    Json data = Json::array();
    int tokens = 0;
    for (const EncodedText& part : parts_) tokens += part.tokens;
    for (size_t i = 0; i < pairs_.size(); ++i)
      data.push_back({{"index", i},
                      {"object", "score"},
                      {"score", cosine(parts_[pairs_.first_of(i)].embedding,
                                       parts_[pairs_.first.size() + i].embedding)}});
    exchange_->respond({.body = dump_ordered_line(
                            {{"id", "score-" + exchange_->request().id},
                             {"object", "list"},
                             {"created", std::time(nullptr)},
                             {"model", model_},
                             {"data", data},
                             {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}})});
  }

  const std::string model_;
  const TextPairs pairs_;
  std::vector<EncodedText> parts_;
};

// vLLM's names of the two sides.
TextPairs take_sides(nlohmann::json& body, const ServerConfig& config) {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"text_1", "text_2"}, {"queries", "documents"}, {"queries", "items"}, {"data_1", "data_2"}};
  for (const auto& [first, second] : kNames)
    if (body.contains(second)) return take_text_pairs(body, first, second, config);
  return take_text_pairs(body, body.contains("queries") ? "queries" : "text_1",
                         body.contains("queries") ? "documents" : "text_2", config);
}

}  // namespace

void post_score(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  for (const char* name : {"append_eos", "target"})
    if (body.contains(name))
      throw invalid_request(name,
                            "is not a field of scores of pairs; how likely targets are is what "
                            "/v1/target_scores tells");
  const std::string model = check_model(app.config, body);
  TextPairs pairs = take_sides(body, app.config);
  const Urgency urgency = take_urgency(body, app.config);
  const proto::Pooling pooling = read_pooling(take(body, "pooling").value_or("mean"), false);
  FieldNames names;
  const proto::GenerationOptions options = take_encoding_options(body, names);
  for (const char* name : {"user", "use_activation"}) body.erase(name);
  refuse_rest(body);
  std::vector<EngineApi::Request> requests;
  for (const auto* side : {&pairs.first, &pairs.second})
    for (const std::string& text : *side) {
      EngineApi::Request& request = requests.emplace_back();
      const auto at = static_cast<size_t>(&text - side->data());
      request.prompt = text_prompt(
          text, side == &pairs.first ? pairs.name_of_first(at) : pairs.name_of_second(at));
      *request.prompt.mutable_pooling() = pooling;
      request.options = options;
      request.timeout = urgency.timeout;
      request.priority = urgency.priority;
    }
  std::make_shared<ScoreJob>(app, exchange, model, std::move(pairs), std::move(names))
      ->start(std::move(requests));
}

}  // namespace tandem::server
