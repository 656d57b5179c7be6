// The files of tests/data/layouts: cases with PyTorch's answers, and descriptors to refuse.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/layouts/layout_call.h"

namespace tandem::testing {

// TANDEM_LAYOUTS names another folder of such files.
inline std::filesystem::path layout_folder() {
  const char* given = std::getenv("TANDEM_LAYOUTS");
  return given != nullptr ? std::filesystem::path(given)
                          : std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/layouts";
}

// All tensors of a safetensors file. float64 becomes f32, bool u8.
inline std::map<std::string, Tensor> read_tensors(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  uint64_t size = 0;
  TANDEM_CHECK_GE(bytes.size(), sizeof(size));
  std::memcpy(&size, bytes.data(), sizeof(size));
  const auto header = parse_json(std::string_view(bytes).substr(8, size), file.string());
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const Shape shape = entry.at("shape");
    const std::string type = entry.at("dtype");
    const char* data = bytes.data() + 8 + size + entry.at("data_offsets").at(0).get<size_t>();
    const DType stored = type == "I32"                    ? DType::kI32
                         : type == "BOOL" || type == "U8" ? DType::kU8
                                                          : DType::kF32;
    const Tensor t(shape, stored);
    if (type == "F64") {
      for (int64_t i = 0; i < t.size(); ++i) {
        double x;
        std::memcpy(&x, data + i * 8, sizeof(x));
        t.data<float>()[i] = static_cast<float>(x);
      }
    } else {
      TANDEM_CHECK(type == "F32" || type == "I32" || type == "BOOL" || type == "U8");
      if (t.size() > 0) std::memcpy(t.raw(), data, t.bytes());
    }
    tensors[name] = t;
  }
  return tensors;
}

struct LayoutCase {
  std::string name;
  LayoutCall call;                         // inputs only
  std::map<std::string, Tensor> expected;  // of its outputs
};

inline void set_attributes(const nlohmann::json& attributes, LayoutCall& call) {
  call.layout = attributes.value("kv_layout", "NHD") == "HND" ? KvLayout::kHND : KvLayout::kNHD;
  call.causal = attributes.value("causal", false);
  if (attributes.contains("sm_scale")) call.sm_scale = attributes.at("sm_scale").get<float>();
}

// Of a list of names, or of an object with a shape for each.
inline std::vector<std::string> names_in(const nlohmann::json& tensors) {
  if (tensors.is_array()) return tensors;
  std::vector<std::string> names;
  for (const auto& [name, shape] : tensors.items()) names.push_back(name);
  return names;
}

inline std::vector<LayoutCase> layout_cases(const std::string& stem) {
  const auto index = load_json(layout_folder() / (stem + ".json"));
  const auto tensors = read_tensors(layout_folder() / index.at("file").get<std::string>());
  std::vector<LayoutCase> cases;
  for (const auto& entry : index.at("cases")) {
    LayoutCase one;
    one.name = entry.at("name");
    one.call.op = entry.at("op");
    set_attributes(entry.at("attributes"), one.call);
    for (const std::string& name : names_in(entry.at("tensors")))
      one.call.tensors[name] = tensors.at(one.name + "." + name);
    for (const std::string& name : names_in(entry.at("outputs")))
      one.expected[name] = tensors.at(one.name + "." + name);
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace tandem::testing
