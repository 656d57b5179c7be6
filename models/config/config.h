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
#include "models/config/config_reader.h"

namespace tandem {

// The keys that encoder/decoder families share, as the family's read_config (models/family.h) read
// them. A model file takes other keys from `raw`. If model_type has no family, existing keys are
// checked and the others are 0. For an unsupported architecture, unreadable keys are left out.
struct ModelConfig {
  std::filesystem::path directory;
  // The class to build: the first of `architectures` that model_type's family has, else the
  // family's first. Without a family: architectures[0], or "".
  std::string architecture;
  std::string model_type;  // where config.json has none, that of its architecture
  int vocab_size = 0;
  int encoder_vocab_size = 0;  // of the encoder's ids where they are others; else 0
  int d_model = 0;
  int encoder_layers = 0, decoder_layers = 0;
  int encoder_attention_heads = 0, decoder_attention_heads = 0;
  int head_dim = 0;  // of either side; 0: d_model / heads
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
  // HuggingFace's GenerationConfig as an object without nulls: generation_config.json, or else its
  // keys in config.json. Not yet checked, except for the special tokens.
  nlohmann::json generation;

  int encoder_head_dim() const { return head_dim_of(encoder_attention_heads); }
  int decoder_head_dim() const { return head_dim_of(decoder_attention_heads); }
  // A reader of `raw`, for a family's further keys.
  ConfigReader reader() const { return ConfigReader(file(), raw); }
  std::string file() const { return (directory / "config.json").string(); }
  // Heads times their size: elements of a token's queries.
  int encoder_heads_width() const { return encoder_attention_heads * encoder_head_dim(); }
  int decoder_heads_width() const { return decoder_attention_heads * decoder_head_dim(); }

  // Reads and checks both files. Throws InputError naming the file and the key.
  static ModelConfig load(const std::filesystem::path& directory);

 private:
  int head_dim_of(int heads) const {
    return head_dim > 0 ? head_dim : heads > 0 ? d_model / heads : 0;
  }
};

}  // namespace tandem
