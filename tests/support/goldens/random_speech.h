// A small speech model of random weights, with all that a transcription needs: windows of a second,
// two languages, times. Sounds that differ make it say different things.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/speech_files.h"
#include "tests/support/media/sounds.h"

namespace tandem::testing {

// The checkpoint; goes away with the object.
class RandomSpeech {
 public:
  RandomSpeech() {
    add_weights();
    dir_.write("model.safetensors", test::safetensors(header_.dump(), data_));
    dir_.write("preprocessor_config.json",
               nlohmann::json{{"feature_size", kBins}, {"chunk_length", 1}}.dump());
    write_config();
    write_tokenizer();
  }
  const std::filesystem::path& path() const { return dir_.path(); }

  // A WAV file: tones that come and go.
  static std::string sound(double seconds, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> out;
    double pitch = 0.1, loud = 0.3, phase = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(seconds * 16000); ++i) {
      if (i % 1600 == 0) {
        pitch = 0.02 + 0.0001 * static_cast<double>(random() % 10000);
        loud = 0.05 + 0.00005 * static_cast<double>(random() % 10000);
      }
      phase += pitch;
      out.push_back(static_cast<float>(loud * std::sin(phase)));
    }
    return float_wav(out, 16000);
  }

 private:
  static constexpr int kWidth = 16, kHeads = 4, kInner = 24, kBins = 8, kSource = 50, kTarget = 32;
  static constexpr int kWords = 60, kEnd = 60, kStart = 61, kNoTimes = 67, kVocabulary = 119;

  void tensor(const std::string& name, const std::vector<int>& shape, float spread) {
    std::normal_distribution<float> normal(0, spread);
    const size_t begin = data_.size();
    int64_t count = 1;
    for (const int n : shape) count *= n;
    for (int64_t i = 0; i < count; ++i) {
      const float value = normal(random_);
      data_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header_["model." + name] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }
  void linear(const std::string& at, const std::vector<int>& shape, bool bias = true) {
    tensor(at + ".weight", shape, 0.5F);
    if (bias) tensor(at + ".bias", {shape[0]}, 0.3F);
  }
  void attention(const std::string& at) {
    for (const char* part : {"q", "k", "v", "out"})
      linear(at + "." + part + "_proj", {kWidth, kWidth}, part[0] != 'k');
    linear(at + "_layer_norm", {kWidth});
  }
  void add_weights() {
    linear("encoder.conv1", {kWidth, kBins, 3});
    linear("encoder.conv2", {kWidth, kWidth, 3});
    linear("encoder.embed_positions", {kSource, kWidth}, false);
    linear("decoder.embed_positions", {kTarget, kWidth}, false);
    linear("decoder.embed_tokens", {kVocabulary, kWidth}, false);
    for (const std::string side : {"encoder", "decoder"}) {
      const std::string layer = side + ".layers.0.";
      attention(layer + "self_attn");
      if (side == "decoder") attention(layer + "encoder_attn");
      linear(layer + "fc1", {kInner, kWidth});
      linear(layer + "fc2", {kWidth, kInner});
      linear(layer + "final_layer_norm", {kWidth});
      linear(side + ".layer_norm", {kWidth});
    }
  }
  void write_config() {
    using nlohmann::json;
    dir_.write("config.json", speech_config_json({kWidth, kHeads, kInner, kBins, kSource, kTarget,
                                                  kVocabulary, kStart, kEnd})
                                  .dump());
    dir_.write("generation_config.json",
               json{{"decoder_start_token_id", kStart},
                    {"eos_token_id", kEnd},
                    {"max_length", kTarget},
                    {"no_timestamps_token_id", kNoTimes},
                    {"is_multilingual", true},
                    {"lang_to_id", {{"<|en|>", kStart + 1}, {"<|de|>", kStart + 2}}},
                    {"task_to_id", {{"transcribe", kStart + 3}, {"translate", kStart + 4}}},
                    {"prev_sot_token_id", kStart + 5},
                    {"alignment_heads", {{0, 1}, {0, 3}}}}
                   .dump());
  }
  void write_tokenizer() {
    nlohmann::json vocabulary;
    for (int i = 0; i < kWords; ++i) vocabulary["w" + std::to_string(i)] = i;
    std::vector<std::pair<int, std::string>> special;
    for (const char* name :
         {"<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|transcribe|>",
          "<|translate|>", "<|startofprev|>", "<|notimestamps|>"})
      special.emplace_back(kEnd + static_cast<int>(special.size()), name);
    dir_.write("tokenizer.json", word_tokenizer(std::move(vocabulary), special).dump());
  }

  test::TempDir dir_;
  std::mt19937 random_{7};
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

}  // namespace tandem::testing
