// Tensors of a checkpoint that layers need in another form: made at load, in place of the file's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallel/layers/weights.h"

namespace tandem {

// Another source's tensors, but for those that were put in. Used while a model is loaded, by one
// thread.
class ChangedWeights final : public WeightSource {
 public:
  // `source` outlives this.
  explicit ChangedWeights(const Weights& source) : source_(source) {}

  // `name` of that scope, from now on.
  void put(const Weights& scope, std::string_view name, Shape shape, std::vector<float> values);
  // The same for its part of these rows (of the first dimension), which stay in the file.
  void put_rows(const Weights& scope, std::string_view name, const HostTensor& of, int64_t begin,
                int64_t end);
  // The scope, with the changes.
  Weights at(const Weights& scope) { return Weights(*this, scope.scope()); }

  const HostTensor* find(const std::string& name) override {
    const auto it = own_.find(name);
    return it != own_.end() ? &it->second : source_.source().find(name);
  }
  void skip(const std::string& prefix) override { source_.source().skip(prefix); }
  std::string location() const override { return source_.source().location(); }

 private:
  Weights source_;
  std::map<std::string, HostTensor> own_;
};

// The weight [2 * rows, columns] and the bias of `both`, as those of `first` and of `second`.
void split_halves(ChangedWeights& changed, const Weights& both, const Weights& first,
                  const Weights& second, int64_t rows, int64_t columns);
// The values of a tensor, widened.
std::vector<float> values_of(const HostTensor& t);

}  // namespace tandem
