#include "models/config/encoder_decoder.h"

#include <algorithm>

namespace tandem {
namespace {

void check_heads(const ConfigReader& in, const ModelConfig& config, const char* key, int heads) {
  if (config.head_dim == 0 && heads > 0 && config.d_model % heads != 0)
    in.fail(key, "is " + std::to_string(heads) + ", which does not divide d_model (" +
                     std::to_string(config.d_model) + ")");
}

}  // namespace

void read_encoder_decoder(const ConfigReader& in, const EncoderDecoderDefaults& d,
                          ModelConfig& out) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  const auto size = [&](const char* key, int max, int otherwise, const char* alias = nullptr) {
    return in.size(key, max, alias).value_or(otherwise);
  };
  out.vocab_size = size("vocab_size", kRows, d.vocab_size);
  out.d_model = size("d_model", kWidth, d.d_model, "hidden_size");
  out.encoder_layers = size("encoder_layers", kCount, d.encoder_layers, "num_hidden_layers");
  out.decoder_layers = size("decoder_layers", kCount, d.decoder_layers);
  out.encoder_attention_heads =
      size("encoder_attention_heads", kCount, d.encoder_attention_heads, "num_attention_heads");
  out.decoder_attention_heads = size("decoder_attention_heads", kCount, d.decoder_attention_heads);
  out.encoder_ffn_dim = size("encoder_ffn_dim", kWidth, d.encoder_ffn_dim);
  out.decoder_ffn_dim = size("decoder_ffn_dim", kWidth, d.decoder_ffn_dim);
  out.max_position_embeddings = size("max_position_embeddings", kRows, d.max_position_embeddings);
  check_heads(in, out, "encoder_attention_heads", out.encoder_attention_heads);
  check_heads(in, out, "decoder_attention_heads", out.decoder_attention_heads);
  out.scale_embedding = in.flag("scale_embedding", d.scale_embedding);
  out.tie_word_embeddings = in.flag("tie_word_embeddings", d.tie_word_embeddings);
  if (d.activation != nullptr) out.activation = in.activation("activation_function", d.activation);
}

ModelLimits encoder_decoder_limits(const ModelConfig& c) {
  ModelLimits out;
  if (c.max_position_embeddings > 0)
    out.encoder_positions = out.decoder_positions = c.max_position_embeddings;
  out.encoder_vocabulary = c.encoder_vocab_size;
  out.hidden_size = c.d_model;
  const int64_t width = std::max(c.encoder_ffn_dim, c.decoder_ffn_dim);
  const int64_t attention = std::max({c.d_model, c.encoder_heads_width(), c.decoder_heads_width()});
  out.scratch_values_per_token = width + 6 * attention;
  out.widest_linear = std::max(width, 3 * attention);
  out.self_cache_values_per_token = int64_t{2} * c.decoder_layers * c.decoder_heads_width();
  out.cross_cache_values_per_token = out.self_cache_values_per_token;
  out.cache_heads_per_token = int64_t{c.decoder_layers} * c.decoder_attention_heads;
  return out;
}

}  // namespace tandem
