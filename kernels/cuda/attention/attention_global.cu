// Attention of tokens that see a window and their sequence's global tokens (ops::
// RaggedAttentionArgs::global_rows), or side keys (ops::SideKeys). Plain: nothing of it is in the
// other kernels, and a sequence is not cut into chunks, since a query has few keys.
//
// A block is eight queries of an item and a head, a query to a warp. Tiles of 32 keys go through
// shared memory: the global ones or the side keys first, in their order, then those of the window
// that are not global. A lane has a key's score, then some of the elements of the sums.
#include "kernels/cuda/attention/attention_options.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda {
namespace {

constexpr int kGlobalWarps = 8, kGlobalTileKeys = kWarpSize;
static_assert(kTileRows % kGlobalWarps == 0 && kRowsPerBlock <= kTileRows);

// The keys and the global keys of a sequence, rows of k; its side keys.
struct SequenceKeys {
  int32_t first, end;  // of the sequence
  const int32_t* globals;
  int32_t global_count = 0;
  int32_t side_first = 0, side_count = 0;

  // Of the sequence that row `row` of q is in.
  __device__ SequenceKeys(const GlobalKeys& g, int32_t row) {
    int32_t low = 0, high = g.sequences;  // indptr[low] <= row < indptr[high]
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      (g.indptr[middle] <= row ? low : high) = middle;
    }
    const int32_t* range = g.kv_ranges == nullptr ? g.indptr + low : g.kv_ranges + 2 * low;
    first = range[0];
    end = range[1];
    if (g.ranges != nullptr) {
      side_first = g.ranges[2 * low];
      side_count = g.ranges[2 * low + 1] - side_first;
      return;
    }
    globals = g.rows + g.rows_indptr[low];
    global_count = g.rows_indptr[low + 1] - g.rows_indptr[low];
  }
  __device__ bool is_global(int32_t row) const {
    int32_t low = 0, high = global_count;
    while (low < high) {
      const int32_t middle = (low + high) / 2;
      if (globals[middle] < row) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < global_count && globals[low] == row;
  }
};

// In dynamic shared memory: queries times scale and log2 e, a tile of keys or of values (a row is
// one element longer than a head: 32 of them lie in different banks), the rows of its keys.
struct GlobalTile {
  float *queries, *values;
  int32_t* rows;  // -1: none
  int pitch;

  static int bytes(int head_dim) {
    return static_cast<int>(sizeof(float)) *
           (kGlobalWarps * head_dim + kGlobalTileKeys * (head_dim + 2));
  }
  __device__ GlobalTile(unsigned char* shared, int head_dim)
      : queries(reinterpret_cast<float*>(shared)),
        values(queries + kGlobalWarps * head_dim),
        rows(reinterpret_cast<int32_t*>(values + kGlobalTileKeys * (head_dim + 1))),
        pitch(head_dim + 1) {}

  // By all threads, between two barriers.
  template <class Type>
  __device__ void load(const void* base, int64_t stride, int kv_head, int head_dim) const {
    __syncthreads();
    for (int at = static_cast<int>(threadIdx.x); at < kGlobalTileKeys * head_dim;
         at += kGlobalWarps * kWarpSize) {
      const int key = at / head_dim, d = at % head_dim;
      const auto* from = static_cast<const typename Type::Element*>(base) +
                         max(rows[key], 0) * stride + int64_t{kv_head} * head_dim + d;
      values[key * pitch + d] = rows[key] < 0 ? 0.0f : Type::widen(*from);
    }
    __syncthreads();
  }
};

// A warp's query: a softmax, whose sums of values lie in lanes.
template <int kPerLane>
struct WarpQuery {
  float maximum = -INFINITY, sum = 0.0f;  // the sum: of this lane's keys
  float values[kPerLane] = {};

  // `weight`: the lane's key's score, then its weight.
  __device__ void rescale(float& weight) {
    const float top = fmaxf(maximum, warp_max(weight));
    const float base = scale_base(top), factor = exp2f(maximum - base);
    weight = exp2f(weight - base);
    maximum = top;
    sum = fmaf(sum, factor, weight);
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) values[n] *= factor;
  }
  __device__ void add(const GlobalTile& tile, float weight, unsigned seen, int head_dim) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    for (int key = 0; key < kGlobalTileKeys; ++key) {
      const float of_key = __shfl_sync(kFullWarp, weight, key);
      if ((seen >> key & 1u) == 0) continue;
#pragma unroll
      for (int n = 0; n < kPerLane; ++n)
        if (lane + n * kWarpSize < head_dim)
          values[n] = fmaf(of_key, tile.values[key * tile.pitch + lane + n * kWarpSize], values[n]);
    }
  }
};

template <class Type, int kPerLane>
struct Block {
  const AttentionKernelParams& p;
  const AttentionWork& work;
  const GlobalKeys& others;
  const SequenceKeys keys;
  const WindowEdges edges;
  const SoftCap cap;
  const BiasRow bias;
  const GlobalTile tile;
  const int head, kv_head, query, lane;  // `query` of the item, of this warp
  WarpQuery<kPerLane> running;

  __device__ Block(const AttentionKernelParams& params, const AttentionWork& item,
                   const GlobalKeys& globals, unsigned char* shared)
      : p(params),
        work(item),
        others(globals),
        keys(globals, item.query_row),
        edges(params.args, item),
        cap(params.args),
        bias(params.args, item, static_cast<int>(blockIdx.y)),
        tile(shared, params.args.head_dim),
        head(static_cast<int>(blockIdx.y)),
        kv_head(head / params.args.group),
        query(static_cast<int>(blockIdx.z) * kGlobalWarps +
              static_cast<int>(threadIdx.x) / kWarpSize),
        lane(static_cast<int>(threadIdx.x) % kWarpSize) {}

  __device__ int64_t query_row() const { return work.query_row + query; }
  __device__ float* queries() const {
    return tile.queries + query % kGlobalWarps * p.args.head_dim;
  }

  __device__ void load_query() const {
    if (query >= work.queries) return;
    const auto* from = static_cast<const typename Type::Element*>(p.args.q) +
                       query_row() * p.args.q_stride + int64_t{head} * p.args.head_dim;
    for (int d = lane; d < p.args.head_dim; d += kWarpSize)
      queries()[d] = Type::widen(from[d]) * p.scale_log2;
  }

  // The lane's key's, whose row is in the tile.
  __device__ float score() const {
    float out = 0.0f;
    if (query < work.queries)
      for (int d = 0; d < p.args.head_dim; ++d)
        out = fmaf(queries()[d], tile.values[lane * tile.pitch + d], out);
    return cap.capped(out);
  }
  __device__ void add_values(const void* base, int64_t stride, float score, bool sees) {
    if (!sees) score = -INFINITY;
    running.rescale(score);
    tile.template load<Type>(base, stride, kv_head, p.args.head_dim);
    running.add(tile, score, __ballot_sync(kFullWarp, sees), p.args.head_dim);
    __syncthreads();
  }

  // The keys whose rows are in the tile; the lane's is number `key` of the sequence.
  __device__ void add_tile(int32_t key, bool in_window) {
    tile.template load<Type>(p.k_base, p.k_row, kv_head, p.args.head_dim);
    const bool sees =
        query < work.queries && tile.rows[lane] >= 0 && (!in_window || edges.sees(query, key));
    const float plain = score();
    add_values(p.v_base, p.v_row, p.args.bias != nullptr ? bias.add(plain, key - query) : plain,
               sees);
  }
  // The same of side keys; the lane's is number `key` of them.
  __device__ void add_side_tile(int32_t key) {
    tile.template load<Type>(others.side_k, others.side_k_stride, kv_head, p.args.head_dim);
    const bool sees = query < work.queries && tile.rows[lane] >= 0;
    float biased = score();
    if (others.bias != nullptr) {
      const int32_t unit = others.unit == 0 ? 0 : (work.query_position + query) / others.unit;
      const int32_t own = min(unit, keys.side_count - 1);
      const int32_t column = max(0, min(key - own + others.bias_zero, others.bias_columns - 1));
      biased = fmaf(__ldg(others.bias + int64_t{head} * others.bias_columns + column),
                    static_cast<float>(kLog2e), biased);
    }
    add_values(others.side_v, others.side_v_stride, biased, sees);
  }

  __device__ void attend() {
    load_query();
    for (int32_t first = 0; first < keys.side_count; first += kGlobalTileKeys) {
      const bool there = first + lane < keys.side_count;
      if (threadIdx.x < kGlobalTileKeys)
        tile.rows[threadIdx.x] = there ? keys.side_first + first + lane : -1;
      add_side_tile(first + lane);
    }
    for (int32_t first = 0; first < keys.global_count; first += kGlobalTileKeys) {
      const bool there = first + lane < keys.global_count;
      const int32_t row = there ? keys.globals[first + lane] : -1;
      if (threadIdx.x < kGlobalTileKeys) tile.rows[threadIdx.x] = row;
      add_tile(row - keys.first, false);
    }
    const int first_query = static_cast<int>(blockIdx.z) * kGlobalWarps;
    const int last_query = min(first_query + kGlobalWarps, work.queries) - 1;
    const int32_t count = keys.end - keys.first;
    const int32_t begin = max(edges.back + first_query, 0) / kGlobalTileKeys * kGlobalTileKeys;
    const int32_t end = min(edges.ahead + last_query + 1, count);
    for (int32_t first = begin; first < end; first += kGlobalTileKeys) {
      const int32_t key = first + lane, row = keys.first + key;
      if (threadIdx.x < kGlobalTileKeys)
        tile.rows[threadIdx.x] = key >= count || keys.is_global(row) ? -1 : row;
      add_tile(key, true);
    }
  }

  __device__ void write() {
    float sum = running.sum;
#pragma unroll
    for (int offset = 1; offset < kWarpSize; offset *= 2)
      sum += __shfl_xor_sync(kFullWarp, sum, offset);
    if (query >= work.queries) return;
    auto* out = static_cast<typename Type::Element*>(p.args.out) + query_row() * p.args.out_stride +
                int64_t{head} * p.args.head_dim;
#pragma unroll
    for (int n = 0; n < kPerLane; ++n)
      if (lane + n * kWarpSize < p.args.head_dim)
        out[lane + n * kWarpSize] = Type::narrow(running.values[n] * (1.0f / sum));
  }
};

template <class Type, int kPerLane>
__global__ void __launch_bounds__(kGlobalWarps* kWarpSize, 4)
    global_kernel(const __grid_constant__ AttentionKernelParams p, GlobalKeys globals) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  const AttentionWork work = load_work(p.args.work, static_cast<int>(blockIdx.x));
  if (work.chunk > 0 || static_cast<int>(blockIdx.z) * kGlobalWarps >= work.queries) return;
  Block<Type, kPerLane> block(p, work, globals, shared);
  block.attend();
  block.write();
}

}  // namespace

void attention_global(const AttentionParams& params, const GlobalKeys& globals, int most_queries,
                      LaunchStream stream) {
  if (params.work_count == 0) return;
  TANDEM_CHECK(params.pages == nullptr && params.head_dim >= 1 && params.head_dim <= 256);
  const AttentionKernelParams p = kernel_params(params);
  const dim3 grid(static_cast<unsigned>(params.work_count), static_cast<unsigned>(params.num_heads),
                  static_cast<unsigned>(ceil_div(most_queries, kGlobalWarps)));
  const auto run = [&](auto kernel) {
    TANDEM_LAUNCH(kernel, grid, kGlobalWarps * kWarpSize,
                  static_cast<size_t>(GlobalTile::bytes(params.head_dim)), stream, p, globals);
  };
  for_type(params.dtype, [&](auto type) {
    using Type = decltype(type);
    if (params.head_dim <= 64) {
      run(global_kernel<Type, 2>);
    } else if (params.head_dim <= 128) {
      run(global_kernel<Type, 4>);
    } else {
      run(global_kernel<Type, 8>);
    }
  });
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

}  // namespace tandem::cuda
