// Sampling without a row of logits leaving the device, and ids that only the device knows. A block
// for each row, which is read some ten times out of the cache: thresholds are found digit by digit
// (11 bits at a time) in histograms of counts or of likelihoods. Likelihoods are integers, so that
// sums do not depend on the order in which threads come.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/row_order.cuh"

namespace tandem::cuda {
namespace {

using Mass = unsigned long long;

constexpr int kDrawThreads = 512;
constexpr int kDrawWarps = kDrawThreads / kWarpSize;
// The first digit is sign, exponent and two bits more: logits fall into some dozens of them, with
// the exponent alone most of a row would meet in five.
constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits;

struct DrawParams {
  const float* logits;
  int64_t stride;
  int32_t size;
  int k;
  const ops::DrawRule* rules;
  int32_t* ids;
  float* values;
  int32_t* best;  // or null
};

// A row after the temperature.
struct Row {
  const float* logits;
  int32_t size;
  float temperature, peak;

  __device__ __forceinline__ float tempered(float logit) const {
    return temperature == 1.0f ? logit : __fdiv_rn(logit, temperature);
  }
  __device__ __forceinline__ float weight(float x) const { return expf(x - peak); }
  __device__ __forceinline__ Mass mass(float x) const {
    return static_cast<Mass>(weight(x) * 0x1.0p44f);
  }
};

// body(x) for entries i, i + step, ... below `end`.
template <class Body>
__device__ __forceinline__ void for_entries(const Row& row, int i, int end, int step,
                                            const Body& body) {
  for (; i < end; i += kAhead * step) {
    float logits[kAhead];
    load_ahead(row.logits, i, end, step, 0.0f, logits);
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (i + j * step < end) body(row.tempered(logits[j]));
  }
}

// Greater is likelier; unsigned, for its digits.
__device__ __forceinline__ unsigned digits_of(float x) {
  return static_cast<unsigned>(order_key(x)) ^ 0x80000000u;
}

__device__ __forceinline__ Mass inclusive_scan(Mass x) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const Mass other = __shfl_up_sync(kFullWarp, x, static_cast<unsigned>(offset));
    if (lane >= offset) x += other;
  }
  return x;
}

// A sum of 64 bits for each digit, of a word for each half: additions of 32 bits are the shared
// memory's own, one of 64 is a loop of compare and swap for each thread that meets others.
struct Histogram {
  unsigned low[kDigits], high[kDigits];

  __device__ __forceinline__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kDrawThreads)
      low[i] = high[i] = 0;
  }
  __device__ __forceinline__ void add(unsigned digit, Mass mass) {
    const unsigned part = static_cast<unsigned>(mass);
    const unsigned before = atomicAdd(&low[digit], part);
    const unsigned more = static_cast<unsigned>(mass >> 32) +
                          (before + part < before ? 1u : 0u);  // who carries, adds
    if (more != 0) atomicAdd(&high[digit], more);
  }
  __device__ __forceinline__ Mass at(int digit) const {
    return Mass{high[digit]} << 32 | low[digit];
  }
};

struct Crossing {
  unsigned key;  // the first one at which the sum of what is up to it is above `most`
  Mass below;    // the sum of what is below it
};

// The first digit at which the sum, with `below` before all of them, is above `most`, by the thread
// that has it. `warps`: kDrawWarps values.
__device__ __forceinline__ void find_digit(const Histogram& histogram, Mass below, Mass most,
                                           unsigned prefix, int shift, Mass* warps,
                                           Crossing& found) {
  constexpr int kOwn = kDigits / kDrawThreads;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpSize;
  Mass own = 0;
  for (int d = 0; d < kOwn; ++d) own += histogram.at(thread * kOwn + d);
  const Mass up_to = inclusive_scan(own);
  if (thread % kWarpSize == kWarpSize - 1) warps[warp] = up_to;
  __syncthreads();
  Mass sum = below + up_to - own;
  for (int w = 0; w < warp; ++w) sum += warps[w];
  if (sum > most || sum + own <= most) return;
  int digit = thread * kOwn;
  while (sum + histogram.at(digit) <= most) sum += histogram.at(digit++);
  found = {prefix | static_cast<unsigned>(digit) << shift, sum};
}

// Of entries whose key is at least `from`. The sum of all is above `most`.
template <bool counts>
__device__ Crossing find_crossing(const Row& row, unsigned from, Mass most) {
  __shared__ Histogram histogram;
  __shared__ Mass warps[kDrawWarps];
  __shared__ Crossing found;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) found = {0, 0};
  unsigned known = 0;  // bits of the key that are found
  // By 21, 10 and 0: the last digit begins with a bit that is known already.
  for (int shift = 32 - kDigitBits; shift >= 0;
       shift = shift == 0 ? -1 : max(0, shift - kDigitBits)) {
    histogram.clear();
    __syncthreads();
    const Crossing so_far = found;  // written again behind two barriers
    for_entries(row, thread, row.size, kDrawThreads, [&](float x) {
      const unsigned key = digits_of(x), digit = (key >> shift) % kDigits;
      if (key < from || (key & known) != so_far.key) return;
      if (counts) {
        atomicAdd(&histogram.low[digit], 1u);
      } else if (const Mass mass = row.mass(x); mass != 0) {
        histogram.add(digit, mass);
      }
    });
    __syncthreads();
    find_digit(histogram, so_far.below, most, so_far.key, shift, warps, found);
    known |= (kDigits - 1u) << shift;
    __syncthreads();
  }
  const Crossing result = found;
  __syncthreads();
  return result;
}

__device__ Mass block_mass(Mass x) {
  __shared__ Mass scratch[33];
  const Mass sum = block_sum(x, scratch);
  __syncthreads();
  return sum;
}

// The largest value after the temperature; false if the row has no distribution.
__device__ bool find_peak(Row& row) {
  __shared__ float peaks[kDrawWarps];
  const int thread = static_cast<int>(threadIdx.x);
  float peak = minus_infinity();  // +inf stands for a NaN, too
  for_entries(row, thread, row.size, kDrawThreads,
              [&](float x) { peak = x != x ? plus_infinity() : fmaxf(peak, x); });
  for (int offset = 16; offset > 0; offset /= 2)
    peak = fmaxf(peak, __shfl_xor_sync(kFullWarp, peak, offset));
  if (thread % kWarpSize == 0) peaks[thread / kWarpSize] = peak;
  __syncthreads();
  for (int w = 0; w < kDrawWarps; ++w) peak = fmaxf(peak, peaks[w]);
  __syncthreads();
  row.peak = peak;
  return peak > minus_infinity() && peak < plus_infinity();
}

// Which entries stay: keys above `key`, and of its equals those behind the first `skipped`.
struct Filter {
  unsigned key = 0;
  Mass skipped = 0;
  float least_weight = 0;
};

__device__ Filter find_filter(const Row& row, const ops::DrawRule& rule) {
  Filter f;
  f.least_weight = rule.min_p;
  if (rule.top_k > 0 && rule.top_k < row.size)
    f.key = find_crossing<true>(row, 0, static_cast<Mass>(row.size - rule.top_k)).key;
  if (!(rule.tail > 0)) return f;
  Mass own = 0;
  for_entries(row, static_cast<int>(threadIdx.x), row.size, kDrawThreads, [&](float x) {
    if (digits_of(x) >= f.key) own += row.mass(x);
  });
  const Mass total = block_mass(own);
  const Mass part = static_cast<Mass>(static_cast<double>(rule.tail) * static_cast<double>(total));
  const Mass most = part < total ? part : total - 1;
  const Crossing c = find_crossing<false>(row, f.key, most);
  const unsigned bits = c.key ^ 0x80000000u;  // back to the value that has this key
  const int key = static_cast<int>(bits);
  const float x = __int_as_float(key >= 0 ? key : key ^ 0x7fffffff);
  f.key = c.key;
  f.skipped = (most - c.below) / row.mass(x);
  return f;
}

// Sums of the stretch of the row that a warp has: what stays above the key, and equals of the key.
struct Stretch {
  Mass above;
  Mass equals;
  Mass equal_mass;  // of each of them
};

__device__ __forceinline__ Mass mass_if_likely(const Row& row, const Filter& f, float x) {
  return row.weight(x) >= f.least_weight ? row.mass(x) : 0;
}

__device__ Stretch sum_stretch(const Row& row, const Filter& f, int begin, int end) {
  Stretch s{0, 0, 0};
  const int first = begin + static_cast<int>(threadIdx.x) % kWarpSize;
  for_entries(row, first, end, kWarpSize, [&](float x) {
    const unsigned key = digits_of(x);
    if (key < f.key) return;
    const Mass mass = mass_if_likely(row, f, x);
    if (key > f.key) {
      s.above += mass;
    } else {
      ++s.equals;
      s.equal_mass = mass;
    }
  });
  for (int offset = 16; offset > 0; offset /= 2) {
    s.above += __shfl_xor_sync(kFullWarp, s.above, offset);
    s.equals += __shfl_xor_sync(kFullWarp, s.equals, offset);
    const Mass other = __shfl_xor_sync(kFullWarp, s.equal_mass, offset);
    s.equal_mass = s.equal_mass > other ? s.equal_mass : other;
  }
  return s;
}

// The entry of a warp's stretch in which the sum of what stays comes above the target.
__device__ int find_entry(const Row& row, const Filter& f, int begin, int end, Mass equals,
                          Mass target) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  Mass sum = 0;
  float logits[kAhead];
  for (int first = begin; first < end; first += kAhead * kWarpSize) {
    load_ahead(row.logits, first + lane, end, kWarpSize, 0.0f, logits);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const int tile = first + j * kWarpSize, i = tile + lane;
      if (tile >= end) break;
      const float x = row.tempered(logits[j]);
      const unsigned key = digits_of(x);
      const unsigned alike = __ballot_sync(kFullWarp, i < end && key == f.key);
      const Mass before = equals + static_cast<Mass>(__popc(alike & ((1u << lane) - 1)));
      const bool stays = i < end && (key > f.key || (key == f.key && before >= f.skipped));
      const Mass up_to = sum + inclusive_scan(stays ? mass_if_likely(row, f, x) : 0);
      const unsigned reached = __ballot_sync(kFullWarp, up_to > target);
      if (reached != 0) return tile + __ffs(static_cast<int>(reached)) - 1;
      sum = __shfl_sync(kFullWarp, up_to, kWarpSize - 1);
      equals += static_cast<Mass>(__popc(alike));
    }
  }
  return -1;
}

__global__ void __launch_bounds__(kDrawThreads, 2) draw_kernel(DrawParams p) {
  wait_for_earlier_kernels();
  __shared__ Stretch stretches[kDrawWarps];
  const ops::DrawRule rule = p.rules[blockIdx.x];
  if (rule.draws == 0) return;
  Row row{p.logits + blockIdx.x * p.stride, p.size, rule.temperature, 0.0f};
  if (!find_peak(row)) return;
  const Filter f = find_filter(row, rule);

  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int length = (row.size + kDrawThreads - 1) / kDrawThreads * kWarpSize;
  const int begin = min(warp * length, row.size), end = min(begin + length, row.size);
  const Stretch mine = sum_stretch(row, f, begin, end);
  if (threadIdx.x % kWarpSize == 0) stretches[warp] = mine;
  __syncthreads();
  Mass total = 0, equals = 0, first = 0, past = 0, equals_before = 0;
#pragma unroll 4  // all at once they take more registers than there are
  for (int w = 0; w < kDrawWarps; ++w) {
    const Stretch& s = stretches[w];
    if (w == warp) {
      first = total;
      equals_before = equals;
    }
    const Mass skipped = equals >= f.skipped ? 0 : f.skipped - equals;
    total += s.above + (s.equals > skipped ? s.equals - skipped : 0) * s.equal_mass;
    equals += s.equals;
    if (w == warp) past = total;
  }
  const double uniform =
      (static_cast<double>(rule.uniform_high) * 0x1.0p32 + static_cast<double>(rule.uniform_low)) *
      0x1.0p-53;
  const Mass part = static_cast<Mass>(uniform * static_cast<double>(total));
  const Mass target = part < total ? part : total - 1;
  if (target < first || target >= past) return;  // in another warp's stretch
  const int id = find_entry(row, f, begin, end, equals_before, target - first);
  if (threadIdx.x % kWarpSize != 0) return;
  p.ids[blockIdx.x * p.k] = id;
  p.values[blockIdx.x * p.k] = row.logits[id];
  if (p.best != nullptr) p.best[blockIdx.x] = id;
}

}  // namespace

void draw(Context& ctx, const ops::DrawArgs& args) {
  DrawParams p{};
  p.logits = args.logits.data<float>();
  p.stride = args.logits.row_stride();
  p.size = static_cast<int32_t>(args.logits.dim(1));
  p.k = static_cast<int>(args.ids.dim(1));
  p.rules = static_cast<const ops::DrawRule*>(args.rules.raw());
  p.ids = args.ids.data<int32_t>();
  p.values = args.values.data<float>();
  p.best = args.best.empty() ? nullptr : args.best.data<int32_t>();
  TANDEM_LAUNCH(draw_kernel, static_cast<unsigned>(args.logits.dim(0)), kDrawThreads, 0,
                stream_of(ctx), p);
  after_launch("draw");
}

}  // namespace tandem::cuda
