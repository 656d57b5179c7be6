// The parts of an encoder in doubles, one sequence at a time, with the weights of a checkpoint:
// what sums written out make of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace tandem::testing {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class NaiveLayers {
 public:
  explicit NaiveLayers(const std::filesystem::path& directory)
      : checkpoint_(Checkpoint::open(directory)) {}

  Row tensor(const std::string& name) {
    const HostTensor* found = checkpoint_.find(name);
    if (found == nullptr) throw std::runtime_error(name);
    const Tensor t = to_float(*found);
    return {t.data<float>(), t.data<float>() + t.size()};
  }
  // Row `row` of a table of that width.
  Row row_of(const std::string& name, size_t row, size_t width) {
    const Row table = tensor(name);
    const auto from = table.begin() + static_cast<long>(row * width);
    return {from, from + static_cast<long>(width)};
  }
  Rows linear(const Rows& x, const std::string& name) {
    const Row weight = tensor(name + ".weight"), bias = tensor(name + ".bias");
    Rows out;
    for (const Row& row : x) {
      out.push_back(bias);
      for (size_t o = 0; o < bias.size(); ++o)
        for (size_t i = 0; i < row.size(); ++i)
          out.back()[o] += weight[o * row.size() + i] * row[i];
    }
    return out;
  }
  void norm(Rows& x, const std::string& name) {
    const Row weight = tensor(name + ".weight"), bias = tensor(name + ".bias");
    for (Row& row : x) {
      const auto n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (const double v : row) mean += v / n;
      for (const double v : row) variance += (v - mean) * (v - mean) / n;
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
    }
  }
  static void add(Rows& x, const Rows& y) {
    for (size_t t = 0; t < x.size(); ++t)
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
  }
  // Scores scaled by 1 / sqrt(head size); sees(query, key): the others do not count.
  static Rows attention(const Rows& q, const Rows& k, const Rows& v, size_t heads,
                        const std::function<bool(size_t, size_t)>& sees) {
    const size_t width = q.at(0).size(), size = width / heads;
    Rows out(q.size(), Row(width, 0));
    for (size_t h = 0; h < heads; ++h)
      for (size_t t = 0; t < q.size(); ++t) {
        Row weights;
        double sum = 0;
        for (size_t s = 0; s < k.size(); ++s) {
          double score = 0;
          for (size_t i = h * size; i < (h + 1) * size; ++i) score += q[t][i] * k[s][i];
          weights.push_back(sees(t, s) ? std::exp(score / std::sqrt(static_cast<double>(size)))
                                       : 0);
          sum += weights.back();
        }
        for (size_t s = 0; s < k.size(); ++s)
          for (size_t i = h * size; i < (h + 1) * size; ++i)
            out[t][i] += weights[s] / sum * v[s][i];
      }
    return out;
  }
  // x + fc2(gelu(fc1 x)), normed, of a layer's scope.
  void feed_forward(Rows& x, const std::string& at) {
    Rows inner = linear(x, at + "fc1");
    for (Row& row : inner)
      for (double& v : row) v = v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
    add(x, linear(inner, at + "fc2"));
    norm(x, at + "final_layer_norm");
  }

 private:
  Checkpoint checkpoint_;
};

}  // namespace tandem::testing
