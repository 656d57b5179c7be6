#include "runtime/request/heads/head_json.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "base/strings/utf8.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/option_values.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/protocol/pooling_kind.h"
#include "runtime/request/heads/label_scores.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kText = "text";
constexpr const char* kPair = "text_pair";
constexpr const char* kIds = "prompt_token_ids";

bool has(const json& line, const char* key) {
  const auto it = line.find(key);
  return it != line.end() && !it->is_null();
}

proto::PromptPart part_of(const json& line) {
  if (has(line, kIds)) {
    for (const char* key : {kText, kPair})
      if (has(line, key)) throw invalid_request(key, "is given beside prompt_token_ids");
    return read_prompt_part(line[kIds], kIds);
  }
  if (!has(line, kText)) throw invalid_request(kText, "is missing");
  proto::PromptPart part = read_prompt_part(read_string(line[kText], kText), kText);
  if (has(line, kPair)) part.mutable_second()->set_text(read_string(line[kPair], kPair));
  return part;
}

// The params "pooling" and "normalize" leave, where they are of the encoder's output.
void take_pooling(json& params, proto::Pooling& pooling) {
  if (reads_decoder(pooling) || !params.is_object()) return;
  if (has(params, "pooling")) pooling.set_kind(read_pooling(params["pooling"], false).kind());
  if (has(params, "normalize")) pooling.set_normalize(read_bool(params["normalize"], "normalize"));
  for (const char* key : {"pooling", "normalize"}) params.erase(key);
}

std::span<const float> values_of(const proto::RequestOutput& output) {
  const auto& values = output.embedding().values();
  return {values.data(), static_cast<size_t>(values.size())};
}

[[noreturn]] void fail(const char* task) {
  throw InputError(ErrorKind::kInternal, std::string("the output is not that of ") + task);
}

// Of spans whose end is not before their start, that of the largest sum.
std::pair<size_t, size_t> best_span(std::span<const float> starts, std::span<const float> ends) {
  std::pair<size_t, size_t> best{0, 0};
  size_t start = 0;
  for (size_t end = 1; end < ends.size(); ++end) {
    if (starts[end] > starts[start]) start = end;
    if (starts[start] + ends[end] > starts[best.first] + ends[best.second]) best = {start, end};
  }
  return best;
}

}  // namespace

JsonRequest head_request_from_json(const json& line, const proto::Pooling& pooling,
                                   const json& defaults) {
  if (!line.is_object()) return request_from_json(line);
  json rest = json::object();
  for (const auto& [key, value] : line.items()) {
    if (key == kText || key == kPair || key == kIds) continue;
    if (key != "id" && key != "params" && key != "priority")
      throw invalid_request(
          key,
          "unknown field; a request has id, text, text_pair, prompt_token_ids, params and "
          "priority" +
              suggestion(key, {"id", kText, kPair, kIds, "params", "priority"}));
    rest[key] = value;
  }
  proto::Pooling wanted = pooling;
  if (rest.contains("params")) take_pooling(rest["params"], wanted);
  rest["prompt"] = "";
  JsonRequest request = request_from_json(rest, defaults);
  request.prompt.Clear();
  *request.prompt.mutable_encoder() = part_of(line);
  *request.prompt.mutable_pooling() = wanted;
  check_prompt(request.prompt);
  return request;
}

proto::Prompt head_prompt(const std::string& text, const std::string* second,
                          const proto::Pooling& pooling) {
  proto::Prompt out = text_prompt(text, kText);
  if (second != nullptr) {
    check_utf8(*second, kPair);
    out.mutable_encoder()->mutable_second()->set_text(*second);
  }
  *out.mutable_pooling() = pooling;
  return out;
}

json classification_to_json(const proto::RequestOutput& output, const json& id) {
  const proto::Labels& labels = output.inputs().labels();
  const auto logits = values_of(output);
  if (logits.empty() || std::ssize(logits) != labels.names_size()) fail("a classification");
  const int best = static_cast<int>(place_of_largest(logits));
  return {{"id", id},
          {"logits", std::vector<float>(logits.begin(), logits.end())},
          {"probs", probabilities_of(labels, logits)},
          {"label", labels.names(best)}};
}

json answer_to_json(const proto::RequestOutput& output, const json& id) {
  const auto values = values_of(output);
  const auto tokens = static_cast<size_t>(output.inputs().prompt_token_ids_size());
  if (tokens == 0 || values.size() != 2 * tokens) fail("an answer");
  std::vector<float> starts, ends;
  for (size_t i = 0; i < tokens; ++i) {
    starts.push_back(values[2 * i]);
    ends.push_back(values[2 * i + 1]);
  }
  const auto [start, end] = best_span(starts, ends);
  return {{"id", id}, {"start_logits", starts}, {"end_logits", ends}, {"best_span", {start, end}}};
}

json embedding_to_json(const proto::RequestOutput& output, const json& id) {
  const auto values = values_of(output);
  if (values.empty()) fail("an embedding");
  return {{"id", id}, {"embedding", std::vector<float>(values.begin(), values.end())}};
}

}  // namespace tandem
