// A small LED of random weights: windows of several widths, and lengths on both sides of them. Its
// tokenizer is bart-tiny's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

// The checkpoint; goes away with the object.
class RandomLed {
 public:
  static constexpr int kWidth = 16, kHeads = 4, kLayers = 3, kPositions = 90, kVocab = 2000;
  static constexpr int kReach[kLayers] = {2, 7, 1};  // half of a window

  RandomLed() {
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt"})
      std::filesystem::create_symlink(std::filesystem::absolute(golden_dir("bart-tiny") / file),
                                      dir_ / file);
    nlohmann::json windows = nlohmann::json::array();
    for (const int reach : kReach) windows.push_back(2 * reach);
    const nlohmann::json config = {{"model_type", "led"},
                                   {"architectures", {"LEDForConditionalGeneration"}},
                                   {"vocab_size", kVocab},
                                   {"d_model", kWidth},
                                   {"encoder_layers", kLayers},
                                   {"decoder_layers", 1},
                                   {"encoder_attention_heads", kHeads},
                                   {"decoder_attention_heads", kHeads},
                                   {"encoder_ffn_dim", kFeedForward},
                                   {"decoder_ffn_dim", kFeedForward},
                                   {"max_encoder_position_embeddings", kPositions},
                                   {"max_decoder_position_embeddings", 40},
                                   {"attention_window", windows}};
    dir_.write("config.json", config.dump());
    add_weights();
    dir_.write("model.safetensors", test::safetensors(header_.dump(), data_));
  }
  const std::filesystem::path& path() const { return dir_.path(); }

 private:
  static constexpr int kFeedForward = 24;

  void tensor(const std::string& name, const std::vector<int>& shape, float mean, float spread) {
    std::normal_distribution<float> normal(mean, spread);
    const size_t begin = data_.size();
    size_t count = 1;
    for (const int n : shape) count *= static_cast<size_t>(n);
    for (size_t i = 0; i < count; ++i) {
      const float value = normal(random_);
      data_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header_[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }
  void norm(const std::string& at) {
    tensor(at + ".weight", {kWidth}, 1, 0.1F);
    tensor(at + ".bias", {kWidth}, 0, 0.1F);
  }
  void linear(const std::string& at, int out, int in) {
    tensor(at + ".weight", {out, in}, 0, 0.4F);
    tensor(at + ".bias", {out}, 0, 0.2F);
  }
  void layer(const std::string& at, bool encoder) {
    const std::string self = at + "self_attn";
    if (encoder) {
      for (const char* name :
           {"query", "key", "value", "query_global", "key_global", "value_global"})
        linear(self + ".longformer_self_attn." + name, kWidth, kWidth);
      linear(self + ".output", kWidth, kWidth);
    } else {
      for (const std::string& attention : {self, at + "encoder_attn"})
        for (const char* name : {".q_proj", ".k_proj", ".v_proj", ".out_proj"})
          linear(attention + name, kWidth, kWidth);
      norm(at + "encoder_attn_layer_norm");
    }
    norm(at + "self_attn_layer_norm");
    linear(at + "fc1", kFeedForward, kWidth);
    linear(at + "fc2", kWidth, kFeedForward);
    norm(at + "final_layer_norm");
  }
  void add_weights() {
    tensor("led.shared.weight", {kVocab, kWidth}, 0, 1);
    for (const std::string side : {"led.encoder.", "led.decoder."}) {
      const bool encoder = side == "led.encoder.";
      tensor(side + "embed_positions.weight", {encoder ? kPositions : 40, kWidth}, 0, 0.5F);
      norm(side + "layernorm_embedding");
      for (int i = 0; i < (encoder ? kLayers : 1); ++i)
        layer(side + "layers." + std::to_string(i) + ".", encoder);
    }
  }

  test::TempDir dir_;
  std::mt19937 random_{5};
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

}  // namespace tandem::testing
