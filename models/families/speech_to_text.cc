// Speech2Text (Wang et al. 2020; HuggingFace Speech2TextForConditionalGeneration): gated
// convolutions over Kaldi's filter banks, each halving the length, then pre-norm layers; sinusoidal
// positions as fairseq's.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/printable.h"
#include "models/blocks/convolution.h"
#include "models/blocks/fairseq_model.h"
#include "models/blocks/seq2seq.h"
#include "models/family.h"

namespace tandem {
namespace speech_to_text {

constexpr int kPad = 1;     // where config.json names none
constexpr int kStride = 2;  // of each convolution

// Keys of config.json that ModelConfig does not have.
struct Sizes {
  int features = 0, source_positions = 0;
  std::vector<ConvolutionShape> steps;  // out: behind the gate
};

std::vector<int> widths_of(const ConfigReader& in) {
  const char* key = "conv_kernel_sizes";
  const nlohmann::json* list = in.find(key);
  std::vector<int> out = {5, 5};
  if (list != nullptr) {
    out.clear();
    if (!list->is_array() || list->empty()) in.fail(key, "must be a list of sizes");
    for (const nlohmann::json& width : *list) {
      if (!width.is_number_integer() || width < 1 || width > 1000)
        in.fail(key, "has " + in.show(width) + ", must be integers from 1 to 1000");
      out.push_back(width.get<int>());
    }
  }
  const int count = size_or(in, "num_conv_layers", 16, 2);
  if (count != static_cast<int>(out.size()))
    in.fail(key, "has " + std::to_string(out.size()) + " sizes, but num_conv_layers is " +
                     std::to_string(count));
  return out;
}

Sizes sizes_of(const ConfigReader& in, int d_model) {
  Sizes out;
  out.features =
      size_or(in, "input_feat_per_channel", 100'000, 80) * size_or(in, "input_channels", 10, 1);
  out.source_positions = size_or(in, "max_source_positions", ConfigReader::kMaxRows, 6000);
  const int channels = size_or(in, "conv_channels", ConfigReader::kMaxWidth, 1024);
  if (channels % 2 != 0) in.fail("conv_channels", "is odd: one half gates the other");
  int64_t width = out.features;
  const std::vector<int> widths = widths_of(in);
  for (size_t i = 0; i < widths.size(); ++i) {
    const int64_t next = i + 1 < widths.size() ? channels / 2 : d_model;
    out.steps.push_back({width, next, widths[i], kStride, widths[i] / 2});
    width = next;
  }
  return out;
}

Sizes sizes_of(const ModelConfig& c) { return sizes_of(c.reader(), c.d_model); }

// (A convolution of an even width makes one row more at times, which HuggingFace masks.)
int64_t positions_of(int64_t frames, size_t steps) {
  for (size_t i = 0; i < steps; ++i) frames = (frames - 1) / kStride + 1;
  return frames;
}

class Speech2Text final : public Seq2Seq {
 public:
  Speech2Text(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
              const SideOptions& of_encoder, const Weights& decoder, const SideOptions& of_decoder)
      : Seq2Seq(c, b, std::move(parts), encoder, of_encoder, decoder, of_decoder) {
    if (!b.encoder_layers.has_first()) return;
    const std::vector<ConvolutionShape> steps = sizes_of(c).steps;
    for (size_t i = 0; i < steps.size(); ++i)
      steps_.emplace_back(encoder / "conv" / "conv_layers" / static_cast<int>(i), b, steps[i],
                          i + 1 < steps.size() ? 1.0f : embedding_scale(c));
  }

 protected:
  Tensor embed_source(const StepTensors& in) override {
    Tensor rows = in.encoder_frames, starts = in.frame_start_loc;
    for (size_t i = 0; i + 1 < steps_.size(); ++i) {
      const Convolution::Rows next = steps_[i].rows_behind(starts);
      rows = steps_[i].forward(rows, starts, next.starts, next.count);
      starts = next.starts;
    }
    return steps_.back().forward(rows, starts, in.encoder_start_loc, in.encoder_positions.dim(0));
  }

 private:
  std::vector<GluConvolution> steps_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = scope_of(root, "model", "decoder.layer_norm.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  // Old checkpoints carry tables of positions, which follow from their sizes.
  for (const Weights& side : {encoder, decoder}) {
    side.find_any("version");
    (side / "embed_positions").skip();
  }
  const TokenTables tables(root, model, c);
  const int pad = padding_of(c.reader(), kPad);
  Seq2Seq::Parts parts{
      {},
      [&] {
        return Embeddings(
            VocabParallelEmbedding(tables.decoder, b, embedding_scale(c)),
            Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model, pad));
      },
      [&] { return ParallelLMHead(tables.head, Tensor(), b); }};
  // HuggingFace counts frames by a mask that is 0 for each of them: they are padding where that is.
  if (pad != 0)
    parts.frame_positions = [&] {
      return Positions::fairseq_sinusoidal(b, sizes_of(c).source_positions, c.d_model, pad);
    };
  SideOptions of_encoder = encoder_side(c, NormPlace::kPre),
              of_decoder = decoder_side(c, NormPlace::kPre);
  of_encoder.final_norm = of_decoder.final_norm = "layer_norm";
  return std::make_unique<Speech2Text>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                       of_decoder);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 10000,
                                           .d_model = 256,
                                           .encoder_layers = 12,
                                           .decoder_layers = 6,
                                           .encoder_attention_heads = 4,
                                           .decoder_attention_heads = 4,
                                           .encoder_ffn_dim = 2048,
                                           .decoder_ffn_dim = 2048,
                                           .activation = "relu",
                                           .scale_embedding = true};

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  out.max_position_embeddings = size_or(in, "max_target_positions", ConfigReader::kMaxRows, 1024);
  const int pad = padding_of(in, kPad);
  if (pad < 0 || pad >= out.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
  sizes_of(in, out.d_model);  // what is wrong is said now
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  const Sizes sizes = sizes_of(c);
  out.encoder_positions = sizes.source_positions;
  out.position_padding.decoder = padding_of(c.reader(), kPad);
  out.frames = FrameLimits{sizes.features, [steps = sizes.steps.size()](int64_t frames) {
                             return positions_of(frames, steps);
                           }};
  out.frames->sound = SoundInput::kFilterBanks;
  // Windows and results of each convolution, of as many rows as a position needs.
  int64_t stem = 0, rows = 1;
  for (size_t i = sizes.steps.size(); i-- > 0;) {
    const ConvolutionShape& step = sizes.steps[i];
    stem += rows * (step.in * step.width + 3 * step.out);
    rows = (rows - 1) * kStride + step.width;
  }
  out.scratch_values_per_token =
      std::max(out.scratch_values_per_token, stem + rows * sizes.features);
  return out;
}

// Of models that translate.
std::vector<std::string> language_tokens(const JsonView& config) {
  const auto codes = config.find("lang_codes");
  std::vector<std::string> out;
  if (!codes || codes->value().is_null()) return out;
  if (codes->string() != "mustc")
    codes->fail("is " + in_quotes(codes->string()) + ", expected \"mustc\"");
  for (const std::string& language : words_of("pt fr ru nl ro it es de"))
    out.push_back("<lang:" + language + ">");
  return out;
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"Speech2TextTokenizer", "speech_to_text", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.source = rule.sentencepiece.target = "sentencepiece.bpe.model";
  rule.sentencepiece.space_behind_special = true;
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"}});
  rule.extra_tokens = language_tokens;
  rule.outside_is_unknown = true;
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace speech_to_text

ModelFamily speech_to_text_family() {
  using namespace speech_to_text;
  return {.model_type = "speech_to_text",
          .architectures = {"Speech2TextForConditionalGeneration"},
          .encoder_input = EncoderInput::kFrames,
          .special_tokens = {.bos = 0, .pad = kPad, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
