// The CPU kernels beside what the machine can do: GEMM and attention at the shapes of BART-base, in
// microseconds (best and median of many), and as a share of the bandwidth or the FMA rate that
// probes measure in between. Every kernel is compared with the reference before it is timed.
//
//   bench_kernels [--threads N] [--isa LEVEL] [--seconds S per row] [gemm|attention ...]
//
// Of several levels (--isa amx,avx512_bf16) products are measured in turns; each row of a further
// one ends with its median over the first level's.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/support/machine_probes.h"
#include "benchmarks/support/op_tensors.h"
#include "kernels/core/context.h"
#include "kernels/core/cpu_features.h"
#include "kernels/ops.h"
#include "kernels/reference.h"

namespace tandem {
namespace {

using namespace bench;

struct Options {
  int threads = 2;
  double seconds = 0.3;
  std::vector<CpuIsa> levels;
  bool gemm = true, attention = true;
};

// --- GEMM ----------------------------------------------------------------------------------------

void bench_linear(Context& ctx, Probes& probes, const Options& options, int64_t k, int64_t n,
                  DType dtype) {
  const Tensor w = random_matrix(n, k), bias = random_matrix(1, n).reshape({n});
  const MatrixView view{w.raw(), DType::kF32, n, k, k};
  std::vector<PackedWeight> copies;  // together larger than the caches, as in a step of decoding
  do {
    copies.emplace_back(ctx, std::span(&view, 1), dtype);
  } while (copies.size() * copies[0].bytes() < (size_t{256} << 20));
  const double bytes = static_cast<double>(copies[0].bytes());
  for (int64_t t : {1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 256, 1024}) {
    if (t > 32 && n > 10000) continue;
    const Tensor x = random_matrix(t, k), out({t, n}, DType::kF32);
    auto run = [&](int i) {
      const PackedWeight& p = copies[t > 128 ? 0 : static_cast<size_t>(i) % copies.size()];
      ops::linear(ctx, {&p, x, bias, Activation::kNone, out});
    };
    Tensor expected({2, n}, DType::kF32);
    for (int64_t row : {int64_t{0}, t - 1})
      reference::linear(view, x.rows(row, row + 1), bias, Activation::kNone,
                        expected.rows(row != 0, 1 + (row != 0)));
    const std::string name = std::string(dtype == DType::kF32    ? "f32 "
                                         : dtype == DType::kBF16 ? "bf16 "
                                         : dtype == DType::kI8   ? "int8 "
                                                                 : "int4 ") +
                             std::to_string(k) + "x" + std::to_string(n) +
                             " T=" + std::to_string(t);
    const double tolerance = dtype == DType::kF32    ? 1e-4
                             : dtype == DType::kBF16 ? 0.3
                             : dtype == DType::kI8   ? 2
                                                     : 15;
    for (const CpuIsa level : options.levels) {
      set_cpu_isa(level);
      run(0);
      expect_near(out.rows(0, 1), expected.rows(0, 1), tolerance, name);
      if (t > 1) expect_near(out.rows(t - 1, t), expected.rows(1, 2), tolerance, name);
    }
    const std::vector<Timing> timings =
        measure_levels(probes, options.seconds, options.levels, run);
    for (size_t l = 0; l < timings.size(); ++l)
      print_row(l == 0 ? name : "  " + std::string(name_of(options.levels[l])), timings[l], bytes,
                2.0 * static_cast<double>(n * k * t), probes,
                l == 0 ? 0 : timings[l].median / timings[0].median);
  }
}

// --- Attention -----------------------------------------------------------------------------------

constexpr int kHeads = 12, kHeadDim = 64, kSize = kHeads * kHeadDim;

// With a window: so many keys before and as many behind each query.
void bench_ragged(Context& ctx, Probes& probes, const Options& options, int64_t sequences,
                  int64_t length, int32_t window = ops::Window::kAll, bool in_16_bits = false) {
  const int64_t t = sequences * length;
  const Tensor qkv = random_matrix(t, 3 * kSize);
  std::vector<int32_t> indptr;
  for (int64_t i = 0; i <= sequences; ++i) indptr.push_back(static_cast<int32_t>(i * length));
  ops::RaggedAttentionArgs args{qkv.columns(0, kSize),
                                qkv.columns(kSize, 2 * kSize),
                                qkv.columns(2 * kSize, 3 * kSize),
                                index_tensor(indptr),
                                kHeads,
                                kHeadDim,
                                0.125f,
                                Tensor({t, kSize}, DType::kF32)};
  args.window = {window, window};
  args.in_16_bits = in_16_bits;
  ops::ragged_attention(ctx, args);
  std::string name = std::string(in_16_bits ? "encoder, 16 bits " : "encoder ") +
                     std::to_string(sequences) + " x " + std::to_string(length);
  if (window != ops::Window::kAll) name += ", window " + std::to_string(window);
  if (t <= 256) {
    ops::RaggedAttentionArgs expected = args;
    expected.out = Tensor({t, kSize}, DType::kF32);
    reference::ragged_attention(expected);
    expect_near(args.out, expected.out, in_16_bits ? 1e-2 : 1e-5, name);
  }
  const Timing timing =
      measure(probes, options.seconds, [&](int) { ops::ragged_attention(ctx, args); });
  const int64_t seen = window == ops::Window::kAll ? length : std::min(length, int64_t{2} * window);
  print_row(name, timing, 0, 4.0 * static_cast<double>(t * seen * kSize), probes);
}

// With beams, the queries of a sequence's beams see the same keys: as one entry, or as one each. So
// do the heads of a group.
struct Beams {
  int64_t count = 1;
  bool together = true;
  int kv_heads = kHeads;
};

void bench_paged(Context& ctx, Probes& probes, const Options& options, int64_t sequences,
                 int64_t keys, int block_size, DType dtype, KvLayout layout, Beams beams = {}) {
  const int64_t pages = keys / block_size;
  // Several caches' worth, so that keys and values come from memory.
  const int64_t size = int64_t{beams.kv_heads} * kHeadDim;
  const std::optional<DType> scale = page_scale_type(dtype);
  const int64_t bytes = sequences * keys * 2 *
                        (size * static_cast<int64_t>(size_of(dtype)) +
                         (scale ? beams.kv_heads * static_cast<int64_t>(size_of(*scale)) : 0));
  const int64_t sets = std::max<int64_t>(1, (int64_t{192} << 20) / bytes);
  const Shape shape =
      layout == KvLayout::kHND
          ? Shape{sets * sequences * pages, 2, beams.kv_heads, block_size, kHeadDim}
          : Shape{sets * sequences * pages, 2, block_size, beams.kv_heads, kHeadDim};
  KvPages kv{Tensor(shape, dtype), layout};
  if (scale) kv.scales = Tensor({shape.begin(), shape.end() - 1}, *scale);
  std::vector<int32_t> slots(static_cast<size_t>(block_size));
  const Tensor rows = random_matrix(block_size, size);
  for (int64_t b = 0; b < kv.data.dim(0); ++b) {
    std::iota(slots.begin(), slots.end(), static_cast<int32_t>(b * block_size));
    ops::write_kv(ctx, {rows, rows, index_tensor(slots), kv});
  }
  std::vector<int32_t> order(static_cast<size_t>(kv.data.dim(0))), qo{0}, indptr{0}, all;
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::minstd_rand(2));
  const int64_t copies = beams.together ? 1 : beams.count, queries = beams.count / copies;
  for (int64_t s = 0; s < sets * sequences; ++s)
    for (int64_t c = 0; c < copies; ++c)
      all.insert(all.end(), order.begin() + s * pages, order.begin() + (s + 1) * pages);
  const int64_t entries = sequences * copies, rows_of_q = entries * queries;
  for (int64_t s = 1; s <= entries; ++s) {
    qo.push_back(static_cast<int32_t>(s * queries));
    indptr.push_back(static_cast<int32_t>(s * pages));
  }
  const Tensor pages_of = index_tensor(all);
  ops::PagedAttentionArgs args{
      random_matrix(rows_of_q, kSize),
      kv,
      index_tensor(qo),
      index_tensor(indptr),
      pages_of.rows(0, entries * pages),
      index_tensor(std::vector<int32_t>(static_cast<size_t>(entries), block_size)),
      kHeads,
      kHeadDim,
      0.125f,
      false,
      Tensor({rows_of_q, kSize}, DType::kF32)};
  ops::paged_attention(ctx, args);
  const std::string name =
      std::string(dtype == DType::kF32    ? "decode f32 "
                  : dtype == DType::kBF16 ? "decode bf16 "
                                          : "decode int8 ") +
      (layout == KvLayout::kHND ? "HND " : "NHD ") + std::to_string(sequences) + " x " +
      std::to_string(keys) + " pages of " + std::to_string(block_size) +
      (beams.count == 1 ? ""
                        : ", " + std::to_string(beams.count) + " beams " +
                              (beams.together ? "together" : "apart")) +
      (beams.kv_heads == kHeads ? "" : ", " + std::to_string(beams.kv_heads) + " heads of keys");
  ops::PagedAttentionArgs expected = args;
  expected.out = Tensor({rows_of_q, kSize}, DType::kF32);
  reference::paged_attention(expected);
  expect_near(args.out, expected.out, 1e-5, name);
  const Timing timing = measure(probes, options.seconds, [&](int i) {
    const int64_t first = i % sets * entries * pages;
    args.kv_page_indices = pages_of.rows(first, first + entries * pages);
    ops::paged_attention(ctx, args);
  });
  print_row(name, timing, static_cast<double>(bytes), 0, probes);
}

Options parse(int argc, char** argv) {
  Options options;
  bool chosen = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--threads") {
      options.threads = std::max(1, std::atoi(argv[++i]));
    } else if (arg == "--isa") {
      for (size_t at = 0; at <= value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        options.levels.push_back(cpu_isa_from_name(value.substr(at, end - at)));
        at = end + 1;
      }
      ++i;
    } else if (arg == "--seconds") {
      options.seconds = std::atof(value.c_str()), ++i;
    } else {
      if (!chosen) options.gemm = options.attention = false, chosen = true;
      options.gemm |= arg == "gemm";
      options.attention |= arg == "attention";
    }
  }
  if (options.levels.empty()) options.levels.push_back(cpu_isa());
  set_cpu_isa(options.levels[0]);
  return options;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  using namespace tandem;
  const Options options = parse(argc, argv);
  cpu_time = options.threads == 1;
  Context ctx(options.threads);
  Probes probes(ctx);
  for (int i = 0; i < 5; ++i) probes.measure();
  std::printf("%s, %d threads\n", name_of(cpu_isa()), ctx.threads());
  if (options.gemm) {
    print_header("linear");
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4})
      for (auto [k, n] : {std::pair{768, 768}, {768, 2304}, {768, 3072}, {3072, 768}, {768, 50265}})
        bench_linear(ctx, probes, options, k, n, dtype);
  }
  if (options.attention) {
    print_header("attention, 12 heads of 64");
    for (const bool bf16 : {false, true})
      for (auto [s, n] : {std::pair{1, 64}, {1, 256}, {8, 256}, {1, 1500}})
        bench_ragged(ctx, probes, options, s, n, ops::Window::kAll, bf16);
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8})
      for (auto [s, n] : {std::pair{1, 256}, {8, 256}, {32, 256}, {8, 1024}})
        bench_paged(ctx, probes, options, s, n, 16, dtype, KvLayout::kHND);
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8})
      for (Beams beams : {Beams{2, false}, {2, true}, {4, false}, {4, true}, {8, false}, {8, true}})
        bench_paged(ctx, probes, options, 8, 256, 16, dtype, KvLayout::kHND, beams);
    for (int64_t length : {4096, 16384}) bench_ragged(ctx, probes, options, 1, length, 512);
    for (int kv_heads : {6, 3})
      bench_paged(ctx, probes, options, 8, 256, 16, DType::kF32, KvLayout::kHND,
                  {1, true, kv_heads});
    bench_paged(ctx, probes, options, 8, 256, 32, DType::kF32, KvLayout::kHND);
    bench_paged(ctx, probes, options, 8, 256, 16, DType::kF32, KvLayout::kNHD);
  }
  std::printf(
      "\nprobes: memory %.1f GB/s, f32 FMA %.1f GFLOP/s (bf16 and int8 products may be two and "
      "four times as fast)\n",
      probes.bandwidth() * 1e-9, probes.rate() * 1e-9);
}
