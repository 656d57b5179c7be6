// LED (Beltagy et al. 2020; HuggingFace LEDForConditionalGeneration and LEDModel): BART with an
// encoder for long inputs. Each of its layers has a window and projections of its own for tokens
// with global attention. Learned positions without an offset, encoder and decoder limits apart.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace led {

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(50265);
  out.max_position_embeddings = 0;
  return out;
}();

// Keys of config.json that ModelConfig does not have.
struct Extras {
  int encoder_positions = 16384, decoder_positions = 1024;
  std::vector<ops::Window> windows;  // of the encoder's layers
};

// HuggingFace's: of `width` tokens half lie before a token, half behind it.
ops::Window window_of(const ConfigReader& in, const nlohmann::json& width) {
  if (!width.is_number_integer() || width < 2 || width > ConfigReader::kMaxRows ||
      width.get<int>() % 2 != 0)
    in.fail("attention_window", "is " + in.show(width) + ", must be even and at least 2");
  const int32_t reach = width.get<int32_t>() / 2;
  return {reach, reach};
}

Extras read_extras(const ConfigReader& in, const ModelConfig& c) {
  Extras out;
  out.encoder_positions = in.size("max_encoder_position_embeddings", in.kMaxRows).value_or(16384);
  out.decoder_positions = in.size("max_decoder_position_embeddings", in.kMaxRows).value_or(1024);
  const auto layers = static_cast<size_t>(c.encoder_layers);
  const nlohmann::json* window = in.find("attention_window");
  if (window == nullptr || !window->is_array()) {
    out.windows.assign(layers, window_of(in, window == nullptr ? nlohmann::json(512) : *window));
    return out;
  }
  if (window->size() != layers)
    in.fail("attention_window", "has " + std::to_string(window->size()) + " windows for " +
                                    std::to_string(layers) + " layers of the encoder");
  for (const nlohmann::json& width : *window) out.windows.push_back(window_of(in, width));
  return out;
}

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  read_extras(in, out);  // what is wrong is said now
}

ModelLimits limits(const ModelConfig& c) {
  const Extras extras = read_extras(c.reader(), c);
  ModelLimits out = encoder_decoder_limits(c);
  out.encoder_positions = extras.encoder_positions;
  out.decoder_positions = extras.decoder_positions;
  out.default_global_tokens = 1;
  const int64_t global =
      int64_t{GlobalAttention::kScratchWidths} * std::max(c.d_model, c.encoder_heads_width());
  out.scratch_values_per_token = std::max(out.scratch_values_per_token, global);
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c.reader(), c);
  const auto positions = [&](int count) {
    return [&c, &b, count](const Weights& side) {
      return Positions::learned(side, b, count, c.d_model, /*offset=*/0);
    };
  };
  return make_fairseq_model(c, root, b,
                            {.model = "led",
                             .embedding_norm = true,
                             .positions = positions(extras.encoder_positions),
                             .decoder_positions = positions(extras.decoder_positions),
                             .encoder = [&](SideOptions& side) {
                               AttentionOptions::Names& names = side.layer.self_attention.names;
                               names = {"longformer_self_attn.query", "longformer_self_attn.key",
                                        "longformer_self_attn.value", "output"};
                               side.layer.global_attention =
                                   GlobalAttentionOptions{.q = "longformer_self_attn.query_global",
                                                          .k = "longformer_self_attn.key_global",
                                                          .v = "longformer_self_attn.value_global"};
                               side.of_layer = [windows = extras.windows](int i,
                                                                          LayerOptions& layer) {
                                 layer.self_attention.window = windows.at(static_cast<size_t>(i));
                               };
                             }});
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"LEDTokenizer", "led"};
  rule.special_tokens = fairseq_tokens();
  rule.single = {"cls_token", "$A", "sep_token"};
  rule.pair = {"cls_token", "$A", "sep_token", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace led

ModelFamily led_family() {
  using namespace led;
  return {.model_type = "led",
          .architectures = {"LEDForConditionalGeneration", "LEDModel"},
          .base = "led",
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
