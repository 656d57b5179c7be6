// Writes adapters as PEFT does, or as it never would.
#pragma once

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"

namespace tandem::testing {

struct AdapterWriter {
  using Shape = std::vector<int64_t>;
  struct Values {
    Shape shape;
    std::vector<float> values;
  };

  nlohmann::json config = {
      {"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 4}, {"target_modules", {"q_proj"}}};
  std::map<std::string, Values> tensors;

  // Random values below 1.
  void add(const std::string& name, const Shape& shape, uint64_t seed = 1) {
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    std::mt19937_64 rng(seed + std::hash<std::string>()(name));
    std::uniform_real_distribution<float> uniform(-1, 1);
    Values& values = tensors["base_model.model." + name] = {shape, {}};
    for (int64_t i = 0; i < count; ++i) values.values.push_back(uniform(rng));
  }
  void add_linear(const std::string& module, int64_t in, int64_t out, int64_t rank,
                  uint64_t seed = 1) {
    add(module + ".lora_A.weight", {rank, in}, seed);
    add(module + ".lora_B.weight", {out, rank}, seed);
  }
  void write(const test::TempDir& dir) const {
    dir.write("adapter_config.json", config.dump());
    dir.write("adapter_model.safetensors", file());
  }
  std::string file() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const size_t begin = data.size(), bytes = tensor.values.size() * sizeof(float);
      data.resize(begin + bytes);
      std::memcpy(data.data() + begin, tensor.values.data(), bytes);
      header[name] = {
          {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + bytes}}};
    }
    return test::safetensors(header.dump(), data);
  }
};

}  // namespace tandem::testing
