// The list of families, and look-ups in it.
#include <algorithm>
#include <deque>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "models/family.h"

namespace tandem {

// A line a family, expanded twice: the declaration and the entry. The first one's tokenizer is
// taken for vocabularies that name no class.
#define TANDEM_FAMILIES(FAMILY)  \
  FAMILY(bart)                   \
  FAMILY(bigbird_pegasus)        \
  FAMILY(blenderbot)             \
  FAMILY(blenderbot_small)       \
  FAMILY(blip)                   \
  FAMILY(canary)                 \
  FAMILY(cohere_asr)             \
  FAMILY(encoder_decoder)        \
  FAMILY(florence2)              \
  FAMILY(fsmt)                   \
  FAMILY(led)                    \
  FAMILY(longt5)                 \
  FAMILY(m2m100)                 \
  FAMILY(marian)                 \
  FAMILY(mbart)                  \
  FAMILY(moonshine)              \
  FAMILY(moonshine_streaming)    \
  FAMILY(mt5)                    \
  FAMILY(mvp)                    \
  FAMILY(nllb_moe)               \
  FAMILY(pegasus)                \
  FAMILY(pegasus_x)              \
  FAMILY(pix2struct)             \
  FAMILY(plbart)                 \
  FAMILY(prophetnet)             \
  FAMILY(seamless_m4t)           \
  FAMILY(seamless_m4t_v2)        \
  FAMILY(speech_encoder_decoder) \
  FAMILY(speech_to_text)         \
  FAMILY(switch_transformers)    \
  FAMILY(t5)                     \
  FAMILY(t5gemma)                \
  FAMILY(t5gemma2)               \
  FAMILY(tokenizer_classes)      \
  FAMILY(udop)                   \
  FAMILY(umt5)                   \
  FAMILY(vision_encoder_decoder) \
  FAMILY(whisper)

#define FAMILY(name) ModelFamily name##_family();
TANDEM_FAMILIES(FAMILY)
#undef FAMILY

namespace {

std::deque<ModelFamily>& families() {
#define FAMILY(name) name##_family(),
  static std::deque<ModelFamily> list = {TANDEM_FAMILIES(FAMILY)};
#undef FAMILY
  return list;
}

// Its tensors are codes, which mean nothing without their scales.
void refuse_quantized(const ModelConfig& config) {
  if (!config.raw.is_object()) return;
  const ConfigReader in = config.reader();
  const nlohmann::json* quantization = in.find("quantization_config");
  if (quantization == nullptr) quantization = in.find("compression_config");
  if (quantization == nullptr) return;
  const auto method = quantization->find("quant_method");
  const bool named = quantization->is_object() && method != quantization->end();
  throw not_supported(config.file() + ": quantization_config",
                      "the weights are quantized" +
                          (named ? " (" + ConfigReader::show(*method) + ")" : std::string()) +
                          ", which is not supported; take the model that they were made of, and "
                          "--dtype int8 or --quantization");
}

// By the endings that transformers gives to classes with a half of a model.
std::string lacking_half(const std::string& architecture) {
  const auto ends = [&](const char* ending) { return architecture.ends_with(ending); };
  if (ends("ForCausalLM") || ends("LMHeadModel"))
    return ": it is a decoder alone, a model for vLLM or llama.cpp";
  if (ends("ForMaskedLM") || ends("ForTokenClassification") || ends("ForSequenceClassification"))
    return ": it is an encoder alone";
  return "";
}

}  // namespace

void register_family(ModelFamily family) {
  for (ModelFamily& known : families()) {
    if (known.model_type != family.model_type) continue;
    known = std::move(family);
    return;
  }
  families().push_back(std::move(family));
}

const ModelFamily* family_of_type(std::string_view model_type) {
  for (const ModelFamily& f : families())
    if (f.model_type == model_type) return &f;
  return nullptr;
}

const ModelFamily* family_of_architecture(std::string_view architecture) {
  for (const ModelFamily& f : families())
    if (std::find(f.architectures.begin(), f.architectures.end(), architecture) !=
        f.architectures.end())
      return &f;
  return nullptr;
}

bool is_supported(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return family != nullptr && family->make != nullptr;
}

const ModelFamily& find_family(const ModelConfig& config) {
  refuse_quantized(config);
  if (is_supported(config)) return *family_of_type(config.model_type);
  std::string known;
  for (const ModelFamily& f : families())
    if (f.make != nullptr) known += (known.empty() ? "" : ", ") + f.model_type;
  throw invalid_model(config.file(), printable(config.architecture) + " (" +
                                         printable(config.model_type) +
                                         ") is not an encoder/decoder model that Tandem supports" +
                                         lacking_half(config.architecture) +
                                         "; supported, by model_type: " + known);
}

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const ModelFamily& f : families())
    if (f.make != nullptr)
      names.insert(names.end(), f.architectures.begin(), f.architectures.end());
  std::sort(names.begin(), names.end());
  return names;
}

ModelLimits limits_of(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return (family != nullptr ? family->limits : encoder_decoder_limits)(config);
}

DecoderPromptRule decoder_prompt_rule(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return family != nullptr ? family->decoder_prompt : plain_decoder_prompt;
}

std::vector<std::string> speech_prompt(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return family != nullptr ? family->speech_prompt : std::vector<std::string>();
}

ShiftRule shift_rule(const ModelConfig& config) {
  const ModelFamily* family = family_of_type(config.model_type);
  return family != nullptr ? family->shift : start_before_source;
}

ModelLimits Model::limits() const { return limits_of(config()); }

std::vector<TokenizerRule> tokenizer_rules() {
  std::vector<TokenizerRule> rules;
  for (const ModelFamily& f : families())
    rules.insert(rules.end(), f.tokenizers.begin(), f.tokenizers.end());
  return rules;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory) {
  return Tokenizer::load(directory, tokenizer_rules());
}

}  // namespace tandem
