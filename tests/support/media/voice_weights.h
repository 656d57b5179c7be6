// A network of voice activity with random weights, in a file as Silero's.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"

namespace tandem::testing {

struct VoiceTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using VoiceTensors = std::map<std::string, VoiceTensor>;

inline VoiceTensors random_voice_tensors(unsigned seed) {
  std::mt19937 random(seed);
  VoiceTensors out;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape, double scale) {
    int64_t size = 1;
    for (const int64_t n : shape) size *= n;
    std::normal_distribution<float> value(0, static_cast<float>(scale));
    auto& values = out[name].values;
    for (int64_t i = 0; i < size; ++i) values.push_back(value(random));
    out[name].shape = shape;
  };
  add("stft_conv.weight", {258, 1, 256}, 0.06);
  const int64_t sizes[] = {129, 128, 64, 64, 128};
  for (size_t i = 0; i < 4; ++i) {
    const std::string name = "conv" + std::to_string(i + 1);
    add(name + ".weight", {sizes[i + 1], sizes[i], 3}, 1 / std::sqrt(2.0 * sizes[i]));
    add(name + ".bias", {sizes[i + 1]}, 0.1);
  }
  for (const char* name : {"ih", "hh"}) {
    add(std::string("lstm_cell.weight_") + name, {512, 128}, 0.09);
    add(std::string("lstm_cell.bias_") + name, {512}, 0.1);
  }
  add("final_conv.weight", {1, 128, 1}, 0.5);
  add("final_conv.bias", {1}, 0.1);
  return out;
}

inline std::filesystem::path write_voice_file(const test::TempDir& folder,
                                              const VoiceTensors& tensors) {
  nlohmann::json header;
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * 4);
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return folder.write("voice.safetensors", test::safetensors(header.dump(), data));
}

}  // namespace tandem::testing
