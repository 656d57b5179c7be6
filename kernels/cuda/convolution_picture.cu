// picture_conv: a block for each point, a thread for each feature in turn.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kPictureConvThreads = 128;

template <class T>
__global__ void picture_conv_kernel(const T* x, int64_t x_stride, int height, int width, int size,
                                    const float* weight, const float* bias, int64_t features,
                                    T* out, int64_t out_stride) {
  wait_for_earlier_kernels();
  const int64_t row = blockIdx.x;
  const int at_y = static_cast<int>(row % (int64_t{height} * width)) / width,
            at_x = static_cast<int>(row % width), reach = size / 2;
  for (int64_t c = threadIdx.x; c < features; c += kPictureConvThreads) {
    float sum = bias[c];
    for (int dy = -reach; dy <= reach; ++dy)
      for (int dx = -reach; dx <= reach; ++dx) {
        if (at_y + dy < 0 || at_y + dy >= height || at_x + dx < 0 || at_x + dx >= width) continue;
        const int64_t from = row + int64_t{dy} * width + dx;
        sum = fmaf(weight[((dy + reach) * size + dx + reach) * features + c],
                   to_float(x[from * x_stride + c]), sum);
      }
    out[row * out_stride + c] = from_float<T>(sum);
  }
}

}  // namespace

void picture_conv(Context& ctx, const ops::PictureConvArgs& args) {
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(picture_conv_kernel<T>, static_cast<unsigned>(args.x.dim(0)), kPictureConvThreads,
                  0, stream_of(ctx), static_cast<const T*>(args.x.raw()), args.x.row_stride(),
                  args.height, args.width, args.size, args.weight.data<float>(),
                  args.bias.data<float>(), args.x.dim(1), static_cast<T*>(args.out.raw()),
                  args.out.row_stride());
  });
  after_launch("picture_conv");
}

}  // namespace tandem::cuda
