// config.json and generation_config.json of a checkpoint directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/core/types.h"
#include "kernels/ops.h"

namespace tandem {

// The keys that encoder/decoder families share; a model file reads the others from `raw`. For a
// family that models/config/config.cc knows, all of them are checked, and absent ones have HuggingFace's
// defaults; for another model_type (a model outside of this repository), those that are there are
// checked, and the others are 0. Of an architecture that is not supported at all, what cannot be
// read is left out.
struct ModelConfig {
  std::filesystem::path directory;
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
  // Special tokens: of generation_config.json, else of config.json, else of the family. -1: absent.
  int bos_token_id = -1, pad_token_id = -1, decoder_start_token_id = -1;
  std::vector<int> eos_token_id;
  nlohmann::json raw;  // config.json as it is
  // HuggingFace's GenerationConfig as an object without nulls: generation_config.json, or, where
  // that is missing, its keys in config.json. Not yet checked, except for the special tokens.
  nlohmann::json generation;

  // Reads and checks both files. Throws InputError naming the file and the key.
  static ModelConfig load(const std::filesystem::path& directory);
};

}  // namespace tandem
