// What adapters change in one product of a layer: y += scaling * B (A x) for the rows of each.
// Used from the worker's thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "parallel/layers/adapters.h"

namespace tandem {

// A module's place in a product whose weight is several of them, stacked.
struct AdaptedPart {
  std::string module;
  int64_t out = 0, in = 0;  // of the module
  Range rows, columns;      // of its weight, on this rank
};

// On the CPU all sums are f32 in a fixed order, whatever type the base computes in. A row's result
// depends on its own values alone: each of the products below is one of ops::linear. On a device
// matrices and sums have the type of its activations.
class LinearAdapters final : public AdapterSite {
 public:
  // The base's product, of all parts.
  struct Base {
    PackedWeight weight;
    Tensor bias;         // may be empty
    float scale = 1.0f;  // the weight is the module's times that
    // Each rank has some columns and makes a part of the sum. The first rank adds the biases.
    bool sums_over_ranks = false;
    bool f32_results = false;  // whatever type activations have
  };
  LinearAdapters(const Build& b, std::vector<AdaptedPart> parts, Base base);

  std::vector<AdaptableModule> modules() const override;
  void load(uint64_t adapter, AdapterChanges& changes) override;
  void drop(uint64_t adapter) override { loaded_.erase(adapter); }

  // Whether any row of the set's matrices is changed here.
  bool changes() const;
  // x [T, in of this rank], y = W x + bias [T, out of this rank] of the base, before its
  // activation: changes the rows of adapters.
  void apply(const Tensor& x, const Tensor& y) const;

 private:
  // One part of one adapter.
  struct Delta {
    size_t part = 0;
    int64_t hidden = 0, rank = 0;  // its columns of A x
    PackedWeight up;               // scaling * B
    Tensor up_bias;                // [rows], or empty
    // [rows], or empty: y is multiplied by 1 + gain, the bias apart. On a device [1, rows], the
    // bias included: up_bias makes up for it.
    Tensor gain;
    PackedWeight whole;  // instead
    Tensor whole_bias;
  };
  struct Loaded {
    PackedWeight down;  // A of all parts
    std::vector<Delta> parts;
  };

  int64_t first_column(size_t part) const;
  bool adds_bias() const { return !base_.sums_over_ranks || build_.comm.rank() == 0; }
  Delta low_rank(const AdaptedPart& part, int64_t first, const ModuleChange& change,
                 std::vector<Tensor>& downs) const;
  Delta replaced(const AdaptedPart& part, int64_t first, const ModuleChange& change) const;
  Delta merged(const AdaptedPart& part, int64_t first, Delta delta, const Tensor& down,
               const Tensor& up) const;
  void keep_there(int64_t first, Delta& delta) const;
  Tensor base_columns(Range columns, int64_t of) const;
  Tensor bias_of(int64_t first, int64_t rows) const;
  DType results() const;
  PackedWeight packed(std::span<const Tensor> stacked) const;
  Tensor gains(const AdaptedPart& part, int64_t first, const HostTensor& magnitude,
               const Tensor& down, const Tensor& up) const;
  void add(const Delta& delta, const Tensor& hidden, const Tensor& y,
           const AdapterRows::Group& group) const;
  void add_there(const Delta& delta, const Tensor& sum, const Tensor& y,
                 const AdapterRows::Group& group) const;
  void replace(const Delta& delta, const Tensor& x, const Tensor& y,
               const AdapterRows::Group& group) const;

  Build build_;
  std::vector<AdaptedPart> parts_;
  Base base_;
  std::map<uint64_t, Loaded> loaded_;
};

// The site of such a product, in the set that `b` has; null if there is none.
std::shared_ptr<LinearAdapters> adapt_linear(const Build& b, std::vector<AdaptedPart> parts,
                                             const LinearAdapters::Base& base);

}  // namespace tandem
