// picture_attention: a block is a head of a window, whose keys and values it holds in shared memory
// if they fit. A warp takes one query after another: its lanes are keys, then elements of the sum.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kPictureWarps = 4, kPictureThreads = kPictureWarps * kWarpSize;
constexpr float kApart = -100.0f;  // HuggingFace's mask

template <class T>
struct PictureParams {
  const T *q, *k, *v, *pad_k, *pad_v;
  T* out;
  int64_t q_stride, k_stride, v_stride, out_stride;
  const float* bias;
  int64_t bias_stride;
  int height, width, window, shift, rows, columns;  // of the picture; of windows
  int head_dim;
  float scale;
};

// The block's window.
template <class T>
struct BlockWindow {
  const PictureParams<T>& p;
  int64_t first_row;  // of the picture
  int y, x;           // of the window's first point
  bool below, right;  // the edge of the picture goes through it

  __device__ explicit BlockWindow(const PictureParams<T>& params) : p(params) {
    const int windows = p.rows * p.columns, window = static_cast<int>(blockIdx.x) % windows;
    const int row = window / p.columns, column = window % p.columns;
    first_row = int64_t{static_cast<int>(blockIdx.x) / windows} * p.height * p.width;
    y = row * p.window + p.shift;
    x = column * p.window + p.shift;
    below = p.shift > 0 && row == p.rows - 1;
    right = p.shift > 0 && column == p.columns - 1;
  }
  // The row of a point of the window; -1: it fills up.
  __device__ int64_t row_of(int point) const {
    const int height = p.rows * p.window, width = p.columns * p.window;
    int from_y = y + point / p.window, from_x = x + point % p.window;
    from_y -= from_y < height ? 0 : height;
    from_x -= from_x < width ? 0 : width;
    if (from_y >= p.height || from_x >= p.width) return -1;
    return first_row + int64_t{from_y} * p.width + from_x;
  }
  __device__ float added(const float* bias, int query, int key) const {
    const int n = p.window, before = n - p.shift;
    const int qy = query / n, qx = query % n, ky = key / n, kx = key % n;
    const bool apart =
        (below && (qy < before) != (ky < before)) || (right && (qx < before) != (kx < before));
    return bias[(qy - ky + n - 1) * (2 * n - 1) + qx - kx + n - 1] + (apart ? kApart : 0.0f);
  }
};

// Keys or values of the window: in shared memory, a row one element longer than a head, so that 32
// of them lie in different banks; or where they are.
template <class T, bool kShared>
struct WindowRows {
  const BlockWindow<T>& at;
  const T *rows, *pad;  // of the head
  int64_t stride;
  float* copy;

  __device__ float operator()(int point, int d) const {
    if constexpr (kShared) return copy[point * (at.p.head_dim + 1) + d];
    return read(point, d);
  }
  __device__ float read(int point, int d) const {
    const int64_t row = at.row_of(point);
    return to_float(row < 0 ? pad[d] : rows[row * stride + d]);
  }
  __device__ void load(int points) const {
    if constexpr (kShared)
      for (int i = static_cast<int>(threadIdx.x); i < points * at.p.head_dim;
           i += kPictureThreads) {
        const int point = i / at.p.head_dim, d = i % at.p.head_dim;
        copy[point * (at.p.head_dim + 1) + d] = read(point, d);
      }
  }
};

template <class T, bool kShared>
__global__ void __launch_bounds__(kPictureThreads, 4) picture_kernel(PictureParams<T> p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  const BlockWindow<T> at(p);
  const int points = p.window * p.window, lane = static_cast<int>(threadIdx.x) % kWarpSize,
            warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t column = int64_t{static_cast<int>(blockIdx.y)} * p.head_dim;
  const float* bias = p.bias + int64_t{static_cast<int>(blockIdx.y)} * p.bias_stride;
  float* const scores = reinterpret_cast<float*>(shared) + warp * (points + p.head_dim);
  float* const q = scores + points;
  float* const copies = reinterpret_cast<float*>(shared) + kPictureWarps * (points + p.head_dim);
  const WindowRows<T, kShared> keys{at, p.k + column, p.pad_k + column, p.k_stride, copies};
  const WindowRows<T, kShared> values{at, p.v + column, p.pad_v + column, p.v_stride,
                                      copies + points * (p.head_dim + 1)};
  keys.load(points);
  values.load(points);
  __syncthreads();
  for (int query = warp; query < points; query += kPictureWarps) {
    const int64_t row = at.row_of(query);
    if (row < 0) continue;
    for (int d = lane; d < p.head_dim; d += kWarpSize)
      q[d] = to_float(p.q[row * p.q_stride + column + d]) * p.scale;
    __syncwarp();
    float top = -INFINITY, sum = 0.0f;
    for (int key = lane; key < points; key += kWarpSize) {
      float score = 0.0f;
      for (int d = 0; d < p.head_dim; ++d) score = fmaf(q[d], keys(key, d), score);
      scores[key] = score + at.added(bias, query, key);
      top = fmaxf(top, scores[key]);
    }
    top = warp_max(top);
    for (int key = lane; key < points; key += kWarpSize) {
      scores[key] = expf(scores[key] - top);
      sum += scores[key];
    }
    const float factor = 1.0f / warp_sum(sum);
    __syncwarp();
    for (int d = lane; d < p.head_dim; d += kWarpSize) {
      float value = 0.0f;
      for (int key = 0; key < points; ++key) value = fmaf(scores[key], values(key, d), value);
      p.out[row * p.out_stride + column + d] = from_float<T>(value * factor);
    }
    __syncwarp();
  }
}

template <class T>
PictureParams<T> params_of(const ops::PictureAttentionArgs& args) {
  const auto at = [](const Tensor& t) { return static_cast<const T*>(t.raw()); };
  const PictureWindows& w = args.windows;
  // (What nobody reads need not be null.)
  const Tensor &pad_k = args.pad_k.empty() ? args.k : args.pad_k,
               &pad_v = args.pad_v.empty() ? args.v : args.pad_v;
  return {at(args.q),
          at(args.k),
          at(args.v),
          at(pad_k),
          at(pad_v),
          static_cast<T*>(args.out.raw()),
          args.q.row_stride(),
          args.k.row_stride(),
          args.v.row_stride(),
          args.out.row_stride(),
          args.bias.data<float>(),
          args.bias.row_stride(),
          w.height,
          w.width,
          w.window,
          w.shift,
          w.rows(),
          w.columns(),
          args.head_dim,
          args.scale};
}

}  // namespace

void picture_attention(Context& ctx, const ops::PictureAttentionArgs& args) {
  const PictureWindows& w = args.windows;
  const int64_t points = int64_t{w.window} * w.window,
                pictures = args.q.dim(0) / (int64_t{w.height} * w.width);
  const int64_t of_warps = 4 * kPictureWarps * (points + args.head_dim),
                of_copies = 4 * 2 * points * (args.head_dim + 1);
  const bool copied = of_warps + of_copies <= kUsualSharedBytes;
  const dim3 grid(static_cast<unsigned>(pictures * w.rows() * w.columns()),
                  static_cast<unsigned>(args.num_heads));
  const auto shared = static_cast<size_t>(of_warps + (copied ? of_copies : 0));
  with_type(args.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PictureParams<T> params = params_of<T>(args);
    if (copied)
      TANDEM_LAUNCH((picture_kernel<T, true>), grid, kPictureThreads, shared, stream_of(ctx),
                    params);
    else
      TANDEM_LAUNCH((picture_kernel<T, false>), grid, kPictureThreads, shared, stream_of(ctx),
                    params);
  });
  after_launch("picture_attention");
}

}  // namespace tandem::cuda
