// A small speech model of random weights, and what a plain forward pass in doubles makes of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/speech_files.h"

namespace tandem::testing::plain_speech {

using Ids = std::vector<int32_t>;
using Matrix = std::vector<std::vector<double>>;

inline constexpr int kWidth = 16, kHeads = 2, kInner = 24, kBins = 4, kSource = 20, kTarget = 12,
                     kVocabulary = 40, kStart = 20, kEnd = 19, kNoTimes = 29;

// Weights by name, as a checkpoint has them, and what they compute.
class PlainModel {
 public:
  explicit PlainModel(uint32_t seed) : random_(seed) {
    add("encoder.conv1", {kWidth, kBins, 3});
    add("encoder.conv2", {kWidth, kWidth, 3});
    add("encoder.embed_positions", {kSource, kWidth}, false);
    add("decoder.embed_positions", {kTarget, kWidth}, false);
    add("decoder.embed_tokens", {kVocabulary, kWidth}, false);
    for (const std::string side : {"encoder", "decoder"}) {
      const std::string layer = side + ".layers.0.";
      attention(layer + "self_attn");
      if (side == "decoder") attention(layer + "encoder_attn");
      add(layer + "fc1", {kInner, kWidth});
      add(layer + "fc2", {kWidth, kInner});
      norm(layer + "final_layer_norm");
      norm(side + ".layer_norm");
    }
  }

  void write(const test::TempDir& dir) const {
    nlohmann::json header;
    std::string data;
    for (const auto& [name, values] : weights_) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      header["model." + name] = {
          {"dtype", "F32"}, {"shape", shapes_.at(name)}, {"data_offsets", {begin, data.size()}}};
    }
    dir.write("model.safetensors", test::safetensors(header.dump(), data));
    dir.write("config.json", speech_config_json({kWidth, kHeads, kInner, kBins, kSource, kTarget,
                                                 kVocabulary, kStart, kEnd})
                                 .dump());
    dir.write("generation_config.json", nlohmann::json{{"decoder_start_token_id", kStart},
                                                       {"eos_token_id", kEnd},
                                                       {"max_length", kTarget},
                                                       {"no_timestamps_token_id", kNoTimes}}
                                            .dump());
    const std::vector<std::pair<int, std::string>> special = {
        {kEnd, "<|endoftext|>"}, {kStart, "<|startoftranscript|>"}, {kNoTimes, "<|notimestamps|>"}};
    nlohmann::json vocabulary;
    for (int i = 0; i < kVocabulary; ++i) vocabulary["t" + std::to_string(i)] = i;
    for (const auto& [id, name] : special) vocabulary.erase("t" + std::to_string(id));
    dir.write("tokenizer.json", word_tokenizer(std::move(vocabulary), special).dump());
  }

  // The likeliest tokens behind the prompt.
  Ids greedy(const Matrix& frames, Ids ids) const {
    const Matrix source = encode(frames);
    const size_t prompt = ids.size();
    while (ids.size() < kTarget && (ids.size() == prompt || ids.back() != kEnd)) {
      const std::vector<double> hidden = decode(source, ids).back();
      int best = 0;
      double most = -1e30;
      for (int v = 0; v < kVocabulary; ++v) {
        double sum = 0;
        for (int i = 0; i < kWidth; ++i) sum += hidden[at(i)] * value("decoder.embed_tokens", v, i);
        if (sum > most) best = v, most = sum;
      }
      ids.push_back(best);
    }
    return {ids.begin() + static_cast<long>(prompt), ids.end()};
  }

  // Of cross-attention: [heads][ids][positions].
  std::vector<Matrix> weights(const Matrix& frames, const Ids& ids) const {
    std::vector<Matrix> out(kHeads);
    decode(encode(frames), ids, &out);
    return out;
  }

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  void add(const std::string& name, const std::vector<int>& shape, bool bias = true) {
    const auto put = [&](const std::string& key, const std::vector<int>& dims, double scale) {
      int64_t size = 1;
      for (const int d : dims) size *= d;
      std::normal_distribution<float> normal(0, static_cast<float>(scale));
      for (int64_t i = 0; i < size; ++i) weights_[key].push_back(normal(random_));
      shapes_[key] = dims;
    };
    put(name + ".weight", shape, 0.5);
    if (bias) put(name + ".bias", {shape[0]}, 0.3);
  }
  void norm(const std::string& name) { add(name, {kWidth}); }
  void attention(const std::string& name) {
    for (const char* part : {"q", "k", "v", "out"})
      add(name + "." + part + "_proj", {kWidth, kWidth}, part[0] != 'k');
    norm(name + "_layer_norm");
  }

  double value(const std::string& name, int64_t row, int64_t column) const {
    return double{weights_.at(name + ".weight")[at(row * kWidth + column)]};
  }
  Matrix linear(const std::string& name, const Matrix& x) const {
    const auto& w = weights_.at(name + ".weight");
    const auto bias = weights_.find(name + ".bias");
    const size_t in = x[0].size(), out = w.size() / in;
    Matrix y(x.size(), std::vector<double>(out));
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t o = 0; o < out; ++o) {
        if (bias != weights_.end()) y[t][o] = double{bias->second[o]};
        for (size_t i = 0; i < in; ++i) y[t][o] += double{w[o * in + i]} * x[t][i];
      }
    return y;
  }
  static Matrix gelu(Matrix x) {
    for (auto& row : x)
      for (double& v : row) v *= 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
    return x;
  }
  Matrix normed(const std::string& name, Matrix x) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / kWidth;
      for (const double v : row) variance += (v - mean) * (v - mean) / kWidth;
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) *
                     double{weights_.at(name + ".weight")[i]} +
                 double{weights_.at(name + ".bias")[i]};
    }
    return x;
  }
  static Matrix sum(Matrix a, const Matrix& b) {
    for (size_t t = 0; t < a.size(); ++t)
      for (size_t i = 0; i < a[t].size(); ++i) a[t][i] += b[t][i];
    return a;
  }
  Matrix convolution(const std::string& name, const Matrix& x, int stride) const {
    Matrix windows;
    const auto rows = static_cast<int>(x.size());
    for (int p = 0; stride * p < rows; ++p) {
      auto& window = windows.emplace_back();
      for (size_t c = 0; c < x[0].size(); ++c)
        for (int row = stride * p - 1; row <= stride * p + 1; ++row)
          window.push_back(row < 0 || row >= rows ? 0.0 : x[at(row)][c]);
    }
    return gelu(linear(name, windows));
  }
  // weights: [heads][x][from], where they are asked for.
  Matrix attend(const std::string& name, const Matrix& x, const Matrix& from, bool causal,
                std::vector<Matrix>* weights = nullptr) const {
    const Matrix q = linear(name + ".q_proj", x), k = linear(name + ".k_proj", from),
                 v = linear(name + ".v_proj", from);
    Matrix out(x.size(), std::vector<double>(kWidth));
    const int size = kWidth / kHeads;
    for (size_t t = 0; t < x.size(); ++t)
      for (int h = 0; h < kHeads; ++h) {
        std::vector<double> weight;
        double total = 0;
        for (size_t s = 0; s < (causal ? t + 1 : from.size()); ++s) {
          double score = 0;
          for (int i = h * size; i < (h + 1) * size; ++i) score += q[t][at(i)] * k[s][at(i)];
          weight.push_back(std::exp(score / std::sqrt(size)));
          total += weight.back();
        }
        for (double& w : weight) w /= total;
        if (weights != nullptr) (*weights)[at(h)].push_back(weight);
        for (size_t s = 0; s < weight.size(); ++s)
          for (int i = h * size; i < (h + 1) * size; ++i) out[t][at(i)] += weight[s] * v[s][at(i)];
      }
    return linear(name + ".out_proj", out);
  }
  Matrix feed(const std::string& layer, const Matrix& x) const {
    const Matrix y = gelu(linear(layer + "fc1", normed(layer + "final_layer_norm", x)));
    return sum(x, linear(layer + "fc2", y));
  }
  Matrix positions(const std::string& side, size_t count) const {
    Matrix out(count, std::vector<double>(kWidth));
    for (size_t t = 0; t < count; ++t)
      for (int i = 0; i < kWidth; ++i)
        out[t][at(i)] = value(side + ".embed_positions", static_cast<int64_t>(t), i);
    return out;
  }
  Matrix encode(const Matrix& frames) const {
    Matrix x = convolution("encoder.conv2", convolution("encoder.conv1", frames, 1), 2);
    x = sum(x, positions("encoder", x.size()));
    const std::string layer = "encoder.layers.0.";
    const Matrix y = normed(layer + "self_attn_layer_norm", x);
    x = sum(x, attend(layer + "self_attn", y, y, false));
    return normed("encoder.layer_norm", feed(layer, x));
  }
  Matrix decode(const Matrix& source, const Ids& ids,
                std::vector<Matrix>* weights = nullptr) const {
    Matrix x = positions("decoder", ids.size());
    for (size_t t = 0; t < ids.size(); ++t)
      for (int i = 0; i < kWidth; ++i) x[t][at(i)] += value("decoder.embed_tokens", ids[t], i);
    const std::string layer = "decoder.layers.0.";
    const Matrix y = normed(layer + "self_attn_layer_norm", x);
    x = sum(x, attend(layer + "self_attn", y, y, true));
    x = sum(x, attend(layer + "encoder_attn", normed(layer + "encoder_attn_layer_norm", x), source,
                      false, weights));
    return normed("decoder.layer_norm", feed(layer, x));
  }

  std::mt19937 random_;
  std::map<std::string, std::vector<float>> weights_;
  std::map<std::string, std::vector<int>> shapes_;
};

inline Matrix random_frames(std::mt19937& random, int count) {
  std::normal_distribution<float> normal;
  Matrix out(static_cast<size_t>(count), std::vector<double>(kBins));
  for (auto& row : out)
    for (double& x : row) x = double{normal(random)};
  return out;
}

inline proto::Prompt prompt_of(const Matrix& frames, const Ids& decoder) {
  proto::Prompt out;
  auto& to = *out.mutable_encoder()->mutable_frames();
  to.set_num_frames(static_cast<int32_t>(frames.size()));
  to.set_width(kBins);
  for (const auto& row : frames)
    for (const double x : row) to.add_values(static_cast<float>(x));
  out.mutable_decoder()->mutable_token_ids()->mutable_ids()->Assign(decoder.begin(), decoder.end());
  return out;
}

}  // namespace tandem::testing::plain_speech
