// All layers of a decoder for up to 8 rows in one launch of a block a multiprocessor
// (docs/gpu/designs.md).
//
// A layer is eight phases: six products and two attentions. Behind each is a barrier of all blocks.
// Every block keeps the rows' residual state in its shared memory and makes each norm anew. The
// weights of a phase are on their way since long before (step_ring.cuh).
//
// What blocks tell each other goes through global memory, in buffers that are written again two
// barriers later at the earliest.
#pragma once

#include "kernels/cuda/step/grid_sync.cuh"
#include "kernels/cuda/step/step_attention.cuh"
#include "kernels/cuda/step/step_norm.cuh"
#include "kernels/cuda/step/step_product.cuh"

namespace tandem::cuda::step {

template <class Type, int kRows, int kDim>
class StepRun {
  using T = typename Type::Element;
  using Memory = TaskMemory<Type, kDim, kRows>;

 public:
  __device__ StepRun(const Params& p, unsigned char* shared)
      : p_(p),
        sync_(p.barrier),
        ring_(p, shared),
        state_(reinterpret_cast<T*>(shared + p.state)),
        area_(shared + p.area) {}

  // (Each kind of phase stands once, so that the kernel stays small.)
  __device__ __forceinline__ void run() {
    load_state();
#pragma unroll 1
    for (int layer = 0; layer < p_.num_layers; ++layer) {
#pragma unroll 1
      for (int product = 0; product < kProducts; ++product) {
        if (begins_sublayer(product))
          begin_sublayer(layer, product / 2);
        else
          take_rows(layer, product);
        multiply(layer, product);
      }
    }
    write_rows();
    sync_.end();
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x) / kWarpSize; }

  __device__ void load_state() {
    const int vectors = p_.d / kVector<T>;
    for (int i = static_cast<int>(threadIdx.x); i < p_.rows * vectors; i += kThreads) {
      const int row = i / vectors, at = (i - row * vectors) * kVector<T>;
      *reinterpret_cast<Vector<T>*>(state_ + row * p_.d + at) =
          *reinterpret_cast<const Vector<T>*>(static_cast<const T*>(p_.x) + row * p_.x_stride + at);
    }
    __syncthreads();
  }

  // Adjacent rows, several loads under way.
  __device__ __forceinline__ void copy(const T* from, int size, T* to) {
    constexpr int kAtOnce = 4;
    const auto* vectors = reinterpret_cast<const Vector<T>*>(from);
    const int count = size / kVector<T>;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kAtOnce * kThreads) {
      Vector<T> held[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        if (i + j * kThreads < count) held[j] = vectors[i + j * kThreads];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        if (i + j * kThreads < count) reinterpret_cast<Vector<T>*>(to)[i + j * kThreads] = held[j];
    }
    __syncthreads();
  }

  // A layer's products come in pairs, two of each sublayer.
  static __device__ bool begins_sublayer(int product) { return product % 2 == 0; }

  // The input of a product that another phase has left, or attention makes now.
  __device__ __forceinline__ void take_rows(int layer, int product) {
    if (product != kSecond) attend(layer, product == kSelfOut);
    copy(static_cast<const T*>(product == kSecond ? p_.hidden : p_.attended),
         p_.rows * p_.products[product].k, reinterpret_cast<T*>(area_));
    rows_ = reinterpret_cast<const T*>(area_);
  }

  // The state with what was added last, and its norm, which a sublayer reads.
  __device__ __forceinline__ void begin_sublayer(int layer, int sublayer) {
    const bool first = layer == 0 && sublayer == 0;
    rows_ = state_;
    if (p_.norms_behind && first) return;
    // Behind the sublayer before: that is whose norm it is.
    const bool of_layer_before = p_.norms_behind && sublayer == 0;
    const int norm = of_layer_before ? kFinalNorm : sublayer - (p_.norms_behind ? 1 : 0);
    const LayerPlaces& places = p_.layers[of_layer_before ? layer - 1 : layer];
    const auto* update = static_cast<const T*>(first ? p_.update : p_.sums);
    const int64_t stride = first ? p_.update_stride : p_.d;
    if (warp() < p_.rows) {
      T* const state = state_ + warp() * p_.d;
      norm_row<T>({places.norm_weights[norm], places.norm_biases[norm], p_.eps[norm]}, state,
                  update == nullptr ? nullptr : update + warp() * stride, p_.d,
                  reinterpret_cast<float*>(area_) + warp() * p_.d,
                  p_.norms_behind ? nullptr : state,
                  p_.norms_behind ? state : normed_rows() + warp() * p_.d);
    }
    if (!p_.norms_behind) rows_ = normed_rows();
    __syncthreads();
  }
  __device__ T* normed_rows() {
    return reinterpret_cast<T*>(area_ + p_.rows * p_.d * static_cast<int>(sizeof(float)));
  }

  __device__ __forceinline__ void multiply(int layer, int product) {
    const LayerPlaces& places = p_.layers[layer];
    const bool reads_state = begins_sublayer(product);
    const auto* bias = static_cast<const T*>(places.biases[product]);
    if (p_.gated && product == kFirst) {
      multiply_gated<T, kRows>(p_, rows_, bias, static_cast<T*>(p_.hidden), ring_);
    } else {
      void* const out = !reads_state ? p_.sums : product == kFirst ? p_.hidden : p_.queries;
      step::multiply<T, kRows>(p_, product, rows_, bias,
                               product == kFirst ? p_.activation : Activation::kNone,
                               static_cast<T*>(out), ring_);
    }
    sync_.meet();
  }

  __device__ __forceinline__ void attend(int layer, bool self) {
    const LayerPlaces& places = p_.layers[layer];
    const int width = p_.heads * p_.head_dim;
    const Attention attention{self ? p_.self : p_.cross,
                              p_.queries,
                              self ? int64_t{3} * width : width,
                              static_cast<char*>(places.pages),
                              self ? places.position_bias : nullptr,
                              self};
    unsigned char* const own =
        area_ + warp() * (static_cast<int>(sizeof(Memory)) + p_.staged_pages * 4);
    step::attend<Type, kDim, kRows>(p_, attention, *reinterpret_cast<Memory*>(own));
    sync_.meet();
  }

  // A row a block, as far as there are blocks.
  __device__ __forceinline__ void write_rows() {
    const int row = warp();
    if (row >= p_.rows || row % static_cast<int>(gridDim.x) != static_cast<int>(blockIdx.x)) return;
    const LayerPlaces& last = p_.layers[p_.num_layers - 1];
    const RowNorm norm = p_.norms_behind ? RowNorm{last.norm_weights[kFinalNorm],
                                                   last.norm_biases[kFinalNorm], p_.eps[kFinalNorm]}
                                         : RowNorm{p_.last_weight, p_.last_bias, p_.last_eps};
    norm_row<T>(norm, state_ + row * p_.d, static_cast<const T*>(p_.sums) + row * p_.d, p_.d,
                reinterpret_cast<float*>(area_) + row * p_.d, nullptr,
                static_cast<T*>(p_.out) + row * p_.out_stride);
  }

  const Params& p_;
  GridSync sync_;
  WeightRing<T> ring_;
  T* state_;             // [rows, d]: what is added to
  unsigned char* area_;  // of a phase: the rows of its product, norms in the making, keys' pages
  const T* rows_ = nullptr;
};

template <class Type, int kRows, int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    decoder_step_kernel(const __grid_constant__ Params p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  StepRun<Type, kRows, kDim>(p, shared).run();
}

template <class Type, int kRows, int kDim>
void launch_kernel(const Params& p, int blocks, int shared, LaunchStream stream) {
  const auto kernel = decoder_step_kernel<Type, kRows, kDim>;
  TANDEM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  TANDEM_LAUNCH_COOPERATIVE(kernel, static_cast<unsigned>(blocks), kThreads,
                            static_cast<size_t>(shared), stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class Type>
void launch_type(const Params& p, int blocks, int shared, LaunchStream stream) {
  switch (kernel_rows(p.rows)) {
    case 1: return launch_kernel<Type, 1, kMostHead>(p, blocks, shared, stream);
    case 4: return launch_kernel<Type, 4, kMostHead>(p, blocks, shared, stream);
    default: return launch_kernel<Type, kMostRows, kMostHead>(p, blocks, shared, stream);
  }
}

}  // namespace tandem::cuda::step
