// vLLM's scores: how alike two texts are, by the cosine of their embeddings (those of
// /v1/embeddings); and the same as a ranking of documents, as Jina and Cohere ask for it. Each text
// is a request to the engine.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

class ScoreJob : public EngineJob {
 public:
  ScoreJob(AppContext& app, std::shared_ptr<Exchange> exchange, std::string model, TextPairs pairs,
           FieldNames names)
      : EngineJob(app, std::move(exchange)),
        model_(std::move(model)),
        pairs_(std::move(pairs)),
        parts_(pairs_.first.size() + pairs_.second.size()) {
    names_ = std::move(names);
  }

 protected:
  // The whole answer. scores: of each pair.
  virtual Json answer(const std::vector<double>& scores, int tokens) const {
    Json data = Json::array();
    for (size_t i = 0; i < scores.size(); ++i)
      data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
    return {{"id", "score-" + exchange_->request().id},
            {"object", "list"},
            {"created", std::time(nullptr)},
            {"model", model_},
            {"data", data},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
  }

  const std::string model_;
  const TextPairs pairs_;

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
    int tokens = 0;
    for (const EncodedText& part : parts_) tokens += part.tokens;
    std::vector<double> scores;
    for (size_t i = 0; i < pairs_.size(); ++i)
      scores.push_back(
          cosine(parts_[pairs_.first_of(i)].embedding, parts_[pairs_.first.size() + i].embedding));
    exchange_->respond({.body = dump_ordered_line(answer(scores, tokens))});
  }

  std::vector<EncodedText> parts_;
};

// The documents by their scores, the best first.
class RerankJob final : public ScoreJob {
 public:
  struct Options {
    size_t top_n = 0;  // 0: all
    bool return_documents = true;
    bool bare = false;  // text-embeddings-inference's list
  };
  RerankJob(AppContext& app, std::shared_ptr<Exchange> exchange, std::string model, TextPairs pairs,
            FieldNames names, Options options)
      : ScoreJob(app, std::move(exchange), std::move(model), std::move(pairs), std::move(names)),
        options_(options) {}

 private:
  Json answer(const std::vector<double>& scores, int tokens) const override {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    if (options_.top_n > 0 && options_.top_n < order.size()) order.resize(options_.top_n);
    Json results = Json::array();
    for (const size_t i : order) {
      Json one = {{"index", i}};
      if (options_.bare) {
        one["score"] = scores[i];
        if (options_.return_documents) one["text"] = pairs_.second[i];
        results.push_back(std::move(one));
        continue;
      }
      if (options_.return_documents) one["document"] = {{"text", pairs_.second[i]}};
      one["relevance_score"] = scores[i];
      results.push_back(std::move(one));
    }
    if (options_.bare) return results;
    return {{"id", "rerank-" + exchange_->request().id},
            {"object", "list"},
            {"model", model_},
            {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
            {"meta",  // Cohere's
             {{"api_version", {{"version", "2"}}}, {"billed_units", {{"search_units", 1}}}}},
            {"results", results}};
  }

  const Options options_;
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

// What the rest of a body says of all texts of the pairs.
struct Encoding {
  proto::Pooling pooling;
  proto::GenerationOptions options;
  Urgency urgency;
  FieldNames names;
};
Encoding take_encoding(nlohmann::json& body, const ServerConfig& config) {
  Encoding out;
  out.urgency = take_urgency(body, config);
  out.pooling = read_pooling(take(body, "pooling").value_or("mean"), false);
  out.options = take_encoding_options(body, out.names);
  for (const char* name : {"user", "use_activation"}) body.erase(name);
  refuse_rest(body);
  return out;
}

std::vector<EngineApi::Request> requests_of(const TextPairs& pairs, const Encoding& encoding) {
  std::vector<EngineApi::Request> requests;
  for (const auto* side : {&pairs.first, &pairs.second})
    for (const std::string& text : *side) {
      EngineApi::Request& request = requests.emplace_back();
      const auto at = static_cast<size_t>(&text - side->data());
      request.prompt = text_prompt(
          text, side == &pairs.first ? pairs.name_of_first(at) : pairs.name_of_second(at));
      *request.prompt.mutable_pooling() = encoding.pooling;
      request.options = encoding.options;
      request.timeout = encoding.urgency.timeout;
      request.priority = encoding.urgency.priority;
    }
  return requests;
}

// Documents may be objects with a text.
void flatten_documents(nlohmann::json& body) {
  const auto documents = body.find("documents");
  if (documents == body.end() || !documents->is_array()) return;
  for (nlohmann::json& document : *documents)
    if (document.is_object() && document.contains("text")) {
      nlohmann::json text = std::move(document["text"]);
      document = std::move(text);
    }
}

// text-embeddings-inference's. Scores are cosines, raw or not.
void take_bare_fields(nlohmann::json& body, FieldNames& names) {
  take_bool(body, "raw_scores");
  const std::string side = take_string(body, "truncation_direction").value_or("right");
  if (side != "right" && side != "Right")
    throw not_supported("truncation_direction", "the tail is cut, \"right\"");
  if (!take_bool(body, "truncate").value_or(false)) return;
  body.emplace("truncate_prompt_tokens", -1);
  names.add("truncate_prompt_tokens", "truncate");
}

}  // namespace

void post_rerank(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  std::string lora;
  const std::string model = check_model(app.config, body, lora);
  flatten_documents(body);
  RerankJob::Options options;
  options.bare = body.contains("texts");
  TextPairs pairs =
      take_text_pairs(body, "query", options.bare ? "texts" : "documents", app.config);
  if (pairs.first.size() != 1) throw invalid_request("query", "must be one text");
  options.top_n = static_cast<size_t>(take_int(body, "top_n", 0, 1 << 30).value_or(0));
  options.return_documents =
      take_bool(body, options.bare ? "return_text" : "return_documents").value_or(!options.bare);
  for (const char* name : {"max_tokens_per_doc", "max_chunks_per_doc"})
    take_int(body, name, 0, 1 << 30);
  FieldNames names;
  if (options.bare) take_bare_fields(body, names);
  Encoding encoding = names.around([&] { return take_encoding(body, app.config); });
  encoding.names.add(names);
  set_lora(lora, encoding.options);
  auto requests = requests_of(pairs, encoding);
  std::make_shared<RerankJob>(app, exchange, model, std::move(pairs), std::move(encoding.names),
                              options)
      ->start(std::move(requests));
}

void post_score(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  for (const char* name : {"append_eos", "target"})
    if (body.contains(name))
      throw invalid_request(name,
                            "is not a field of scores of pairs; how likely targets are is what "
                            "/v1/target_scores tells");
  std::string lora;
  const std::string model = check_model(app.config, body, lora);
  TextPairs pairs = take_sides(body, app.config);
  Encoding encoding = take_encoding(body, app.config);
  set_lora(lora, encoding.options);
  auto requests = requests_of(pairs, encoding);
  std::make_shared<ScoreJob>(app, exchange, model, std::move(pairs), std::move(encoding.names))
      ->start(std::move(requests));
}

}  // namespace tandem::server
