// Labels of texts, as vLLM's /classify has them, and as the /predict of HuggingFace's
// text-embeddings-inference: a request to the engine for each text, one answer for all.
#include <algorithm>
#include <ctime>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/heads/label_scores.h"
#include "server/api/engine_job.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "server/api/routes.h"

namespace tandem::server {
namespace {

struct ClassificationRequest {
  std::string model;
  const char* field = "input";
  std::vector<proto::PromptPart> inputs;
  bool is_list = false;       // of inputs; otherwise there is one
  bool raw = false;           // logits instead of probabilities
  bool ranked_lists = false;  // text-embeddings-inference's form
  proto::GenerationOptions options;

  std::string field_of(size_t i) const {
    return is_list ? field + ("[" + std::to_string(i) + "]") : field;
  }
};

class ClassificationJob final : public EngineJob {
 public:
  ClassificationJob(AppContext& app, std::shared_ptr<Exchange> exchange,
                    ClassificationRequest request, FieldNames names)
      : EngineJob(app, std::move(exchange)),
        request_(std::move(request)),
        parts_(request_.inputs.size()) {
    names_ = std::move(names);
  }

 private:
  struct ClassifiedText {
    int tokens = 0;
    proto::Labels labels;
    std::vector<float> logits;
  };

  void on_chunk(size_t index, const proto::RequestChunk& chunk) override {
    ClassifiedText& part = parts_[index];
    if (chunk.has_inputs()) {
      part.tokens = encoder_length(chunk.inputs());
      part.labels = chunk.inputs().labels();
    }
    const auto& values = chunk.embedding().values();
    if (chunk.has_embedding()) part.logits.assign(values.begin(), values.end());
    if (chunk.finished() || chunk.has_error()) count_end(chunk, part.tokens);
  }

  std::string field_of(size_t index, const std::string& field) const override {
    return is_of_prompt(field) ? request_.field_of(index) : names_.of(field);
  }

  std::string list_field() const override { return request_.field; }

  void finish() override {
    exchange_->respond(
        {.body = dump_ordered_line(request_.ranked_lists ? ranked_lists() : answer())});
  }

  std::vector<double> scores_of(const ClassifiedText& part) const {
    if (request_.raw) return {part.logits.begin(), part.logits.end()};
    return probabilities_of(part.labels, part.logits);
  }

  Json answer() const {
    Json data = Json::array();
    int tokens = 0;
    for (const ClassifiedText& part : parts_) {
      tokens += part.tokens;
      data.push_back({{"index", data.size()},
                      {"label", part.labels.names(static_cast<int>(place_of_largest(part.logits)))},
                      {"probs", scores_of(part)},
                      {"num_classes", part.labels.names_size()}});
    }
    return {
        {"id", "classify-" + exchange_->request().id},
        {"object", "list"},
        {"created", std::time(nullptr)},
        {"model", request_.model},
        {"data", data},
        {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}, {"completion_tokens", 0}}}};
  }

  // The labels of each text, the likeliest first.
  Json ranked_lists() const {
    Json out = Json::array();
    for (const ClassifiedText& part : parts_) {
      const std::vector<double> scores = scores_of(part);
      std::vector<int> order(scores.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
      Json list = Json::array();
      for (const int i : order)
        list.push_back(
            {{"score", scores[static_cast<size_t>(i)]}, {"label", part.labels.names(i)}});
      out.push_back(std::move(list));
    }
    return request_.is_list ? out : out.at(0);
  }

  const ClassificationRequest request_;
  std::vector<ClassifiedText> parts_;
};

void check_count(const nlohmann::json& list, const char* field, const ServerConfig& config) {
  if (list.empty()) throw invalid_request(field, "the list is empty");
  if (list.size() > static_cast<size_t>(config.max_prompts))
    throw invalid_request(field, std::to_string(list.size()) + " inputs; at most " +
                                     std::to_string(config.max_prompts) + " fit a request");
}

// A text, {"text", "text_pair"}, or token ids.
proto::PromptPart read_input(const nlohmann::json& value, const std::string& field) {
  if (value.is_string() || is_token_ids(value)) return read_prompt_part(value, field);
  if (!value.is_object() || !value.contains("text"))
    throw invalid_request(field, "expected a text, {\"text\", \"text_pair\"}, or token ids");
  for (const auto& [key, one] : value.items())
    if (key != "text" && key != "text_pair")
      throw invalid_request(field + "." + key, "unknown field; a pair has text and text_pair");
  proto::PromptPart part = read_prompt_part(read_string(value["text"], field + ".text"), field);
  if (value.contains("text_pair") && !value["text_pair"].is_null())
    part.mutable_second()->set_text(read_string(value["text_pair"], field + ".text_pair"));
  return part;
}

void set_inputs(const nlohmann::json& input, const ServerConfig& config, ClassificationRequest& r) {
  r.is_list = input.is_array() && !is_token_ids(input);
  if (!r.is_list) return r.inputs.push_back(read_input(input, r.field));
  check_count(input, r.field, config);
  for (const nlohmann::json& one : input)
    r.inputs.push_back(read_input(one, r.field_of(r.inputs.size())));
}

// A text, a pair as a list of two, or a list of lists of one or two.
proto::PromptPart read_sequence(const nlohmann::json& value, const std::string& field) {
  const auto is_text = [](const nlohmann::json& one) { return one.is_string(); };
  if (value.is_string()) return read_prompt_part(value, field);
  if (!value.is_array() || value.empty() || value.size() > 2 ||
      !std::all_of(value.begin(), value.end(), is_text))
    throw invalid_request(field, "expected a text, or a list of one text or a pair");
  proto::PromptPart part = read_prompt_part(value[0], field);
  if (value.size() == 2) part.mutable_second()->set_text(value[1].get<std::string>());
  return part;
}

void set_sequences(const nlohmann::json& inputs, const ServerConfig& config,
                   ClassificationRequest& r) {
  r.is_list = inputs.is_array() && !inputs.empty() && inputs[0].is_array();
  if (!r.is_list) return r.inputs.push_back(read_sequence(inputs, r.field));
  check_count(inputs, r.field, config);
  for (const nlohmann::json& one : inputs) {
    const std::string field = r.field_of(r.inputs.size());
    if (!one.is_array()) throw invalid_request(field, "expected a list of one text or a pair");
    r.inputs.push_back(read_sequence(one, field));
  }
}

void start(AppContext& app, const std::shared_ptr<Exchange>& exchange, ClassificationRequest r,
           const Urgency& urgency, FieldNames names) {
  std::vector<EngineApi::Request> requests(r.inputs.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    *requests[i].prompt.mutable_encoder() = r.inputs[i];
    requests[i].prompt.mutable_pooling()->set_kind(proto::Pooling::LABELS);
    requests[i].options = r.options;
    requests[i].timeout = urgency.timeout;
    requests[i].priority = urgency.priority;
  }
  std::make_shared<ClassificationJob>(app, exchange, std::move(r), std::move(names))
      ->start(std::move(requests));
}

}  // namespace

void post_classify(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  ClassificationRequest r;
  std::string lora;
  r.model = check_model(app.config, body, lora);
  take(body, "user");
  const auto input = take(body, "input");
  if (!input) throw invalid_request("input", "is missing");
  set_inputs(*input, app.config, r);
  // vLLM's names, of its versions.
  for (const char* name : {"use_activation", "activation"})
    if (const auto active = take_bool(body, name)) r.raw = !*active;
  const Urgency urgency = take_urgency(body, app.config);
  FieldNames names;
  r.options = take_encoding_options(body, names);
  refuse_rest(body);
  set_lora(lora, r.options);
  start(app, exchange, std::move(r), urgency, std::move(names));
}

void post_predict(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  ClassificationRequest r;
  std::string lora;
  r.model = check_model(app.config, body, lora);
  r.field = "inputs";
  r.ranked_lists = true;
  const auto inputs = take(body, "inputs");
  if (!inputs) throw invalid_request("inputs", "is missing");
  set_sequences(*inputs, app.config, r);
  r.raw = take_bool(body, "raw_scores").value_or(false);
  const auto side = take_string(body, "truncation_direction");
  if (side && *side != "Right" && *side != "right")
    throw not_supported("truncation_direction", "texts are cut at their end, \"Right\"");
  if (take_bool(body, "truncate").value_or(false)) r.options.set_truncate_prompt_tokens(-1);
  const Urgency urgency = take_urgency(body, app.config);
  refuse_rest(body);
  set_lora(lora, r.options);
  FieldNames names;
  names.add("truncate_prompt_tokens", "truncate");
  start(app, exchange, std::move(r), urgency, std::move(names));
}

}  // namespace tandem::server
