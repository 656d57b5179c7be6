// Queries, keys and values, which some files have in one tensor, one below the other.
#pragma once

#include <string>

#include "parallel/layers/weights.h"

namespace tandem {

// "….q", "….k" and "….v" of a file's "….qkv", as tensors of their own.
class SplitWeights final : public WeightSource {
 public:
  explicit SplitWeights(WeightSource& file) : file_(file) {}

  // Valid until the next call: who keeps a tensor copies it. Throws InputError for a tensor that
  // does not fall into three.
  const HostTensor* find(const std::string& name) override;
  void skip(const std::string& beginning) override { file_.skip(beginning); }
  std::string location() const override { return file_.location(); }

 private:
  const HostTensor* third(const HostTensor& whole, size_t part, const std::string& name);

  WeightSource& file_;
  HostTensor found_;
};

}  // namespace tandem
