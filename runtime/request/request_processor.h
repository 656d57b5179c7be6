// The first half of a request's life: what is asked for → token ids and resolved parameters.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "models/config/config.h"
#include "runtime/media/media_source.h"
#include "runtime/media/sound/audio_file.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/document_plan.h"
#include "runtime/request/params/language_rules.h"
#include "runtime/request/params/params_resolver.h"
#include "runtime/request/prompt.h"
#include "runtime/request/request_error.h"
#include "text/tokenizer.h"

namespace tandem {

class AdapterNames;     // runtime/request/adapter_names.h
class ConstraintStore;  // runtime/request/constraint_store.h

struct PreparedRequest {
  proto::EncoderDecoderInputs inputs;
  proto::SamplingParams params;  // always with a seed, unless nothing is generated
  // Of sound, and then nothing else: the requests that answer it.
  std::shared_ptr<Transcription> transcription = {};
  // Of a text that is computed in parts, and then nothing else.
  std::optional<PreparedDocument> document = {};
};

// Reads config and tokenizer of a checkpoint, not its weights. Usable from any thread.
class RequestProcessor {
 public:
  // seed: of requests that have none, in the order of prepare() calls; absent: random. vad_model:
  // VoiceSource's. Throws InputError naming the file.
  RequestProcessor(const std::filesystem::path& model, std::optional<uint64_t> seed,
                   const std::string& vad_model = "");
  // The config's model, seed, network and adapters.
  explicit RequestProcessor(const proto::EngineConfig& config);

  // Validates, tokenizes, truncates, resolves. Decodes sound, which takes seconds for an hour of
  // it. Sound becomes a transcription; it becomes frames if the request has a decoder prompt or
  // asks for the encoder's output only. Throws InputError naming the field.
  PreparedRequest prepare(const proto::Prompt& prompt, const proto::GenerationOptions& given);
  // The same of sound that is not in the prompt: a file of this host, a body of HTTP. The prompt's
  // sound has no bytes.
  PreparedRequest prepare(const MediaSource& sound, const proto::Prompt& prompt,
                          const proto::GenerationOptions& options);
  // Of a file of this host; "-" is standard input.
  PreparedRequest prepare_file(const std::filesystem::path& sound, const proto::Prompt& prompt,
                               const proto::GenerationOptions& options);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& model_config() const { return config_; }
  AdapterNames& adapters() const { return *adapters_; }
  bool reads_images() const { return images_.has_value(); }
  // Null: the model hears nothing, or its files do not say how.
  const SpeechSettings* speech_settings() const { return speech_.get(); }

 private:
  // Languages are ids by then.
  PreparedRequest prepare_resolved(const proto::Prompt& prompt,
                                   const proto::GenerationOptions& options);
  PreparedRequest resolve(const proto::Prompt& prompt, const proto::GenerationOptions& options);
  PreparedRequest prepare_sound(AudioFile& file, const proto::Prompt& prompt,
                                const proto::GenerationOptions& options);
  const SpeechSettings& speech(const std::string& field) const;

  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ImageProcessor> images_;  // of a model that reads images
  // Of a model that hears; else what is wrong with its files, for whoever sends sound.
  std::shared_ptr<const SpeechSettings> speech_;
  std::optional<InputError> no_speech_;
  OwnLanguages own_languages_;
  ParamsResolver resolver_;
  std::shared_ptr<ConstraintStore> constraints_;
  std::shared_ptr<AdapterNames> adapters_;
  std::atomic<uint64_t> next_seed_;
};

}  // namespace tandem
