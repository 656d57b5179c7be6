#include "runtime/request/request_processor.h"

#include <random>

#include "models/family.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"
#include "runtime/request/bad_words.h"
#include "runtime/request/language_rules.h"

namespace tandem {
namespace {

constexpr uint64_t kSeedStep = 0x9e3779b97f4a7c15ull;

// SplitMix64 (Steele et al. 2014): seeds of requests from the engine's.
uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Before anything else is made of a configuration that may not say what this library reads.
ModelConfig load_supported(const std::filesystem::path& model) {
  ModelConfig config = ModelConfig::load(model);
  find_family(config);
  return config;
}

std::optional<ImageProcessor> load_images(const ModelConfig& config) {
  const auto frames = limits_of(config).frames;
  if (!frames || !frames->image) return std::nullopt;
  auto images = ImageProcessor::load(config.directory);
  if (!images || !images->size()) return images;
  const ImagePatches& model = *frames->image;
  const auto [height, width] = *images->size();
  if (height != model.height || width != model.width)
    throw invalid_model((config.directory / "preprocessor_config.json").string(),
                        "makes images of " + std::to_string(width) + " x " +
                            std::to_string(height) + " pixels, the model reads " +
                            std::to_string(model.width) + " x " + std::to_string(model.height));
  return images;
}

// What looks for the encoder's ids among the decoder's has none to look at.
void check_without_ids(const proto::SamplingParams& params) {
  const char* const what = "needs an encoder that reads token ids, and those of the decoder";
  const double penalty = params.encoder_repetition_penalty();
  if (penalty != 0 && penalty != 1) throw invalid_request("encoder_repetition_penalty", what);
  if (params.encoder_no_repeat_ngram_size() > 0)
    throw invalid_request("encoder_no_repeat_ngram_size", what);
}

}  // namespace

RequestProcessor::RequestProcessor(const std::filesystem::path& model, std::optional<uint64_t> seed)
    : config_(load_supported(model)),
      tokenizer_(load_tokenizer(model)),
      images_(load_images(config_)),
      resolver_(config_, config_.vocab_size),
      next_seed_(seed.value_or(random_seed())) {}

PreparedRequest RequestProcessor::prepare(const proto::Prompt& prompt,
                                          const proto::GenerationOptions& options) {
  check_prompt(prompt);
  check_options(options);
  if (options.has_tgt_lang())
    return prepare_resolved(
        prompt, with_target_language(prompt, options, tokenizer_->languages(), resolver_));
  return prepare_resolved(prompt, options);
}

PreparedRequest RequestProcessor::prepare_resolved(const proto::Prompt& prompt,
                                                   const proto::GenerationOptions& options) {
  PreparedPrompt prepared = preprocess(prompt, options, tokenizer_.get(), config_, resolver_,
                                       images_ ? &*images_ : nullptr);
  if (prepared.pooling)
    return {std::move(prepared.inputs), resolver_.resolve_pooling(options, *prepared.pooling)};
  const std::optional<int32_t> last = prepared.last_target_token;
  PreparedRequest request{std::move(prepared.inputs),
                          last ? resolver_.resolve_scoring(options, prepared.lengths, *last)
                               : resolver_.resolve(options, prepared.lengths)};
  if (request.inputs.has_encoder_frames() || resolver_.has_two_vocabularies())
    check_without_ids(request.params);
  const auto& words = options.bad_words().texts();
  if (!last)
    for (const auto& ids : bad_words_ids({words.begin(), words.end()}, *tokenizer_))
      request.params.add_bad_words_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  if (!request.params.has_seed())
    request.params.set_seed(scramble(next_seed_.fetch_add(kSeedStep) + kSeedStep));
  return request;
}

}  // namespace tandem
