// The CPU's frames of sound, and activations by themselves.
#include <cmath>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

void apply_activation(Context& ctx, const ops::ApplyActivationArgs& args) {
  const IsaKernels& isa = isa_kernels();
  const int64_t size = args.x.dim(1);
  for_rows(ctx, args.x.dim(0), size * 8,
           [&](int64_t t) { isa.activate(args.activation, args.x.row<float>(t), size); });
}

void compress_frames(Context& ctx, const ops::CompressFramesArgs& args) {
  const int64_t size = args.x.dim(1);
  for_rows(ctx, args.x.dim(0), size * 64, [&](int64_t t) {
    const float* x = args.x.row<float>(t);
    float* out = args.out.row<float>(t);
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < size; ++i) mean += double{x[i]};
    mean /= static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) squares += (double{x[i]} - mean) * (double{x[i]} - mean);
    const double root = std::sqrt(squares / static_cast<double>(size) + double{args.eps});
    for (int64_t i = 0; i < size; ++i)
      out[i] = static_cast<float>(std::asinh(double{args.factor} * (double{x[i]} - mean) / root));
  });
}

}  // namespace tandem::cpu
