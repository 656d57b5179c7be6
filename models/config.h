// config.json and generation_config.json of a checkpoint directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/types.h"
#include "kernels/ops.h"

namespace tandem {

// The keys that encoder/decoder families share; a model file reads the others from `raw`.
struct ModelConfig {
  std::string architecture;  // architectures[0]
  std::string model_type;
  int vocab_size = 0;
  int d_model = 0;
  int encoder_layers = 0, decoder_layers = 0;
  int encoder_attention_heads = 0, decoder_attention_heads = 0;
  int encoder_ffn_dim = 0, decoder_ffn_dim = 0;
  int max_position_embeddings = 0;
  Activation activation = Activation::kGelu;
  bool scale_embedding = false;
  bool tie_word_embeddings = true;
  std::optional<DType> checkpoint_dtype;  // torch_dtype / dtype
  int bos_token_id = -1, pad_token_id = -1, decoder_start_token_id = -1;  // -1: absent
  std::vector<int> eos_token_id;
  nlohmann::json raw;         // config.json as it is
  nlohmann::json generation;  // generation_config.json, or the same keys of config.json

  // Reads and checks both files. Throws InputError naming the file and the key.
  static ModelConfig load(const std::filesystem::path& directory);
};

// Parses a file of at most a few MB; errors name the file, the line and the column. Depth-limited.
nlohmann::json load_json(const std::filesystem::path& file);

}  // namespace tandem
