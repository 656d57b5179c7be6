// Twins of a golden checkpoint: the same values in another container and type, as a hub has them,
// written when a test asks for them and gone with its process.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "models/checkpoint/checkpoint.h"
#include "tests/support/files/checkpoint_writer.h"
#include "tests/support/files/files.h"

namespace tandem::test {

inline constexpr const char* kTwinned = "bart-base-shape";
inline constexpr std::array<const char*, 3> kTwins = {
    // float64; names without "model." in front on one side, tensors of no layer, no known class,
    // and NaN in config.json.
    "bart-odd",
    "bart-sharded",  // bf16 in three shards
    "bart-pickle",   // fp16 pytorch_model.bin with tied names, generation settings in config.json
};

// The 16-bit patterns of values that the type can hold; throws std::runtime_error for others.
inline uint16_t exact_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0xffff) != 0) throw std::runtime_error("not a bf16 value");
  return static_cast<uint16_t>(bits >> 16);
}
inline uint16_t exact_f16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, mantissa = bits & 0x7fffff;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  if ((bits & 0x7fffffff) == 0) return static_cast<uint16_t>(sign);
  // Below 2^-14 the leading one moves into the mantissa.
  const int dropped = exponent >= -14 ? 13 : 13 + (-14 - exponent);
  const uint32_t full = mantissa | 0x800000;
  if (exponent > 15 || dropped > 23 || (full & ((1u << dropped) - 1)) != 0)
    throw std::runtime_error("not an fp16 value");
  const uint32_t biased = exponent >= -14 ? static_cast<uint32_t>(exponent + 14) << 10 : 0;
  return static_cast<uint16_t>(sign | (biased + (full >> dropped)));
}

// A tensor's floats as 16-bit patterns, little endian.
inline std::string half_bytes(const HostTensor& tensor, uint16_t (*convert)(float)) {
  std::string out(tensor.bytes / 2, '\0');
  for (size_t i = 0; i < tensor.bytes / 4; ++i) {
    float value;
    std::memcpy(&value, tensor.data + 4 * i, 4);
    const uint16_t bits = convert(value);
    std::memcpy(out.data() + 2 * i, &bits, 2);
  }
  return out;
}

// model-0000i-of-0000N.safetensors in bf16, and their index.
inline void write_shards(const TempDir& dir, const Checkpoint& from, size_t count) {
  std::vector<const HostTensor*> tensors;
  size_t total = 0;
  for (const auto& [name, tensor] : from.tensors()) {
    tensors.push_back(&tensor);
    total += tensor.bytes / 2;
  }
  // Neighbours in the model lie in different files.
  std::sort(tensors.begin(), tensors.end(), [](const HostTensor* a, const HostTensor* b) {
    return std::pair(a->name.size() % 7, a->name) < std::pair(b->name.size() % 7, b->name);
  });
  nlohmann::json index = {{"metadata", {{"total_size", total}}}};
  auto next = tensors.begin();
  for (size_t shard = 0, written = 0; shard < count; ++shard) {
    const std::string file = "model-0000" + std::to_string(shard + 1) + "-of-0000" +
                             std::to_string(count) + ".safetensors";
    nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
    std::string data;
    for (; next != tensors.end() && written * count < total * (shard + 1); ++next) {
      const size_t begin = data.size();
      data += half_bytes(**next, exact_bf16);
      written += data.size() - begin;
      header[(*next)->name] = {
          {"dtype", "BF16"}, {"shape", (*next)->shape}, {"data_offsets", {begin, data.size()}}};
      index["weight_map"][(*next)->name] = file;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data are aligned
    dir.write(file, safetensors(text, data));
  }
  dir.write("model.safetensors.index.json", index.dump(2));
}

inline void write_odd(const TempDir& dir, const Checkpoint& from) {
  nlohmann::json header;
  std::string data;
  const auto add = [&](const std::string& name, const Shape& shape, const std::string& values) {
    header[name] = {{"dtype", "F64"},
                    {"shape", shape},
                    {"data_offsets", {data.size(), data.size() + values.size()}}};
    data += values;
  };
  for (const auto& [name, tensor] : from.tensors()) {
    const Tensor floats = to_float(tensor);
    const std::vector<double> wide(floats.data<float>(), floats.data<float>() + floats.size());
    const bool shorter = name.starts_with("model.decoder.");
    add(shorter ? name.substr(std::string("model.").size()) : name, tensor.shape,
        {reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(double)});
  }
  add("classification_head.dense.bias", {1}, std::string(8, '\0'));
  add("model.encoder.layers.9.fc1.bias", {1}, std::string(8, '\0'));
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  dir.write("model.safetensors", safetensors(text, data));
}

// pytorch_model.bin as torch.save() writes a state_dict: tied names over one storage.
inline void write_pickle(const TempDir& dir, const Checkpoint& from) {
  const std::string embedding = "model.decoder.embed_tokens.weight";
  std::vector<std::pair<std::string, std::string>> items;
  std::vector<std::string> storages;
  for (const auto& [name, tensor] : from.tensors()) {
    std::vector<int64_t> stride(tensor.shape.size(), 1);
    for (size_t d = stride.size(); d-- > 1;) stride[d - 1] = stride[d] * tensor.shape[d];
    const std::string value =
        pickled::tensor(pickled::storage("HalfStorage", std::to_string(storages.size()),
                                         static_cast<int64_t>(tensor.bytes / 4)),
                        0, tensor.shape, stride);
    storages.push_back(half_bytes(tensor, exact_f16));
    items.emplace_back(name, value);
    if (name != embedding) continue;
    for (const char* tied :
         {"model.shared.weight", "model.encoder.embed_tokens.weight", "lm_head.weight"})
      items.emplace_back(tied, value);
  }
  dir.write("pytorch_model.bin", torch_archive(pickled::program(pickled::dict(items)), storages));
}

inline void write_twin(const TempDir& dir, const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path original = golden(kTwinned);
  for (const auto& entry : fs::directory_iterator(original))
    if (entry.path().extension() != ".safetensors" && entry.path().filename() != "golden.json")
      fs::copy(entry.path(), dir.path());
  auto config = json_from<nlohmann::json>(read_file(original / "config.json"));
  const Checkpoint from = Checkpoint::open(original);
  if (name == "bart-odd") {
    config["architectures"] = {"BartForTokenClassification"};  // no class that there is
    config["torch_dtype"] = "float64";
    config.erase("activation_dropout");
    write_odd(dir, from);
    std::string text = config.dump(2);
    text.insert(text.find('{') + 1, "\"activation_dropout\": NaN,");
    dir.write("config.json", text);
    dir.write("golden.json", nlohmann::json{{"checkpoint", name}, {"same_as", kTwinned}}.dump());
    return;
  }
  if (name == "bart-sharded") {
    config["torch_dtype"] = "bfloat16";
    write_shards(dir, from, 3);
  } else {
    config["torch_dtype"] = "float16";
    config.update(json_from<nlohmann::json>(read_file(original / "generation_config.json")));
    fs::remove(dir / "generation_config.json");
    write_pickle(dir, from);
  }
  dir.write("config.json", config.dump(2));
  dir.write("golden.json", nlohmann::json{{"checkpoint", name}, {"same_as", kTwinned}}.dump());
}

// The folder of a golden checkpoint that may be a twin, which is then written at its first use.
// Not for several threads at once.
inline std::filesystem::path golden_or_twin(const std::string& name) {
  if (std::find(kTwins.begin(), kTwins.end(), name) == kTwins.end()) return golden(name);
  static std::map<std::string, std::unique_ptr<TempDir>> written;
  std::unique_ptr<TempDir>& dir = written[name];
  if (dir == nullptr) {
    auto fresh = std::make_unique<TempDir>();
    write_twin(*fresh, name);
    dir = std::move(fresh);
  }
  return dir->path();
}

}  // namespace tandem::test
