// Embeddings: a request to the engine for each input, one answer for all.
#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/base64.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "server/api/engine_job.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_request.h"
#include "server/api/routes.h"
#include "server/api/scoring/embeddings.h"

namespace tandem::server {
namespace {

struct EmbeddingRequest {
  std::string model, lora;
  std::vector<nlohmann::json> inputs;  // each a text, or token ids
  bool is_list = false;                // of inputs; otherwise there is one
  bool base64 = false;
  std::string name = "input";  // of the field
  bool bare = false;           // the answer is the vectors alone

  // For messages: the field of an input.
  std::string field_of(size_t i) const {
    return is_list ? name + "[" + std::to_string(i) + "]" : name;
  }
};

// Sets inputs and is_list.
void set_inputs(nlohmann::json input, int most, EmbeddingRequest& r) {
  if (input.is_string() || is_token_ids(input)) {
    r.inputs.push_back(std::move(input));
    return;
  }
  const char* expected = "expected a text, token ids, or a list of either";
  if (!input.is_array()) throw invalid_request(r.name, expected);
  if (input.empty()) throw invalid_request(r.name, "the list is empty");
  if (input.size() > static_cast<size_t>(most))
    throw invalid_request(r.name, std::to_string(input.size()) + " inputs; at most " +
                                      std::to_string(most) + " fit a request");
  r.is_list = true;
  for (nlohmann::json& one : input) {
    if (!one.is_string() && !is_token_ids(one))
      throw invalid_request(r.field_of(r.inputs.size()), "expected a text or token ids");
    r.inputs.push_back(std::move(one));
  }
}

// Little-endian float32, as OpenAI's.
std::string base64_of(const proto::Embedding& embedding) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(embedding.values_size()) * 4);
  for (const float value : embedding.values()) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(bits >> shift & 0xff));
  }
  return encode_base64(bytes);
}

class EmbeddingJob final : public EngineJob {
 public:
  EmbeddingJob(AppContext& app, std::shared_ptr<Exchange> exchange, EmbeddingRequest request,
               FieldNames names)
      : EngineJob(app, std::move(exchange)),
        request_(std::move(request)),
        parts_(request_.inputs.size()) {
    names_ = std::move(names);
  }

 private:
  struct EncodedInput {
    int tokens = 0;
    proto::Embedding embedding;
  };

  void on_chunk(size_t index, const proto::RequestChunk& chunk) override {
    EncodedInput& part = parts_[index];
    if (chunk.has_inputs()) part.tokens = encoder_length(chunk.inputs());
    if (chunk.has_embedding()) part.embedding = chunk.embedding();
    if (!chunk.finished() && !chunk.has_error()) return;
    count_end(chunk, part.tokens);
  }

  std::string field_of(size_t index, const std::string& field) const override {
    if (!is_of_prompt(field)) return names_.of(field);
    return request_.field_of(index);
  }

  std::string list_field() const override { return request_.name; }

  // Many numbers take a while to write; other connections share this thread.
  void finish() override {
    app_.run_apart([exchange = exchange_, request = request_, parts = std::move(parts_)] {
      const std::string body = body_of(request, parts);
      exchange->post([exchange, body] { exchange->respond({.body = body}); });
    });
  }

  static std::string body_of(const EmbeddingRequest& request,
                             const std::vector<EncodedInput>& parts) {
    Json data = Json::array();
    int tokens = 0;
    for (const EncodedInput& part : parts) {
      tokens += part.tokens;
      Json embedding;
      if (request.base64)
        embedding = base64_of(part.embedding);
      else
        embedding = part.embedding.values();
      if (request.bare)
        data.push_back(std::move(embedding));
      else
        data.push_back(
            {{"object", "embedding"}, {"index", data.size()}, {"embedding", std::move(embedding)}});
    }
    if (request.bare) return dump_ordered_line(data);
    return dump_ordered_line({{"object", "list"},
                              {"data", std::move(data)},
                              {"model", request.model},
                              {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
  }

  const EmbeddingRequest request_;
  std::vector<EncodedInput> parts_;
};

}  // namespace

namespace {

EmbeddingRequest take_embedding_request(nlohmann::json& body, const AppContext& app,
                                        const EmbeddingStyle& style) {
  EmbeddingRequest r;
  r.name = style.input;
  r.bare = style.bare;
  r.model = check_model(app.config, body, r.lora);
  take(body, "user");
  auto input = take(body, style.input);
  if (!input) throw invalid_request(style.input, "is missing");
  set_inputs(std::move(*input), app.config.max_prompts, r);
  const std::string format = take_string(body, "encoding_format").value_or("float");
  if (format != "float" && format != "base64")
    throw invalid_request("encoding_format",
                          "\"" + format.substr(0, 40) + "\" is not one of float, base64");
  r.base64 = format == "base64";
  const auto size = take_int(body, "dimensions", 1, INT32_MAX);
  if (size && *size != app.embedding_size)
    throw not_supported("dimensions", "the model's vectors have " +
                                          std::to_string(app.embedding_size) +
                                          " dimensions, and are not shortened");
  return r;
}

}  // namespace

void embed(AppContext& app, const std::shared_ptr<Exchange>& exchange, nlohmann::json body,
           EmbeddingStyle style) {
  EmbeddingRequest r;
  std::vector<EngineApi::Request> requests;
  style.names.around([&] {
    r = take_embedding_request(body, app, style);
    const Urgency urgency = take_urgency(body, app.config);
    const auto kind = take(body, "pooling").value_or("mean");
    const proto::Pooling pooling = read_pooling(kind, take_bool(body, "normalize").value_or(true));
    FieldNames spellings;
    proto::GenerationOptions options = take_encoding_options(body, spellings);
    set_lora(r.lora, options);
    style.names.add(spellings);
    refuse_rest(body);
    requests.resize(r.inputs.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      *requests[i].prompt.mutable_encoder() = read_prompt_part(r.inputs[i], r.field_of(i));
      *requests[i].prompt.mutable_pooling() = pooling;
      requests[i].options = options;
      requests[i].timeout = urgency.timeout;
      requests[i].priority = urgency.priority;
    }
  });
  std::make_shared<EmbeddingJob>(app, exchange, std::move(r), std::move(style.names))
      ->start(std::move(requests));
}

void post_embeddings(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  embed(app, exchange, parse_body(exchange->request()), {});
}

}  // namespace tandem::server
