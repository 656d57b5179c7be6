#include "runtime/request/request_processor.h"

#include <random>

#include "base/log/log.h"
#include "base/strings/printable.h"
#include "models/family.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "runtime/request/adapter_names.h"
#include "runtime/request/constraint_store.h"
#include "runtime/request/heads/task_rules.h"
#include "runtime/request/longest_input.h"
#include "runtime/request/params/bad_words.h"
#include "runtime/request/params/language_rules.h"

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
  const ModelLimits limits = limits_of(config);
  if (!limits.frames || !limits.frames->reads_images()) return std::nullopt;
  auto images = ImageProcessor::load(config.directory);
  if (images)
    images->check_for(*limits.frames, limits.encoder_positions.value_or(0),
                      (config.directory / "preprocessor_config.json").string());
  return images;
}

const std::string& field_of_sound(const proto::Prompt& prompt) {
  static const std::string field = kSoundField;
  return prompt.encoder().field().empty() ? field : prompt.encoder().field();
}

// It is transcribed, in as many windows as it takes; else it is one window of a request as others.
bool is_transcription(const proto::Prompt& prompt) {
  return !prompt.has_decoder() && !prompt.has_target() && !prompt.has_pooling();
}

// What looks for the encoder's ids among the decoder's has none to look at. (Ids of another
// vocabulary count as they are, as in HuggingFace; those that the decoder lacks are passed over.)
void check_without_ids(const proto::SamplingParams& params) {
  const char* const what = "needs an encoder that reads token ids";
  const double penalty = params.encoder_repetition_penalty();
  if (penalty != 0 && penalty != 1) throw invalid_request("encoder_repetition_penalty", what);
  if (params.encoder_no_repeat_ngram_size() > 0)
    throw invalid_request("encoder_no_repeat_ngram_size", what);
}

}  // namespace

RequestProcessor::RequestProcessor(const std::filesystem::path& model, std::optional<uint64_t> seed,
                                   const std::string& vad_model)
    : config_(load_supported(model)),
      tokenizer_(load_tokenizer(model)),
      images_(load_images(config_)),
      own_languages_(OwnLanguages::of(config_, tokenizer_->languages())),
      resolver_(config_, config_.vocab_size),
      constraints_(ConstraintStore::of(model, config_.vocab_size)),
      adapters_(std::make_shared<AdapterNames>(proto::AdapterConfig(), std::string())),
      next_seed_(seed.value_or(random_seed())) {
  if (!SpeechSettings::has_speech(config_)) return;
  const auto voice = std::make_shared<const VoiceSource>(vad_model);
  try {
    auto settings = std::make_shared<SpeechSettings>(SpeechSettings::load(config_));
    settings->voice = voice;
    speech_ = std::move(settings);
  } catch (const InputError& error) {
    no_speech_ = error;
  }
}

RequestProcessor::RequestProcessor(const proto::EngineConfig& config)
    : RequestProcessor(config.loading().model(),
                       config.has_seed() ? std::optional(config.seed()) : std::nullopt,
                       config.vad_model()) {
  adapters_ = std::make_shared<AdapterNames>(config.adapters(), find_family(config_).base);
}

PreparedRequest RequestProcessor::prepare(const proto::Prompt& prompt,
                                          const proto::GenerationOptions& given) {
  check_prompt(prompt);
  check_options(given);
  if (given.has_lora()) adapters_->find(given.lora());
  check_task(prompt, config_);
  if (given.has_constraint() && given.has_split() && given.split() != "none")
    throw invalid_request("split", "cannot be combined with " + given.constraint().field() +
                                       ", which is of one text");
  std::optional<proto::GenerationOptions> changed;
  if (given.has_src_lang() || given.has_tgt_lang()) changed = own_languages_.without(given);
  const proto::GenerationOptions& options = changed ? *changed : given;
  if (prompt.encoder().has_sound()) {
    const std::string& field = field_of_sound(prompt);
    speech(field);
    return prepare(MediaSource::of_bytes(prompt.encoder().sound().file(), field), prompt, options);
  }
  const auto prepare_whole = [&] {
    if (options.has_tgt_lang())
      return prepare_resolved(
          prompt, with_target_language(prompt, options, tokenizer_->languages(), resolver_));
    return prepare_resolved(prompt, options);
  };
  // Most texts fit: then what they are found to fit by is their request.
  if (options.split() == "auto" && prompt.encoder().has_text()) {
    try {
      PreparedRequest whole = prepare_whole();
      if (encoder_length(whole.inputs) <= static_cast<int>(longest_input(*tokenizer_, resolver_)))
        return whole;
    } catch (const InputError& error) {
      if (error.kind() != ErrorKind::kResource) throw;
    }
  }
  if (auto document = plan_document(prompt, options, *tokenizer_, resolver_)) {
    PreparedRequest out;
    out.document = std::move(*document);
    return out;
  }
  return prepare_whole();
}

PreparedRequest RequestProcessor::prepare(const MediaSource& sound, const proto::Prompt& prompt,
                                          const proto::GenerationOptions& options) {
  check_options(options);
  if (options.has_lora()) adapters_->find(options.lora());
  check_speech_params(prompt.encoder().sound().params());
  const std::string& field = field_of_sound(prompt);
  AudioFile file = AudioFile::open(sound, field, speech(field).mel.sampling_rate);
  PreparedRequest out = prepare_sound(file, prompt, options);
  for (const std::string& warning : file.warnings())
    log_info("a sound was not decoded in full: {}", warning);
  return out;
}

PreparedRequest RequestProcessor::prepare_file(const std::filesystem::path& sound,
                                               const proto::Prompt& prompt,
                                               const proto::GenerationOptions& options) {
  const std::string& field = field_of_sound(prompt);
  speech(field);
  return prepare(MediaSource::open(sound, field), prompt, options);
}

const SpeechSettings& RequestProcessor::speech(const std::string& field) const {
  if (no_speech_) throw *no_speech_;
  if (!speech_)
    throw invalid_request(field, "must not be sound: the model hears nothing (" +
                                     printable(config_.model_type) + ")");
  return *speech_;
}

PreparedRequest RequestProcessor::prepare_sound(AudioFile& file, const proto::Prompt& prompt,
                                                const proto::GenerationOptions& options) {
  const proto::SpeechParams& params = prompt.encoder().sound().params();
  if (is_transcription(prompt)) {
    PreparedRequest out;
    out.transcription = std::make_shared<Transcription>(
        speech_, read_speech(file, *speech_, field_of_sound(prompt), params), params, options,
        *tokenizer_);
    return out;
  }
  const std::string& field = field_of_sound(prompt);
  const LogMel mel = speech_->frames_of(file, field);
  if (mel.frames > speech_->window_frames)
    throw InputError(ErrorKind::kResource,
                     field + ": is longer than a window of " +
                         std::to_string(speech_->mel.chunk_length) +
                         " seconds; without a decoder prompt of its own it is transcribed window "
                         "by window",
                     field);
  proto::Prompt window;
  window.mutable_encoder()->set_field(field);
  *window.mutable_encoder()->mutable_frames() = window_of(mel, *speech_, 0);
  if (prompt.has_decoder()) *window.mutable_decoder() = prompt.decoder();
  if (prompt.has_target()) *window.mutable_target() = prompt.target();
  window.set_append_eos(prompt.append_eos());
  if (prompt.has_pooling()) *window.mutable_pooling() = prompt.pooling();
  return prepare(window, options);
}

PreparedRequest RequestProcessor::prepare_resolved(const proto::Prompt& prompt,
                                                   const proto::GenerationOptions& options) {
  if (!options.has_lora()) return resolve(prompt, options);
  proto::GenerationOptions others = options;
  others.clear_lora();
  PreparedRequest out = resolve(prompt, others);
  *out.params.mutable_adapter() = adapters_->find(options.lora());
  return out;
}

PreparedRequest RequestProcessor::resolve(const proto::Prompt& prompt,
                                          const proto::GenerationOptions& options) {
  PreparedPrompt prepared = preprocess(prompt, options, tokenizer_.get(), config_, resolver_,
                                       images_ ? &*images_ : nullptr);
  if (prepared.pooling)
    return {std::move(prepared.inputs), resolver_.resolve_pooling(options, *prepared.pooling)};
  const std::optional<int32_t> last = prepared.last_target_token;
  PreparedRequest request{std::move(prepared.inputs),
                          last ? resolver_.resolve_scoring(options, prepared.lengths, *last)
                               : resolver_.resolve(options, prepared.lengths)};
  if (!resolver_.limits().reads_ids()) check_without_ids(request.params);
  if (request.params.has_constraint()) constraints_->get(request.params.constraint());
  const auto& words = options.bad_words().texts();
  if (!last)
    for (const auto& ids : bad_words_ids({words.begin(), words.end()}, *tokenizer_))
      request.params.add_bad_words_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  if (!request.params.has_seed())
    request.params.set_seed(scramble(next_seed_.fetch_add(kSeedStep) + kSeedStep));
  return request;
}

}  // namespace tandem
