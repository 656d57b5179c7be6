// A random BART as a checkpoint directory that Tandem, HuggingFace and CTranslate2 read alike:
// config.json, generation_config.json, model.safetensors (f32), vocab.json, merges.txt,
// tokenizer_config.json. The same seed gives the same bytes everywhere: every tensor has a
// generator of its own, in integer arithmetic.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tandem::bench {

namespace random_bart {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Size {
  int layers, hidden, heads, inner, vocab, positions;
};

inline Size size_of(const std::string& name) {
  if (name == "tiny") return {2, 64, 4, 128, 1024, 256};
  if (name == "base") return {6, 768, 12, 3072, 50265, 1024};
  if (name == "large") return {12, 1024, 16, 4096, 50265, 1024};
  throw std::invalid_argument("--size is tiny, base or large, not " + name);
}

// What a tensor is filled with: normal numbers of this deviation around a centre.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  float centre, deviation;

  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
};

// The tensors under HuggingFace's names; tied embeddings are stored once. The gains are chosen so
// that the model does not repeat itself: with the usual initialisation it copies its last token or
// falls into one token for ever, and agreement with a peer would prove nothing. Here positions and
// the attended source decide what comes next. Sharper attention would make the model chaotic:
// rounding alone would then change its tokens (base at these gains: float32 is within 2e-5 of
// float64).
class Shapes {
 public:
  explicit Shapes(const Size& size) : size_(size) {
    add("model.shared.weight", {size.vocab, size.hidden}, 0, 0.02f);
    stack("model.encoder", false);
    stack("model.decoder", true);
    add("final_logits_bias", {1, size.vocab}, 0, 0);
  }
  const std::vector<TensorSpec>& all() const { return specs_; }

 private:
  void add(const std::string& name, std::vector<int64_t> shape, float centre, float deviation) {
    specs_.push_back({name, std::move(shape), centre, deviation});
  }
  void linear(const std::string& name, int out, int in, float gain) {
    add(name + ".weight", {out, in}, 0, gain / std::sqrt(static_cast<float>(in)));
    add(name + ".bias", {out}, 0, 0.02f);
  }
  void norm(const std::string& name) {
    add(name + ".weight", {size_.hidden}, 1, 0.1f);
    add(name + ".bias", {size_.hidden}, 0, 0.02f);
  }
  void attention(const std::string& name, float gain) {
    for (const char* part : {".q_proj", ".k_proj", ".v_proj", ".out_proj"}) {
      const bool scores = part[1] == 'q' || part[1] == 'k';
      linear(name + part, size_.hidden, size_.hidden, scores ? 1.4f : gain);
    }
    norm(name + "_layer_norm");
  }
  void stack(const std::string& name, bool decoder) {
    // BART's position tables start with two rows that no position uses.
    add(name + ".embed_positions.weight", {size_.positions + 2, size_.hidden}, 0, 0.4f);
    norm(name + ".layernorm_embedding");
    for (int i = 0; i < size_.layers; ++i) {
      const std::string layer = name + ".layers." + std::to_string(i);
      attention(layer + ".self_attn", 0.6f);
      if (decoder) attention(layer + ".encoder_attn", 1.8f);
      linear(layer + ".fc1", size_.inner, size_.hidden, 0.4f);
      linear(layer + ".fc2", size_.hidden, size_.inner, 0.4f);
      norm(layer + ".final_layer_norm");
    }
  }

  Size size_;
  std::vector<TensorSpec> specs_;
};

inline uint64_t split_mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// FNV-1a: the same number for the same name on every platform.
inline uint64_t hash_of(const std::string& text, uint64_t seed) {
  uint64_t h = 0xcbf29ce484222325ull ^ (seed * 0x9e3779b97f4a7c15ull);
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  return h;
}

// Nearly normal, mean 0 and variance 1: the sum of four uniform 16-bit numbers.
inline float nearly_normal(uint64_t bits) {
  const int32_t sum = static_cast<int32_t>(bits & 0xffff) +
                      static_cast<int32_t>(bits >> 16 & 0xffff) +
                      static_cast<int32_t>(bits >> 32 & 0xffff) + static_cast<int32_t>(bits >> 48);
  return static_cast<float>(sum - 2 * 65535) * (1.7320508f / 65536.0f);
}

inline void write_weights(const fs::path& path, const std::vector<TensorSpec>& specs,
                          uint64_t seed) {
  Json header;
  header["__metadata__"] = {{"format", "pt"}};
  int64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    const int64_t end = offset + spec.size() * 4;
    header[spec.name] = {{"dtype", "F32"}, {"shape", spec.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts at a multiple of 8 bytes
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = text.size();
  file.write(reinterpret_cast<const char*>(&length),
             8);  // little-endian, like the machines this runs on
  file << text;
  std::vector<float> buffer;
  for (const TensorSpec& spec : specs) {
    uint64_t state = hash_of(spec.name, seed);
    buffer.resize(static_cast<size_t>(spec.size()));
    for (float& value : buffer)
      value = spec.centre + spec.deviation * nearly_normal(split_mix(state));
    file.write(reinterpret_cast<const char*>(buffer.data()), spec.size() * 4);
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline std::string utf8(int code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

// The characters that byte-level BPE writes for bytes, in GPT-2's order: printable ones stand for
// themselves.
inline std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens, others;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    if (printable) {
      tokens.push_back(utf8(b));
    } else {
      others.push_back(utf8(256 + static_cast<int>(others.size())));
    }
  }
  tokens.insert(tokens.end(), others.begin(), others.end());
  return tokens;
}

// `count` merges of lower-case letters, shorter results first, so that English text becomes pieces
// of 2 to 4 letters.
inline std::vector<std::pair<std::string, std::string>> make_merges(size_t count) {
  const std::string space = utf8(0x120);  // how byte-level BPE writes a blank
  std::vector<std::string> letters, pairs, triples;
  for (char c = 'a'; c <= 'z'; ++c) letters.emplace_back(1, c);
  for (const auto& a : letters) {
    for (const auto& b : letters) pairs.push_back(a + b);
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (const auto& p : pairs) merges.emplace_back(p.substr(0, 1), p.substr(1));
  for (const auto& a : letters) merges.emplace_back(space, a);
  for (const auto& p : pairs) merges.emplace_back(space, p);
  for (const auto& p : pairs) {
    for (const auto& a : letters) {
      merges.emplace_back(p, a);
      triples.push_back(p + a);
    }
  }
  for (const auto& t : triples) merges.emplace_back(space, t);
  for (const auto& p : pairs) {
    for (const auto& q : pairs) merges.emplace_back(p, q);
  }
  merges.resize(count);
  return merges;
}

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline void write_tokenizer(const fs::path& out, int vocab_size) {
  const std::vector<std::string> bytes = byte_tokens();
  const auto merges = make_merges(static_cast<size_t>(vocab_size) - bytes.size() - 5);
  Json vocab;
  int next = 0;
  for (const char* special : {"<s>", "<pad>", "</s>", "<unk>"}) vocab[special] = next++;
  for (const auto& token : bytes) vocab[token] = next++;
  std::string merges_text = "#version: 0.2\n";
  for (const auto& [left, right] : merges) {
    vocab[left + right] = next++;
    merges_text += left + " " + right + "\n";
  }
  vocab["<mask>"] = next++;
  if (next != vocab_size)
    throw std::logic_error("the vocabulary has " + std::to_string(next) + " tokens");
  write_text(out / "vocab.json", json_text(vocab));
  write_text(out / "merges.txt", merges_text);
  const Json tokenizer = {{"tokenizer_class", "BartTokenizer"},
                          {"model_max_length", 1024},
                          {"add_prefix_space", false}};
  write_text(out / "tokenizer_config.json", json_text(tokenizer, 2));
}

inline void write_configs(const fs::path& out, const Size& size) {
  Json config = {{"architectures", {"BartForConditionalGeneration"}},
                 {"model_type", "bart"},
                 {"activation_function", "gelu"},
                 {"d_model", size.hidden},
                 {"vocab_size", size.vocab},
                 {"max_position_embeddings", size.positions},
                 {"scale_embedding", false},
                 {"normalize_before", false},
                 {"normalize_embedding", true},
                 {"add_final_layer_norm", false},
                 {"add_bias_logits", false},
                 {"tie_word_embeddings", true},
                 {"is_encoder_decoder", true},
                 {"bos_token_id", 0},
                 {"pad_token_id", 1},
                 {"eos_token_id", 2},
                 {"decoder_start_token_id", 2},
                 {"torch_dtype", "float32"}};
  for (const char* side : {"encoder", "decoder"}) {
    const std::string prefix = side;
    config[prefix + "_layers"] = size.layers;
    config[prefix + "_attention_heads"] = size.heads;
    config[prefix + "_ffn_dim"] = size.inner;
  }
  write_text(out / "config.json", json_text(config, 2) + "\n");
  const Json generation = {
      {"bos_token_id", 0}, {"pad_token_id", 1}, {"eos_token_id", 2}, {"decoder_start_token_id", 2}};
  write_text(out / "generation_config.json", json_text(generation, 2) + "\n");
}

// Makes the directory. Returns the number of parameters.
inline int64_t write(const fs::path& out, const Size& size, uint64_t seed) {
  const Shapes shapes(size);
  fs::create_directories(out);
  write_configs(out, size);
  write_tokenizer(out, size.vocab);
  write_weights(out / "model.safetensors", shapes.all(), seed);
  int64_t parameters = 0;
  for (const TensorSpec& spec : shapes.all()) parameters += spec.size();
  return parameters;
}

}  // namespace random_bart
}  // namespace tandem::bench
