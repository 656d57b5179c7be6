// The sizes of one side of a model whose config.json has an object for each side. The keys are
// those of decoder-only models: grouped heads, rotary positions, windows in some layers, soft caps.
#pragma once

#include <vector>

#include "models/config/config_reader.h"

namespace tandem {

// HuggingFace's defaults for missing keys of an object.
struct SideDefaults {
  int vocab_size, max_positions;
  int sliding_pattern;                       // every layer of that number has no window
  float theta;                               // of rotary positions
  float sliding_theta;                       // of layers with a window; 0: the same
  float attention_soft_cap, logit_soft_cap;  // 0: none
};

struct SideConfig {
  // Pair i of a head rotates by position * theta^(-2 i / head_dim) / factor.
  struct Rope {
    float theta = 0.0f, factor = 1.0f;
  };
  int vocab_size = 0, d_model = 0, ffn_dim = 0, layers = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;  // heads: a multiple of kv_heads; an even size
  int max_positions = 0;
  int window = 0;             // of layers with one
  std::vector<bool> sliding;  // which these are
  Rope rope, sliding_rope;    // of layers without and with a window
  float eps = 0.0f;           // of norms
  float score_scale = 1.0f;
  float attention_soft_cap = 0.0f, logit_soft_cap = 0.0f;  // 0: none
  Activation activation = Activation::kGelu;
  bool attention_bias = false;
};

// The object `key`. Throws InputError where there is none.
ConfigReader part_of(const ConfigReader& in, const char* key);
// The same, but an empty object where there is none.
ConfigReader part_or_empty(const ConfigReader& in, const char* key);
// Throws InputError naming the key.
SideConfig read_side(const ConfigReader& in, const SideDefaults& defaults);

}  // namespace tandem
