// A layer and adapters of it with random values, and what its rows become, in plain sums.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "parallel/layers/adapters.h"
#include "parallel/layers/weights.h"

namespace tandem::testing::adapted {

constexpr int64_t kIn = 20, kOut = 12, kRank = 3, kIds = 11;
constexpr float kScaling = 0.75f;

inline HostTensor random_tensor(const std::string& name, const Shape& shape, uint64_t seed) {
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  const auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(count));
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  for (float& v : *values) v = uniform(rng);
  HostTensor out;
  out.name = name;
  out.file = "memory";
  out.data = reinterpret_cast<const std::byte*>(values->data());
  out.shape = shape;
  out.bytes = values->size() * sizeof(float);
  out.keep_alive = values;
  return out;
}

inline float at(const HostTensor& t, int64_t i) {
  float v;
  std::memcpy(&v, t.data + i * 4, 4);
  return v;
}

class BaseWeights final : public WeightSource {
 public:
  void add(const std::string& name, const Shape& shape, uint64_t seed) {
    tensors_[name] = random_tensor(name, shape, seed);
  }
  const HostTensor* find(const std::string& name) override {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  std::string location() const override { return "memory"; }

 private:
  std::map<std::string, HostTensor> tensors_;
};

struct PlainChanges final : AdapterChanges {
  std::map<std::string, ModuleChange> modules;
  const ModuleChange* find(const std::string& module) override {
    const auto it = modules.find(module);
    return it == modules.end() ? nullptr : &it->second;
  }
};

inline ModuleChange low_rank(int64_t in, int64_t out, uint64_t seed, bool dora = false) {
  ModuleChange change;
  change.a = random_tensor("a", {kRank, in}, seed);
  change.b = random_tensor("b", {out, kRank}, seed + 1);
  change.scaling = kScaling;
  if (dora) change.magnitude = random_tensor("m", {out}, seed + 2);
  return change;
}

// What a row becomes, in double: W' x + bias, with W' as PEFT merges it.
inline std::vector<double> merged_row(const HostTensor& weight, const HostTensor& bias,
                                      const ModuleChange* change, const float* x) {
  const int64_t out = weight.shape[0], in = weight.shape[1];
  std::vector<double> y(static_cast<size_t>(out));
  for (int64_t n = 0; n < out; ++n) {
    std::vector<double> w(static_cast<size_t>(in));
    double squares = 0;
    for (int64_t k = 0; k < in; ++k) {
      double& value = w[static_cast<size_t>(k)] = at(weight, n * in + k);
      if (change != nullptr && change->weight) value = at(*change->weight, n * in + k);
      if (change != nullptr && change->a)
        for (int64_t j = 0; j < kRank; ++j)
          value += double{kScaling} * at(*change->b, n * kRank + j) * at(*change->a, j * in + k);
      squares += value * value;
    }
    const double factor = change != nullptr && change->magnitude
                              ? at(*change->magnitude, n) / std::sqrt(squares)
                              : 1.0;
    double& sum = y[static_cast<size_t>(n)];
    for (int64_t k = 0; k < in; ++k) sum += factor * w[static_cast<size_t>(k)] * x[k];
    sum += at(change != nullptr && change->bias ? *change->bias : bias, n);
    if (change != nullptr && change->b_bias) sum += double{kScaling} * at(*change->b_bias, n);
  }
  return y;
}

inline Tensor random_rows(int64_t rows, int64_t columns) {
  const HostTensor t = random_tensor("x", {rows, columns}, 99);
  return to_float(t).reshape({rows, columns});
}

}  // namespace tandem::testing::adapted
