// Parameters of layers that no checkpoint has.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>

#include "parallel/layers/weights.h"

namespace tandem::testing {

class RandomTensors final : public WeightSource {
 public:
  void add(const std::string& name, const Shape& shape) {
    const auto values = std::make_shared<Tensor>(shape, DType::kF32);
    for (int64_t i = 0; i < values->size(); ++i)
      values->data<float>()[i] = std::uniform_real_distribution<float>(-0.5f, 0.5f)(engine_);
    HostTensor& t = tensors_[name];
    t.name = name;
    t.data = static_cast<const std::byte*>(values->raw());
    t.shape = shape;
    t.bytes = values->bytes();
    t.keep_alive = values;
  }
  const HostTensor* find(const std::string& name) override {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  std::string location() const override { return "memory"; }

 private:
  std::mt19937_64 engine_{11};
  std::map<std::string, HostTensor> tensors_;
};

}  // namespace tandem::testing
