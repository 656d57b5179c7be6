#include "runtime/request/heads/head_inputs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/config/decoder_prompt.h"
#include "models/config/labels.h"
#include "runtime/request/request_error.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

proto::Labels::Activation activation_of(ModelLabels::Activation activation) {
  switch (activation) {
    case ModelLabels::Activation::kSoftmax: return proto::Labels::SOFTMAX;
    case ModelLabels::Activation::kSigmoid: return proto::Labels::SIGMOID;
    case ModelLabels::Activation::kNone: return proto::Labels::NONE;
  }
  return proto::Labels::NONE;
}

// Tokens up to and with the source's last end token: the decoder looks back only, so those behind
// change nothing.
size_t length_to_end(const Ids& source, const ModelConfig& config, const std::string& field) {
  if (config.eos_token_id.empty())
    throw invalid_model("config.json", "has no eos_token_id, at which a classification reads");
  const int32_t end = config.eos_token_id.front();
  const auto last = std::find(source.rbegin(), source.rend(), end);
  if (last == source.rend())
    throw invalid_request(field, "has no end token (" + std::to_string(end) +
                                     "): a classification reads the decoder at the last one");
  return static_cast<size_t>(source.rend() - last);
}

}  // namespace

void add_head_inputs(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                     const ModelConfig& config, const ParamsResolver& resolver,
                     PreparedPrompt& out) {
  const std::string& field = prompt.encoder().field();
  const auto& encoder = out.inputs.encoder_prompt_token_ids();
  const Ids source(encoder.begin(), encoder.end());
  Ids decoder = shift_rule(config)(source, config, resolver.decoder_start(options));
  if (prompt.pooling().kind() == proto::Pooling::LABELS) {
    decoder.resize(length_to_end(source, config, field));
    *out.inputs.mutable_labels() = labels_message(config);
  }
  const int positions = resolver.decoder_positions();
  if (positions > 0 && std::ssize(decoder) > positions)
    throw ContextLengthError(field, positions, std::ssize(decoder));
  out.inputs.mutable_prompt_token_ids()->Assign(decoder.begin(), decoder.end());
}

void check_alignment(const proto::Prompt& prompt, const ModelConfig& config,
                     const ParamsResolver& resolver, const proto::EncoderDecoderInputs& inputs) {
  const proto::Alignment& wanted = prompt.pooling().alignment();
  const auto refuse = [](const char* what, int64_t given, int64_t most) {
    throw invalid_request(std::string("pooling.alignment.") + what,
                          "is " + std::to_string(given) + ", there are " + std::to_string(most));
  };
  if (resolver.frames() == nullptr || !resolver.frames()->sound)
    throw not_supported("pooling", "alignments are of models that hear");
  const int tokens = inputs.prompt_token_ids_size(), positions = resolver.decoder_positions();
  if (positions > 0 && tokens > positions)
    throw ContextLengthError(prompt.decoder().field(), positions, tokens);
  if (wanted.first_token() >= tokens) refuse("first_token", wanted.first_token(), tokens);
  if (const int length = inputs.encoder_frames().length(); wanted.positions() > length)
    refuse("positions", wanted.positions(), length);
  for (const proto::AttentionHead& head : wanted.heads()) {
    if (head.layer() < 0 || head.layer() >= config.decoder_layers)
      refuse("heads.layer", head.layer(), config.decoder_layers);
    if (head.head() < 0 || head.head() >= config.decoder_attention_heads)
      refuse("heads.head", head.head(), config.decoder_attention_heads);
  }
}

proto::Labels labels_message(const ModelConfig& config) {
  ModelLabels labels = labels_of(config);
  proto::Labels out;
  for (std::string& name : labels.names) out.add_names(std::move(name));
  out.set_activation(activation_of(labels.activation));
  if (labels.entailment) out.set_entailment(*labels.entailment);
  return out;
}

}  // namespace tandem
