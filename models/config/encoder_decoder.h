// The keys of config.json that most encoder/decoder families share, and the limits of such models.
#pragma once

#include "models/config/config.h"
#include "models/config/config_reader.h"
#include "models/config/limits.h"

namespace tandem {

// HuggingFace's defaults for missing keys of config.json. 0: nobody needs the key.
struct EncoderDecoderDefaults {
  int vocab_size = 0, d_model = 0;
  int encoder_layers = 0, decoder_layers = 0;
  int encoder_attention_heads = 0, decoder_attention_heads = 0;
  int encoder_ffn_dim = 0, decoder_ffn_dim = 0;
  int max_position_embeddings = 0;
  const char* activation = nullptr;  // nullptr: not read
  bool scale_embedding = false, tie_word_embeddings = true;
};

// Throws InputError naming the key.
void read_encoder_decoder(const ConfigReader& in, const EncoderDecoderDefaults& defaults,
                          ModelConfig& out);

// Of sizes that were read so: one table of positions on either side, 0 positions for no limit.
ModelLimits encoder_decoder_limits(const ModelConfig& config);

}  // namespace tandem
