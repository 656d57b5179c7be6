// fc2(act(fc1 x)), or fc2(act(fc1 x) * gate x).
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "parallel/layers/layers.h"

namespace tandem {

struct FeedForwardOptions {
  int64_t width = 0;  // between the two layers
  Activation activation = Activation::kGelu;
  bool gated = false;  // fc2(act(fc1 x) * gate x)
  Bias bias = Bias::kRequired;
};

class FeedForward {
 public:
  // `gate` is read if there is one.
  FeedForward(const Weights& fc1, const Weights& gate, const Weights& fc2, const Build& b,
              int64_t d_model, const FeedForwardOptions& o)
      : build_(b),
        activation_(o.activation),
        d_model_(d_model),
        piece_(rows_of_piece(o, shard_range(o.width, b.comm.rank(), b.comm.size()).size())),
        first_(o.gated ? First(GatedParallelLinear(fc1, gate, b, d_model, o.width, o.activation,
                                                   o.bias))
                       : ColumnParallelLinear(fc1, b, d_model, o.width, o.activation, o.bias)),
        fc2_(fc2, b, o.width, d_model, shard_range(o.width, b.comm.rank(), b.comm.size()), o.bias) {
  }
  Tensor forward(NormedRows& x) const { return fc2_.forward(first(x)); }

  // Its part of a layer for ops::decoder_step; false: the op has no such.
  bool describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const {
    const StepProduct of_first =
        std::visit([](const auto& layer) { return layer.step_product(); }, first_);
    const StepProduct of_second = fc2_.step_product();
    if (!of_first || !of_second) return false;
    parts.first = *of_first;
    parts.second = *of_second;
    shape.activation = activation_;
    shape.gated = std::holds_alternative<GatedParallelLinear>(first_);
    return true;
  }

  // The CPU takes many rows of gated layers in pieces, because the intermediate rows are read and
  // written three times. No bit depends on the pieces.
  Tensor forward_many(NormedRows& all) const {
    if (!build_.ctx.on_cpu() || piece_ == kAllRows) return forward(all);
    const Tensor& x = all.rows();
    const int64_t rows = x.dim(0);
    if (rows <= piece_) return forward(all);
    const Tensor out = build_.ctx.make({rows, d_model_});
    for (int64_t row = 0; row < rows; row += piece_) {
      const int64_t end = std::min(rows, row + piece_);
      NormedRows part(x.rows(row, end));
      const AdapterSet* set = build_.adapters;
      const AdapterSet::Scope scope(build_.adapters,
                                    set != nullptr ? set->rows().part(row, end) : AdapterRows());
      fc2_.write_part(first(part), out.rows(row, end));
    }
    fc2_.sum_parts(out);
    return out;
  }

 private:
  using First = std::variant<ColumnParallelLinear, GatedParallelLinear>;

  static constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

  // Measured with T5-base's layers: 1024 rows, 16 MiB.
  static int64_t rows_of_piece(const FeedForwardOptions& o, int64_t width) {
    constexpr int64_t kPieceBytes = int64_t{16} << 20, kLeastRows = 128;
    if (!o.gated) return kAllRows;
    const int64_t row_bytes = 2 * width * static_cast<int64_t>(sizeof(float));
    return std::max(kLeastRows, kPieceBytes / std::max<int64_t>(1, row_bytes));
  }

  Tensor first(NormedRows& x) const {
    return std::visit([&](const auto& layer) { return layer.forward(x); }, first_);
  }

  Build build_;
  Activation activation_;
  int64_t d_model_;
  int64_t piece_;  // rows
  First first_;
  RowParallelLinear fc2_;
};

}  // namespace tandem
