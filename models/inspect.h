// Describes a checkpoint and the resources for serving it: `tandem inspect DIR`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/config/config.h"
#include "models/config/task_params.h"
#include "models/stage_plan.h"

namespace tandem {

struct InspectReport {
  struct File {
    std::string name;
    uint64_t bytes = 0;  // on disk
  };
  struct Type {
    std::string name;  // of the elements
    uint64_t tensors = 0, bytes = 0;
  };
  // One compute type. Keys and values of every decoder layer; a cached token is a decoder token in
  // the self-attention cache or an encoder token in the cross-attention cache of a request.
  struct Memory {
    std::string dtype;
    uint64_t weight_bytes = 0;
    uint64_t self_bytes_per_token = 0, cross_bytes_per_token = 0;
    // The cache of that many requests with so many tokens of encoder and decoder.
    uint64_t cache_bytes(uint64_t requests, uint64_t encoder, uint64_t decoder) const {
      return requests * (encoder * cross_bytes_per_token + decoder * self_bytes_per_token);
    }
  };

  std::string directory, architecture, model_type, format;
  bool supported = true;   // there is a model for the architecture
  std::string unreadable;  // why the weights were not read; empty: they were
  std::vector<File> files;
  std::vector<Type> types;          // by name
  uint64_t tensors = 0;             // names
  uint64_t tied_tensors = 0;        // names that stand for another tensor's values
  uint64_t parameters = 0;          // elements of float tensors, tied ones once
  uint64_t encoder_parameters = 0;  // of those, the encoder's
  int vocab_size = 0, d_model = 0, max_position_embeddings = 0;
  int encoder_positions = 0, decoder_positions = 0;  // 0: not limited, or not known
  int encoder_layers = 0, encoder_attention_heads = 0, encoder_ffn_dim = 0;
  int decoder_layers = 0, decoder_attention_heads = 0, decoder_ffn_dim = 0;
  nlohmann::json generation;  // defaults of a request
  // Languages that a request may name (tgt_lang, and src_lang if has_source_language), and the
  // default source language. Both are empty without languages or without a tokenizer.
  std::vector<std::string> languages;
  std::string source_language;
  bool has_source_language = false;
  std::map<std::string, TaskParams> tasks;
  // With keys and values in int8 (and their scales), beside any compute type.
  uint64_t int8_self_bytes_per_token = 0, int8_cross_bytes_per_token = 0;
  std::vector<Memory>
      memory;  // float32, bfloat16, int8, int4; empty where the shapes are not known
  // How a group of that many ranks would share the model; no stages: nobody asked.
  std::vector<Stage> stages;
  int ranks_of_stage = 1;
  std::optional<Stage> encoder_alone;  // on ranks of its own, behind those of stages
  int encoder_ranks = 0;
};

InspectReport inspect(const ModelConfig& config, const Checkpoint& checkpoint);  // no languages
// The whole directory. Weights that cannot be read are an error of a supported architecture only.
InspectReport inspect(const std::filesystem::path& directory);

// "2.5 GiB".
std::string human_bytes(uint64_t bytes);
// For people: lines of "name  value", ending with a newline.
std::string to_text(const InspectReport& report);
nlohmann::ordered_json to_json(const InspectReport& report);

}  // namespace tandem
