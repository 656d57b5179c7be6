// Matrices on a CUDA device for tests of ops: of any type of activations, their rows strided, with
// something between them that must stay.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/backend.h"
#include "tests/kernels/cuda/attention/attention_util.h"

namespace tandem::testing {

constexpr std::initializer_list<DType> kActivations = {DType::kF32, DType::kF16, DType::kBF16};

inline Context cuda_context(DType activations) {
  return {1, std::make_unique<cuda::CudaBackend>(0), activations};
}

// The types of pages in 8 bits that the device has.
inline std::vector<DType> types_in_8_bits() {
  return cuda::CudaBackend(0).f8_pages() ? std::vector{DType::kI8, DType::kF8E4M3}
                                         : std::vector{DType::kI8};
}

// On the host, of any bytes; of f8 none are negative or NaN.
inline KvPages random_pages_in_8_bits(Random& random, DType type, KvLayout layout,
                                      const Shape& shape) {
  const bool i8 = type == DType::kI8;
  const KvPages out{Tensor(shape, type), layout,
                    Tensor({shape[0], 2, shape[2], shape[3]}, *page_scale_type(type))};
  for (int64_t i = 0; i < out.data.size(); ++i)
    static_cast<uint8_t*>(out.data.raw())[i] =
        static_cast<uint8_t>(i8 ? random.integer(-127, 127) : random.integer(0, 100));
  for (int64_t i = 0; i < out.scales.size(); ++i) {
    const int64_t exponent = random.integer(120, 124);
    if (i8)
      out.scales.data<float>()[i] = std::ldexp(1.25f, static_cast<int>(exponent) - 130);
    else
      out.scales.data<uint8_t>()[i] = static_cast<uint8_t>(exponent);
  }
  return out;
}

// What rounding to the type loses, relative.
inline double half_ulp(DType dtype) {
  return dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
}

// The values (f32) as the type has them.
inline Tensor rounded(const Tensor& x, DType dtype) {
  const Tensor out(x.shape(), DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const std::span<const float> row(x.row<float>(i), static_cast<size_t>(x.dim(1)));
    std::ranges::copy(from_type(to_type(row, dtype), dtype), out.row<float>(i));
  }
  return out;
}

// The largest difference from the reference that each entry of activation(W x + bias) may have, its
// last rounding apart. It has each term's share of the sum in f32, in any order. Where terms are
// rounded before they are added, it has `of_terms` of each. Where sums are rounded before the
// activation, with the bias and without, it has `of_sums` (no activation is steeper than 1.13).
inline Tensor allowed_of_product(const Tensor& w, const Tensor& x, const Tensor& bias,
                                 double of_terms, double of_sums) {
  const Tensor sums({x.dim(0), w.dim(0)}, DType::kF32);
  reference::linear(view_of(w), x, bias, Activation::kNone, sums);
  const Tensor allowed(sums.shape(), DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i)
    for (int64_t j = 0; j < w.dim(0); ++j) {
      const double of_bias = bias.empty() ? 0.0 : std::abs(bias.data<float>()[j]);
      double terms = of_bias;
      for (int64_t k = 0; k < w.dim(1); ++k)
        terms += std::abs(double{x.row<float>(i)[k]} * double{w.row<float>(j)[k]});
      const double of_sum = std::abs(sums.row<float>(i)[j]) + of_bias;
      allowed.row<float>(i)[j] =
          static_cast<float>(1e-5 + 1.13 * ((1e-6 + of_terms) * terms + 2 * of_sums * of_sum));
    }
  return allowed;
}

// The same tensor there, contiguous.
inline Tensor to_device(Context& ctx, const Tensor& host) {
  const Tensor there = ctx.backend().allocate(host.shape(), host.dtype());
  ctx.backend().copy_in(host, there);
  return there;
}

class DeviceMatrix {
 public:
  // `gap`: elements beside the rows, left and right; of the multiple of `step`.
  DeviceMatrix(Context& ctx, Random& random, const Tensor& values, DType dtype, int64_t step = 1)
      : ctx_(ctx) {
    left_ = step * random.integer(0, 2);
    const int64_t rows = values.dim(0), columns = values.dim(1);
    const int64_t width = left_ + columns + step * random.integer(0, 2);
    std::vector<float> all(static_cast<size_t>(rows * width), kBeside);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(values.row<float>(i), columns, all.begin() + i * width + left_);
    std::vector<std::byte> bytes = to_type(all, dtype);
    whole_ = to_device(ctx, Tensor::borrow(bytes.data(), {rows, width}, dtype));
    view_ = whole_.columns(left_, left_ + columns);
  }
  // Of nothing yet.
  DeviceMatrix(Context& ctx, Random& random, int64_t rows, int64_t columns, DType dtype,
               int64_t step = 1)
      : DeviceMatrix(ctx, random, filled(rows, columns), dtype, step) {}

  const Tensor& tensor() const { return view_; }

  // As f32, all work on it done.
  Tensor values() const {
    const Tensor here = ctx_.on_host(whole_);
    const auto* bytes = static_cast<const std::byte*>(here.raw());
    const std::vector<float> all = from_type({bytes, here.bytes()}, here.dtype());
    const Tensor out(view_.shape(), DType::kF32);
    const int64_t width = whole_.dim(1), columns = view_.dim(1);
    for (int64_t i = 0; i < view_.dim(0); ++i)
      for (int64_t j = 0; j < width; ++j) {
        const float x = all[static_cast<size_t>(i * width + j)];
        if (j >= left_ && j < left_ + columns) {
          out.row<float>(i)[j - left_] = x;
        } else {
          EXPECT_EQ(x, kBeside) << "written beside row " << i;
        }
      }
    return out;
  }

 private:
  static constexpr float kBeside = 7.0f;
  static Tensor filled(int64_t rows, int64_t columns) {
    const Tensor t({rows, columns}, DType::kF32);
    std::fill_n(t.data<float>(), t.size(), std::numeric_limits<float>::quiet_NaN());
    return t;
  }

  Context& ctx_;
  int64_t left_ = 0;
  Tensor whole_, view_;
};

}  // namespace tandem::testing
