// The plain versions. Everything is summed in double.
#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/kv_pages.h"
#include "kernels/order_key.h"

namespace tandem::reference {
namespace {

// A head's key or value to f8 pages: the least power of two that brings its largest finite element
// to 448 or below, as far as there is one.
void write_f8(const KvPages& pages, int64_t at, const float* from, int64_t size) {
  float largest = 0;
  for (int64_t d = 0; d < size; ++d)
    if (std::isfinite(from[d])) largest = std::max(largest, std::fabs(from[d]));
  int exponent = -126;
  while (std::ldexp(448.0, exponent) < largest) ++exponent;
  pages.scales.data<uint8_t>()[at / size] = static_cast<uint8_t>(exponent + 127);
  auto* to = static_cast<uint8_t*>(pages.data.raw()) + at;
  for (int64_t d = 0; d < size; ++d) to[d] = float_to_e4m3(std::ldexp(from[d], -exponent));
}

// The same to i8 pages: as LinearArgs has rows in i8.
void write_i8(const KvPages& pages, int64_t at, const float* from, int64_t size) {
  float largest = 0;
  for (int64_t d = 0; d < size; ++d) largest = std::max(largest, std::fabs(from[d]));
  const bool finite =
      std::all_of(from, from + size, [](float value) { return std::isfinite(value); });
  const bool zero = !finite || largest < 1e-30f;
  pages.scales.data<float>()[at / size] = !finite ? NAN : zero ? 0.0f : largest / 127;
  auto* to = static_cast<int8_t*>(pages.data.raw()) + at;
  for (int64_t d = 0; d < size; ++d)
    to[d] = zero ? int8_t{0} : static_cast<int8_t>(std::nearbyint(from[d] * (127 / largest)));
}

// Element i of a head of head_dim values at `head`, turned.
double turned(const ops::Rotary& rotary, int64_t token, const float* head, int64_t i) {
  const int64_t size = rotary.angles.empty() ? 0 : rotary.angles.dim(1), half = size / 2;
  if (i >= size) return head[i];
  const int64_t pair = rotary.interleaved ? i / 2 : i % half;
  const int64_t first = rotary.interleaved ? 2 * pair : pair;
  const int64_t second = rotary.interleaved ? first + 1 : first + half;
  const double cosine = rotary.angles.row<float>(token)[pair];
  const double sine = rotary.angles.row<float>(token)[half + pair];
  return i == first ? head[first] * cosine - head[second] * sine
                    : head[second] * cosine + head[first] * sine;
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace

double element(const void* data, DType dtype, int64_t i) {
  const std::byte* p =
      static_cast<const std::byte*>(data) + static_cast<size_t>(i) * size_of(dtype);
  if (dtype == DType::kF32) {
    float f;
    std::memcpy(&f, p, sizeof f);
    return f;
  }
  if (dtype == DType::kF8E4M3) return e4m3_to_float(std::to_integer<uint8_t>(*p));
  if (dtype == DType::kI8) return static_cast<int8_t>(std::to_integer<uint8_t>(*p));
  uint16_t h;
  std::memcpy(&h, p, sizeof h);
  return dtype == DType::kBF16 ? bf16_to_float(h) : f16_to_float(h);
}

double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x > 0 ? x : 0;
    case Activation::kGelu: return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kQuickGelu: return x / (1 + std::exp(-1.702 * x));
    case Activation::kSilu: return x / (1 + std::exp(-x));
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return 1 / (1 + std::exp(-x));
    case Activation::kClippedGelu:
      return std::clamp(activate(Activation::kGelu, x), -double{kGeluClip}, double{kGeluClip});
    case Activation::kHardSwish: return x * std::clamp(x + 3, 0.0, 6.0) / 6;
    case Activation::kLaplace:
      return 0.5 * std::erfc((kLaplaceMean - x) / kLaplaceDeviation * std::sqrt(0.5));
    case Activation::kLeakyRelu: return x < 0 ? kLeak * x : x;
    case Activation::kMish: return x * std::tanh(softplus(x));
    case Activation::kRelu2: return x > 0 ? x * x : 0;
    case Activation::kRelu6: return std::clamp(x, 0.0, 6.0);
    case Activation::kSqrtSoftplus: return std::sqrt(softplus(x));
  }
  return x;
}

void linear(const MatrixView& w, const Tensor& x, const Tensor& bias, Activation activation,
            const Tensor& out) {
  for (int64_t t = 0; t < x.dim(0); ++t)
    for (int64_t n = 0; n < w.rows; ++n) {
      double y = bias.empty() ? 0 : bias.data<float>()[n];
      for (int64_t k = 0; k < w.columns; ++k)
        y += element(w.data, w.dtype, n * w.row_stride + k) * double{x.row<float>(t)[k]};
      out.row<float>(t)[n] = static_cast<float>(activate(activation, y));
    }
}

void embedding(const ops::EmbeddingArgs& args) {
  for (int64_t t = 0; t < args.ids.dim(0); ++t) {
    const int64_t id = int64_t{args.ids.data<int32_t>()[t]} - args.first_id;
    for (int64_t i = 0; i < args.tokens.dim(1); ++i) {
      double y = 0;
      if (id >= 0 && id < args.tokens.dim(0))
        y = args.scale *
            element(args.tokens.raw(), args.tokens.dtype(), id * args.tokens.row_stride() + i);
      if (!args.positions.empty()) {
        const int64_t p = args.position_ids.data<int32_t>()[t] + args.position_offset;
        y += element(args.positions.raw(), args.positions.dtype(),
                     p * args.positions.row_stride() + i);
      }
      args.out.row<float>(t)[i] = static_cast<float>(y);
    }
  }
  if (!args.norm_weight.empty())
    layer_norm({args.out, {}, args.norm_weight, args.norm_bias, args.norm_eps, args.out});
}

void layer_norm(const ops::LayerNormArgs& args) {
  const int64_t size = args.x.dim(1) / args.groups;
  std::vector<double> h(static_cast<size_t>(size));
  for (int64_t at = 0; at < args.x.dim(0) * args.groups; ++at) {
    const int64_t t = at / args.groups, first = at % args.groups * size;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < size; ++i) {
      const double r = args.residual.empty() ? 0 : args.residual.row<float>(t)[i];
      mean += h[static_cast<size_t>(i)] = double{args.x.row<float>(t)[first + i]} + r;
      if (!args.sum.empty())
        args.sum.row<float>(t)[i] = static_cast<float>(h[static_cast<size_t>(i)]);
    }
    mean = args.rms ? 0 : mean / static_cast<double>(size);
    for (double v : h) variance += (v - mean) * (v - mean);
    variance /= static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i)
      args.out.row<float>(t)[first + i] = static_cast<float>(
          (h[static_cast<size_t>(i)] - mean) / std::sqrt(variance + double{args.eps}) *
              double{args.weight.data<float>()[i]} +
          (args.rms ? 0.0 : args.bias.data<float>()[i]));
  }
}

void soft_cap(const ops::SoftCapArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t)
    for (int64_t i = 0; i < args.x.dim(1); ++i) {
      float& x = args.x.row<float>(t)[i];
      x = static_cast<float>(double{args.cap} * std::tanh(double{x} / double{args.cap}));
    }
}

void conv_windows(const ops::ConvWindowsArgs& args) {
  const int32_t *in = args.start_loc.data<int32_t>(), *out = args.out_starts.data<int32_t>();
  for (int64_t s = 0; s + 1 < args.start_loc.dim(0); ++s)
    for (int64_t p = 0; p < out[s + 1] - out[s]; ++p)
      for (int64_t c = 0; c < args.x.dim(1); ++c)
        for (int64_t k = 0; k < args.width; ++k) {
          const int64_t row = args.stride * p + k - args.padding;
          const bool there = row >= 0 && row < in[s + 1] - in[s];
          args.out.row<float>(out[s] + p)[c * args.width + k] =
              there ? args.x.row<float>(in[s] + row)[c] : 0.0f;
        }
}

void sequence_norm(const ops::SequenceNormArgs& args) {
  const int32_t* starts = args.start_loc.data<int32_t>();
  const int64_t size = args.x.dim(1);
  for (int64_t s = 0; s + 1 < args.start_loc.dim(0); ++s) {
    const double count = static_cast<double>(starts[s + 1] - starts[s]) * static_cast<double>(size);
    double mean = 0, variance = 0;
    for (int64_t t = starts[s]; t < starts[s + 1]; ++t)
      for (int64_t c = 0; c < size; ++c) mean += double{args.x.row<float>(t)[c]} / count;
    for (int64_t t = starts[s]; t < starts[s + 1]; ++t)
      for (int64_t c = 0; c < size; ++c) {
        const double off = double{args.x.row<float>(t)[c]} - mean;
        variance += off * off / count;
      }
    for (int64_t t = starts[s]; t < starts[s + 1]; ++t)
      for (int64_t c = 0; c < size; ++c)
        args.out.row<float>(t)[c] = static_cast<float>((double{args.x.row<float>(t)[c]} - mean) /
                                                           std::sqrt(variance + double{args.eps}) *
                                                           double{args.weight.data<float>()[c]} +
                                                       double{args.bias.data<float>()[c]});
  }
}

void rotary_angles(const ops::RotaryAnglesArgs& args) {
  const int64_t pairs = args.frequencies.dim(0);
  for (int64_t t = 0; t < args.positions.dim(0); ++t)
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle =
          static_cast<float>(args.positions.data<int32_t>()[t]) * args.frequencies.data<float>()[i];
      args.out.row<float>(t)[i] = static_cast<float>(std::cos(double{angle}));
      args.out.row<float>(t)[pairs + i] = static_cast<float>(std::sin(double{angle}));
    }
}

void rotary(const ops::RotaryArgs& args) {
  for (int64_t t = 0; t < args.x.dim(0); ++t)
    for (int64_t h = 0; h < args.num_heads; ++h) {
      float* head = args.x.row<float>(t) + h * args.head_dim;
      const std::vector<float> before(head, head + args.head_dim);
      for (int64_t i = 0; i < args.head_dim; ++i)
        head[i] = static_cast<float>(turned(args.rotary, t, before.data(), i));
    }
}

void gated_activation(const ops::GatedActivationArgs& args) {
  for (int64_t t = 0; t < args.gate.dim(0); ++t)
    for (int64_t i = 0; i < args.gate.dim(1); ++i)
      args.out.row<float>(t)[i] = static_cast<float>(
          activate(args.activation, args.gate.row<float>(t)[i]) * double{args.up.row<float>(t)[i]});
}

void write_kv(const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  const DType type = args.pages.data.dtype();
  std::vector<float> values(static_cast<size_t>(s.head_dim));
  for (int64_t t = 0; t < args.k.dim(0); ++t) {
    const int64_t slot = args.slot_mapping.data<int32_t>()[t];
    if (slot < 0) continue;
    for (int64_t at = 0; at < 2 * s.num_heads; ++at) {
      const int64_t kv = at % 2, head = at / 2;
      const float* from = (kv == 0 ? args.k : args.v).row<float>(t) + head * s.head_dim;
      for (int64_t i = 0; i < s.head_dim; ++i)
        values[static_cast<size_t>(i)] =
            kv == 0 ? static_cast<float>(turned(args.rotary, t, from, i)) : from[i];
      const int64_t to =
          slot / s.block_size * s.block + kv * s.kv + slot % s.block_size * s.token + head * s.head;
      if (type == DType::kF8E4M3) write_f8(args.pages, to, values.data(), s.head_dim);
      if (type == DType::kI8) write_i8(args.pages, to, values.data(), s.head_dim);
      for (int64_t i = 0; i < s.head_dim && !page_scale_type(type); ++i) {
        const float value = values[static_cast<size_t>(i)];
        if (type == DType::kF32)
          args.pages.data.data<float>()[to + i] = value;
        else
          args.pages.data.data<uint16_t>()[to + i] = float_to_bf16(value);
      }
    }
  }
}

void combine_rows(const ops::CombineRowsArgs& args) {
  for (int64_t t = 0; t < args.out.dim(0); ++t)
    for (int64_t d = 0; d < args.out.dim(1); ++d) {
      double sum = 0;
      for (int64_t i = 0; i < args.places.dim(1); ++i)
        if (const int32_t place = args.places.row<int32_t>(t)[i]; place >= 0)
          sum += double{args.factors.row<float>(t)[i]} * double{args.x.row<float>(place)[d]};
      args.out.row<float>(t)[d] = static_cast<float>(sum);
    }
}

void sum_ranges(const ops::SumRangesArgs& args) {
  for (int64_t i = 0; i < args.ranges.dim(0); ++i) {
    const int32_t* range = args.ranges.row<int32_t>(i);
    for (int64_t d = 0; d < args.x.dim(1); ++d) {
      double sum = 0;
      for (int64_t row = range[0]; row < range[1]; ++row) sum += double{args.x.row<float>(row)[d]};
      args.out.row<float>(i)[d] = static_cast<float>(sum);
    }
  }
}

void join_best(const ops::JoinBestArgs& args) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < args.part_ids.dim(1); ++row) {
    int64_t best = 0;
    double peak = -kInfinity, sum = 0;
    const auto rank_of_part = [&](int64_t part) {  // the largest is the best
      return std::pair(order_key(args.part_values.row<float>(part)[row]),
                       -args.part_ids.row<int32_t>(part)[row]);
    };
    for (int64_t part = 0; part < args.part_ids.dim(0); ++part) {
      if (rank_of_part(part) > rank_of_part(best)) best = part;
      peak = std::max(peak, double{args.part_log_sums.row<float>(part)[row]});
    }
    for (int64_t part = 0; part < args.part_ids.dim(0); ++part)
      if (const double x = args.part_log_sums.row<float>(part)[row]; x != -kInfinity)
        sum += std::exp(x - peak);
    args.log_sums.data<float>()[row] = static_cast<float>(peak + std::log(sum));
    *args.ids.row<int32_t>(row) = args.part_ids.row<int32_t>(best)[row];
    *args.values.row<float>(row) = args.part_values.row<float>(best)[row];
    if (!args.best.empty()) args.best.data<int32_t>()[row] = *args.ids.row<int32_t>(row);
  }
}

}  // namespace tandem::reference
