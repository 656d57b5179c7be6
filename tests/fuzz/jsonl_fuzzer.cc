// One line of `tandem generate --jsonl`: prompt and parameters, and a few tokens sampled with them.
// Bad input ends in an InputError, whatever it is.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/params/language_rules.h"
#include "runtime/request/params/params_resolver.h"
#include "runtime/request/prompt.h"
#include "runtime/sampling/sampler.h"
#include "runtime/sampling/stop_rules.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using nlohmann::json;
constexpr int kVocab = 300;

ModelConfig make_config() {
  ModelConfig config;
  config.model_type = "bart";
  config.max_position_embeddings = 64;
  config.bos_token_id = 0;
  config.decoder_start_token_id = 2;
  config.raw = {{"task_specific_params", {{"t", {{"prefix", "do: "}, {"num_beams", 2}}}}}};
  config.eos_token_id = {2};
  config.generation = {{"max_length", 20}, {"forced_eos_token_id", 2}};
  return config;
}

// Its tokens may have global attention.
ModelConfig make_led() {
  ModelConfig config = make_config();
  config.model_type = "led";
  config.raw = {{"max_encoder_position_embeddings", 64}, {"max_decoder_position_embeddings", 64}};
  return config;
}

void generate(const PreparedPrompt& prompt, const proto::SamplingParams& params) {
  const auto& encoder = prompt.inputs.encoder_prompt_token_ids();
  const auto& decoder = prompt.inputs.prompt_token_ids();
  const std::vector<int32_t> encoder_ids(encoder.begin(), encoder.end());
  const std::vector<int32_t> prompt_ids(decoder.begin(), decoder.end());
  std::vector<int32_t> output;
  StopStringMatcher matcher(params);
  const FakeTokenizer tokenizer;
  TANDEM_CHECK_GT(params.max_tokens(), 0);
  for (int step = 0; step < 4 && step < params.max_tokens(); ++step) {
    std::vector<float> logits(kVocab);
    for (size_t i = 0; i < logits.size(); ++i)
      logits[i] =
          static_cast<float>((i * 2654435761u + static_cast<size_t>(step) * 97) % 1000) / 100.0f;
    const auto out = sample({&params, encoder_ids, prompt_ids, output, 0}, logits);
    TANDEM_CHECK(out.token_id() >= 0 && out.token_id() < kVocab);
    output.push_back(out.token_id());
    if (tokenizer.size() > out.token_id()) matcher.append(tokenizer.token_bytes(out.token_id()));
    if (check_stop(params, out.token_id(), step + 1).status != SequenceStatus::kRunning) break;
  }
  matcher.finish();
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  static const ModelConfig config = make_config();
  static const ParamsResolver resolver(config, kVocab);
  static const ModelConfig led = make_led();
  static const ParamsResolver led_resolver(led, kVocab);
  static const FakeTokenizer tokenizer = [] {
    FakeTokenizer out;
    out.named = LanguageSet({"", "", "", LanguageSet::Rule::Target::kForcedBos},
                            {{"en_XX", 5}, {"fr_XX", 6}}, /*has_source=*/true, "en_XX");
    return out;
  }();
  json request = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object()) return 0;
  static const json null;
  const json& prompt = request.contains("prompt") ? request["prompt"] : null;
  const json& params = request.contains("params") ? request["params"] : null;
  try {
    const proto::Prompt read = read_prompt(prompt);
    const proto::GenerationOptions given = read_options(params);
    check_options(given);
    const auto options = with_target_language(read, given, tokenizer.languages(), resolver);
    const PreparedPrompt prepared = preprocess(read, options, &tokenizer, config, resolver);
    const auto last = prepared.last_target_token;
    generate(prepared, last ? resolver.resolve_scoring(options, prepared.lengths, *last)
                            : resolver.resolve(options, prepared.lengths));
  } catch (const InputError&) {
  }
  try {
    const auto inputs =
        preprocess(read_prompt(prompt), read_options(params), &tokenizer, led, led_resolver).inputs;
    int32_t before = -1;
    for (const int32_t at : inputs.global_attention()) {
      TANDEM_CHECK(at > before && at < inputs.encoder_prompt_token_ids_size());
      before = at;
    }
  } catch (const InputError&) {
  }
  json defaults;
  if (request.contains("params")) defaults.swap(request["params"]);
  ModelConfig other = make_config();
  try {  // the same as a task's
    other.raw = {{"task_specific_params", {{"t", defaults}}}};
    proto::GenerationOptions task;
    task.set_task("t");
    ParamsResolver(other, kVocab).resolve(task, {2, true});
  } catch (const InputError&) {
  }
  try {  // the same as a generation_config.json
    other.generation = std::move(defaults);
    ParamsResolver(other, kVocab).resolve({}, {2, true});
  } catch (const InputError&) {
  }
  return 0;
}
