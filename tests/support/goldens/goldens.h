// Golden checkpoints under tests/data/goldens (their format: FORMAT.md there).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/config/config.h"
#include "tests/support/goldens/golden_twins.h"

namespace tandem::testing {

using test::test_root;

// A checkpoint of the tree, or a twin of one.
inline std::filesystem::path golden_dir(const std::string& checkpoint) {
  return test::golden_or_twin(checkpoint);
}

// golden.json of a checkpoint; where its cases are another's, that one's.
inline nlohmann::json load_golden(const std::string& checkpoint) {
  nlohmann::json golden = load_json(golden_dir(checkpoint) / "golden.json");
  if (golden.contains("same_as")) return load_golden(golden["same_as"].get<std::string>());
  return golden;
}

// Its cases that generate, of one sequence and of beams.
inline std::vector<nlohmann::json> generated_cases(const std::string& checkpoint) {
  std::vector<nlohmann::json> cases;
  const nlohmann::json golden = load_golden(checkpoint);
  for (const auto& c : golden.at("cases"))
    if (c.contains("output_ids")) cases.push_back(c);
  const auto beams = std::count_if(cases.begin(), cases.end(), [](const nlohmann::json& c) {
    return c.contains("sequences_scores");
  });
  EXPECT_GE(beams, 1) << checkpoint;
  EXPECT_GT(cases.size(), static_cast<size_t>(beams)) << checkpoint;
  return cases;
}

// Tensors of a .safetensors file by name; none where there is no such file.
inline std::map<std::string, HostTensor> load_tensors(const std::filesystem::path& file) {
  std::map<std::string, HostTensor> out;
  if (!std::filesystem::exists(file)) return out;
  std::ifstream in(file, std::ios::binary);
  auto bytes = std::make_shared<std::vector<char>>(std::istreambuf_iterator<char>(in),
                                                   std::istreambuf_iterator<char>());
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  for (HostTensor& t : read_safetensors(data, bytes->size(), file.string(), bytes)) {
    std::string name = t.name;
    out.emplace(std::move(name), std::move(t));
  }
  return out;
}
// Those of a checkpoint's golden.safetensors.
inline std::map<std::string, HostTensor> load_golden_tensors(const std::string& checkpoint) {
  return load_tensors(golden_dir(checkpoint) / "golden.safetensors");
}

}  // namespace tandem::testing
