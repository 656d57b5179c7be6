// Whisper (Radford et al. 2022; HuggingFace WhisperForConditionalGeneration): two convolutions over
// a log-mel spectrogram, then pre-norm layers; keys have no bias. docs/speech.md has the way from a
// file to tokens.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "models/blocks/convolution.h"
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace whisper {

// Frames 10 ms apart make positions 20 ms apart.
constexpr int kWidth = 3, kStride = 2, kPadding = 1;

struct Sizes {
  int mel_bins, source_positions;
};

Sizes sizes_of(const ModelConfig& c) {
  const ConfigReader in = c.reader();
  return {in.size("num_mel_bins", ConfigReader::kMaxWidth).value_or(80),
          in.size("max_source_positions", ConfigReader::kMaxRows).value_or(1500)};
}

class Whisper final : public Seq2Seq {
 public:
  Whisper(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
          const SideOptions& of_encoder, const Weights& decoder, const SideOptions& of_decoder)
      : Seq2Seq(c, b, std::move(parts), encoder, of_encoder, decoder, of_decoder) {
    if (!b.encoder_layers.has_first()) return;
    first_.emplace(encoder / "conv1", b,
                   ConvolutionShape{sizes_of(c).mel_bins, c.d_model, kWidth, 1, kPadding},
                   Activation::kGelu);
    second_.emplace(encoder / "conv2", b,
                    ConvolutionShape{c.d_model, c.d_model, kWidth, kStride, kPadding},
                    Activation::kGelu);
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    const Tensor rows = first_->forward(in.encoder_frames, in.frame_start_loc, in.frame_start_loc,
                                        in.encoder_frames.dim(0));
    return second_->forward(rows, in.frame_start_loc, in.encoder_start_loc,
                            in.encoder_positions.dim(0));
  }

 private:
  std::optional<Convolution> first_, second_;
};

SideOptions side_of(SideOptions side) {
  side.final_norm = "layer_norm";
  // Keys have none: it would add the same to all scores.
  side.layer.self_attention.bias = side.layer.cross_attention.bias = Bias::kOptional;
  return side;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "decoder.layer_norm.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  ModelConfig tied = c;  // the head has a name of its own
  tied.tie_word_embeddings = true;
  const TokenTables tables(root, model, tied);
  const Shape shape{c.vocab_size, c.d_model};
  const Weights own = root / "proj_out";
  const std::optional<HostTensor> head =
      c.tie_word_embeddings ? own.find("weight", shape) : own.get("weight", shape);
  Seq2Seq::Parts parts{
      {},
      [&] {
        return Embeddings(VocabParallelEmbedding(tables.decoder, b, 1.0f),
                          Positions::learned(decoder, b, c.max_position_embeddings, c.d_model, 0));
      },
      [&] { return ParallelLMHead(head.value_or(tables.head), Tensor(), b); }};
  parts.head_name = "proj_out";
  parts.frame_positions = [&] {
    return Positions::learned(encoder, b, sizes_of(c).source_positions, c.d_model, 0);
  };
  return std::make_unique<Whisper>(c, b, std::move(parts), encoder,
                                   side_of(encoder_side(c, NormPlace::kPre)), decoder,
                                   side_of(decoder_side(c, NormPlace::kPre)));
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 51865,
                                           .d_model = 384,
                                           .encoder_layers = 4,
                                           .decoder_layers = 4,
                                           .encoder_attention_heads = 6,
                                           .decoder_attention_heads = 6,
                                           .encoder_ffn_dim = 1536,
                                           .decoder_ffn_dim = 1536,
                                           .activation = "gelu"};

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  if (const auto heads = in.size("num_key_value_heads", ConfigReader::kMaxCount))
    out.encoder_attention_heads = *heads;  // another of HuggingFace's general names for it
  out.scale_embedding = false;             // HuggingFace reads it and does not scale
  out.max_position_embeddings =
      in.size("max_target_positions", ConfigReader::kMaxRows).value_or(448);
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  const Sizes sizes = sizes_of(c);
  out.encoder_positions = sizes.source_positions;
  out.frames = FrameLimits{sizes.mel_bins, [](int64_t frames) {
                             return Convolution::rows_of(frames, {1, 1, kWidth, kStride, kPadding});
                           }};
  out.frames->sound = SoundInput::kLogMel;
  // Of the frames of a position: they, their windows and what is made of them; its own window.
  const int64_t stem = kStride * (int64_t{sizes.mel_bins} * (1 + kWidth) + c.d_model) +
                       int64_t{kWidth} * c.d_model + c.d_model;
  out.scratch_values_per_token = std::max(out.scratch_values_per_token, stem);
  return out;
}

// Unlike other families': a prompt may begin with the text before, so no start is put before it.
DecoderPrompt decoder_prompt(const std::optional<std::vector<int32_t>>& given,
                             const DecoderPromptContext& context) {
  if (given && !given->empty()) return {*given};
  return plain_decoder_prompt(given, context);
}

// <|12.34|>, which is no text.
bool is_time(std::string_view token) {
  if (token.size() < 7 || !token.starts_with("<|") || !token.ends_with("|>")) return false;
  const std::string_view number = token.substr(2, token.size() - 4);
  const size_t point = number.find('.');
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return point != std::string_view::npos && digits(number.substr(0, point)) &&
         digits(number.substr(point + 1));
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"WhisperTokenizer", "whisper"};
  rule.special_tokens = class_tokens({{"bos_token", "<|endoftext|>"},
                                      {"eos_token", "<|endoftext|>"},
                                      {"unk_token", "<|endoftext|>"}});
  rule.single = {"<|startoftranscript|>", "<|notimestamps|>", "$A", "eos_token"};
  rule.pair = {"<|startoftranscript|>", "<|notimestamps|>", "$A", "$B", "eos_token"};
  rule.left_out = is_time;
  rule.template_keys = {"language", "task", "predict_timestamps"};  // of the prefix
  return rule;
}

}  // namespace whisper

ModelFamily whisper_family() {
  using namespace whisper;
  return {.model_type = "whisper",
          .architectures = {"WhisperForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 50256, .pad = 50256, .eos = 50256, .decoder_start = 50257},
          .read_config = read_config,
          .limits = limits,
          .decoder_prompt = decoder_prompt,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
