// The files of small speech models that tests make themselves, but for their weights.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tandem::testing {

// Of one layer on each side.
struct SpeechShape {
  int width, heads, inner, bins, source, target, vocabulary;
  int start, end;  // tokens
};

// config.json
inline nlohmann::json speech_config_json(const SpeechShape& s) {
  return {{"model_type", "whisper"},
          {"architectures", {"WhisperForConditionalGeneration"}},
          {"d_model", s.width},
          {"encoder_layers", 1},
          {"decoder_layers", 1},
          {"encoder_attention_heads", s.heads},
          {"decoder_attention_heads", s.heads},
          {"encoder_ffn_dim", s.inner},
          {"decoder_ffn_dim", s.inner},
          {"num_mel_bins", s.bins},
          {"max_source_positions", s.source},
          {"max_target_positions", s.target},
          {"vocab_size", s.vocabulary},
          {"decoder_start_token_id", s.start},
          {"bos_token_id", s.end},
          {"pad_token_id", s.end},
          {"eos_token_id", s.end}};
}

// tokenizer.json: a token for each word of the vocabulary (word → id), no merges; and special ones.
inline nlohmann::json word_tokenizer(nlohmann::json vocabulary,
                                     const std::vector<std::pair<int, std::string>>& special) {
  using nlohmann::json;
  json added = json::array();
  for (const auto& [id, name] : special) {
    vocabulary[name] = id;
    added.push_back({{"id", id},
                     {"content", name},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

}  // namespace tandem::testing
