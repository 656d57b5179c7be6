// Plain versions of the ops of kernels/sound_ops.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference.h"

namespace tandem::reference {

void compress_frames(const ops::CompressFramesArgs& args) {
  const int64_t size = args.x.dim(1);
  for (int64_t t = 0; t < args.x.dim(0); ++t) {
    const float* x = args.x.row<float>(t);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < size; ++i) mean += double{x[i]} / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i)
      variance += (double{x[i]} - mean) * (double{x[i]} - mean) / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i)
      args.out.row<float>(t)[i] = static_cast<float>(std::asinh(
          double{args.factor} * (double{x[i]} - mean) / std::sqrt(variance + double{args.eps})));
  }
}

void feature_norm(const ops::FeatureNormArgs& args) {
  const int32_t* starts = args.start_loc.data<int32_t>();
  for (int64_t s = 0; s + 1 < args.start_loc.dim(0); ++s)
    for (int64_t c = 0; c < args.x.dim(1); ++c) {
      const double count = starts[s + 1] - starts[s];
      double mean = 0, variance = 0;
      for (int64_t t = starts[s]; t < starts[s + 1]; ++t)
        mean += double{args.x.row<float>(t)[c]} / count;
      for (int64_t t = starts[s]; t < starts[s + 1]; ++t) {
        const double off = double{args.x.row<float>(t)[c]} - mean;
        variance += off * off / count;
      }
      for (int64_t t = starts[s]; t < starts[s + 1]; ++t)
        args.out.row<float>(t)[c] = static_cast<float>((double{args.x.row<float>(t)[c]} - mean) /
                                                           std::sqrt(variance + double{args.eps}) *
                                                           double{args.weight.data<float>()[c]} +
                                                       double{args.bias.data<float>()[c]});
    }
}

void depthwise_conv(const ops::DepthwiseConvArgs& args) {
  const int32_t *in = args.start_loc.data<int32_t>(), *out = args.out_starts.data<int32_t>();
  const int64_t features = args.weight.dim(1);
  const bool single = args.x.dim(1) == args.x_columns;
  const auto value = [&](int64_t s, int64_t row, int64_t column, int64_t c) {
    const bool there =
        row >= 0 && row < in[s + 1] - in[s] && column >= 0 && column < args.x_columns;
    if (!there) return 0.0;
    return double{args.x.row<float>(in[s] + row)[single ? column : column * features + c]};
  };
  for (int64_t s = 0; s + 1 < args.start_loc.dim(0); ++s)
    for (int64_t p = 0; p < out[s + 1] - out[s]; ++p)
      for (int64_t q = 0; q < args.out_columns; ++q)
        for (int64_t c = 0; c < features; ++c) {
          double sum = double{args.bias.data<float>()[c]};
          for (int64_t i = 0; i < args.height; ++i)
            for (int64_t j = 0; j < args.width; ++j)
              sum += double{args.weight.row<float>(i * args.width + j)[c]} *
                     value(s, args.stride * p + i - args.row_padding,
                           args.stride * q + j - args.column_padding, c);
          args.out.row<float>(out[s] + p)[q * features + c] =
              static_cast<float>(activate(args.activation, sum));
        }
}

void relative_attention(const ops::RelativeAttentionArgs& args) {
  const int32_t* starts = args.indptr.data<int32_t>();
  for (int64_t s = 0; s + 1 < args.indptr.dim(0); ++s)
    for (int64_t h = 0; h < args.num_heads; ++h)
      for (int64_t i = starts[s]; i < starts[s + 1]; ++i) {
        const int64_t first = h * args.head_dim;
        const auto at = [&](const Tensor& t, int64_t row, int64_t d) {
          return double{t.row<float>(row)[first + d]};
        };
        std::vector<double> weights;
        for (int64_t j = starts[s]; j < starts[s + 1]; ++j) {
          double score = 0;
          for (int64_t d = 0; d < args.head_dim; ++d) {
            const double q = at(args.q, i, d);
            score += (q + double{args.q_bias.data<float>()[first + d]}) * at(args.k, j, d);
            score += (q + double{args.d_bias.data<float>()[first + d]}) *
                     at(args.distances, args.zero + j - i, d);
          }
          weights.push_back(double{args.scale} * score);
        }
        const double top = *std::max_element(weights.begin(), weights.end());
        double sum = 0;
        for (double& w : weights) sum += w = std::exp(w - top);
        for (int64_t d = 0; d < args.head_dim; ++d) {
          double value = 0;
          for (size_t j = 0; j < weights.size(); ++j)
            value += weights[j] * at(args.v, starts[s] + static_cast<int64_t>(j), d);
          args.out.row<float>(i)[first + d] = static_cast<float>(value / sum);
        }
      }
}

}  // namespace tandem::reference
