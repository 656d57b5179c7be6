// What adapters change in a table of embeddings: row t gains scaling * B A[:, t], or the table is
// another one. Used from the worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "parallel/layers/adapters.h"

namespace tandem {

class TableAdapters final : public AdapterSite {
 public:
  // A module of `count` rows of `width` values, which the layer multiplies by `scale`.
  TableAdapters(const Build& b, std::string module, int64_t count, int64_t width, float scale);

  std::vector<AdaptableModule> modules() const override {
    return {{module_, count_, width_, /*table=*/true}};
  }
  void load(uint64_t adapter, AdapterChanges& changes) override;
  void drop(uint64_t adapter) override { loaded_.erase(adapter); }

  bool changes() const;
  // Behind ops::embedding without a norm: changes the rows of adapters in args.out. On several
  // ranks, whose results are summed, the first one has all changes.
  void apply(const ops::EmbeddingArgs& args) const;

 private:
  struct Loaded {
    bool replaces = false;
    Tensor down;              // [count, r]
    Tensor up;                // [r, width], with the scales
    PackedWeight product_up;  // the same on a device, for a product
    Tensor whole;             // instead: [count, width]
  };
  void add(const Loaded& loaded, int32_t id, float* out) const;
  void replace(const Loaded& loaded, const ops::EmbeddingArgs& args, int32_t row, float* out) const;
  PackedWeight packed(const Tensor& up) const;
  Tensor listed(const Tensor& indices, const AdapterRows::Group& group) const;
  void apply_there(const Loaded& loaded, const ops::EmbeddingArgs& args,
                   const AdapterRows::Group& group) const;

  Build build_;
  std::string module_;
  int64_t count_, width_;
  float scale_;
  std::map<uint64_t, Loaded> loaded_;
};

}  // namespace tandem
