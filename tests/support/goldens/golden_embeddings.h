// Embeddings of HuggingFace's models, from the encoder states of golden cases.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/core/tensor.h"
#include "tests/support/goldens/goldens.h"

namespace tandem::testing {

struct GoldenEmbedding {
  std::string name;
  std::vector<int> ids;  // the encoder's
  HostTensor states;     // [tokens, d_model]

  std::vector<double> pooled(const std::string& pooling, bool normalize) const {
    const Tensor all = to_float(states);
    const auto rows = static_cast<int64_t>(ids.size());
    const int64_t size = all.size() / rows;
    const int64_t first = pooling == "last" ? rows - 1 : 0, end = pooling == "cls" ? 1 : rows;
    std::vector<double> out(static_cast<size_t>(size));
    for (int64_t i = first; i < end; ++i)
      for (int64_t k = 0; k < size; ++k)
        out[static_cast<size_t>(k)] += all.data<float>()[i * size + k];
    double squares = 0;
    for (double& v : out) v /= static_cast<double>(end - first);
    for (const double v : out) squares += v * v;
    for (double& v : out) v /= normalize ? std::sqrt(squares) : 1;
    return out;
  }
};

// Cases whose states are there.
inline std::vector<GoldenEmbedding> golden_embeddings(const std::string& checkpoint) {
  std::vector<GoldenEmbedding> out;
  const auto tensors = load_golden_tensors(checkpoint);
  const nlohmann::json golden = load_golden(checkpoint);
  for (const auto& c : golden.at("cases")) {
    const std::string name = c.at("name").get<std::string>();
    const auto it = tensors.find(name + ".encoder_last_hidden_state");
    if (it != tensors.end())
      out.push_back({name, c.at("encoder_ids").get<std::vector<int>>(), it->second});
  }
  EXPECT_GE(out.size(), 2u) << checkpoint;
  return out;
}

}  // namespace tandem::testing
