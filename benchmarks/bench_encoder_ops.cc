// The CPU's ops of encoders that attend to a part of their input, see pictures or have experts, at
// the shapes of published models: microseconds (best and median of many), and the share of the
// machine's rate of fused multiply-adds, which a probe measures in between. Each attention is
// compared with the reference on a small input before it is timed. Experts and merging are made of
// ops that tests compare; here they are only timed.
//
//   bench_encoder_ops [--threads N] [--seconds S per row] [--only WORD of the rows' names]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
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
using Ints = std::vector<int32_t>;

Tensor pairs_of(const Ints& values) {
  return index_tensor(values).reshape({std::ssize(values) / 2, 2});
}

// A small input of an op, where it is right, and the large one.
class Bench {
 public:
  Bench(int threads, double seconds, std::string only)
      : ctx_(threads), probes_(ctx_), seconds_(seconds), only_(std::move(only)) {
    for (int i = 0; i < 5; ++i) probes_.measure();
    print_header("ops of encoders");
  }

  // op: of the context and its arguments; both from `make(size)`. operations: of the large one.
  template <class Args>
  void row(const std::string& name, void (*op)(Context&, const Args&),
           void (*reference)(const Args&), const std::function<Args(int64_t)>& make, int64_t small,
           int64_t large, double operations) {
    if (name.find(only_) == std::string::npos) return;
    Args args = make(small);
    op(ctx_, args);
    const Tensor got = args.out;
    args.out = Tensor(got.shape(), DType::kF32);
    reference(args);
    expect_near(got, args.out, 1e-4, name);
    args = make(large);
    time(
        name, [&] { op(ctx_, args); }, operations);
  }
  void time(const std::string& name, const std::function<void()>& body, double operations) {
    if (name.find(only_) == std::string::npos) return;
    const Timing timing = measure(probes_, seconds_, [&](int) { body(); });
    print_row(name, timing, 0, operations, probes_);
  }

  Context& ctx() { return ctx_; }
  double rate() const { return probes_.rate(); }

 private:
  Context ctx_;
  Probes probes_;
  double seconds_;
  std::string only_;
};

constexpr int kHeads = 12, kHeadDim = 64, kSize = kHeads * kHeadDim;

ops::RaggedAttentionArgs ragged(int64_t tokens, const Ints& starts) {
  return {random_matrix(tokens, kSize),
          random_matrix(tokens, kSize),
          random_matrix(tokens, kSize),
          index_tensor(starts),
          kHeads,
          kHeadDim,
          0.125f,
          Tensor({tokens, kSize}, DType::kF32)};
}

// Scores and values.
double of_attention(int64_t queries, double keys, int64_t size) {
  return 4.0 * static_cast<double>(queries * size) * keys;
}

// Each token and 127 on both sides; with summaries, also one of each 16 tokens (LongT5).
ops::RaggedAttentionArgs longt5(int64_t tokens, bool summaries) {
  ops::RaggedAttentionArgs args = ragged(tokens, {0, static_cast<int32_t>(tokens)});
  args.window = {127, 127};
  args.bias = {random_matrix(kHeads, 257), 128};
  if (!summaries) return args;
  const int64_t blocks = tokens / 16;
  args.side = {random_matrix(blocks, kSize),
               random_matrix(blocks, kSize),
               pairs_of({0, static_cast<int32_t>(blocks)}),
               {random_matrix(kHeads, 257), 128},
               16};
  return args;
}

// Blocks of 512 that see themselves and 32 carried vectors (Pegasus-X).
ops::RaggedAttentionArgs pegasus_x(int64_t tokens) {
  const int32_t block = tokens < 512 ? 64 : 512, carried = 32;
  Ints starts{0}, ranges;
  for (int32_t at = 0; at < tokens; at += block) {
    starts.push_back(at + block);
    ranges.insert(ranges.end(), {0, carried});
  }
  ops::RaggedAttentionArgs args = ragged(tokens, starts);
  args.side = {random_matrix(carried, kSize), random_matrix(carried, kSize), pairs_of(ranges)};
  return args;
}

// Blocks of 64 that see their neighbours and the two outer ones (BigBird).
ops::RaggedAttentionArgs bigbird(int64_t tokens) {
  constexpr int32_t kBlock = 64;
  const auto blocks = static_cast<int32_t>(tokens / kBlock);
  Ints starts{0}, keys, sides;
  for (int32_t i = 0; i < blocks; ++i) {
    starts.push_back((i + 1) * kBlock);
    const bool outer = i == 0 || i + 1 == blocks;
    const int32_t first = outer ? 0 : std::max(i - 1, 1),
                  last = outer ? blocks : std::min(i + 2, blocks - 1);
    keys.insert(keys.end(), {first * kBlock, last * kBlock});
    sides.insert(sides.end(), {0, outer ? 0 : 2 * kBlock});
  }
  ops::RaggedAttentionArgs args = ragged(tokens, starts);
  args.kv_ranges = pairs_of(keys);
  args.side = {.k = random_matrix(2 * kBlock, kSize),
               .v = random_matrix(2 * kBlock, kSize),
               .ranges = pairs_of(sides),
               .bias = {random_matrix(kHeads, kBlock + 1), 0},
               .unit = 0};
  return args;
}

// A picture of `side` x `side` tokens in windows of 10, shifted (Donut's first stage).
ops::PictureAttentionArgs swin(int64_t side) {
  constexpr int kWindow = 10, kOfHead = 32, kOfPicture = 4;
  const int64_t tokens = side * side, size = kOfPicture * kOfHead;
  const auto edge = static_cast<int>(side);
  return {random_matrix(tokens, size),
          random_matrix(tokens, size),
          random_matrix(tokens, size),
          {edge, edge, kWindow, kWindow / 2},
          kOfPicture,
          kOfHead,
          0.17f,
          random_matrix(kOfPicture, (2 * kWindow - 1) * (2 * kWindow - 1)),
          Tensor({tokens, size}, DType::kF32)};
}

// Features of a picture in groups of 32 (Florence-2's first stage).
ops::ChannelAttentionArgs channels(int64_t points) {
  constexpr int64_t kFeatures = 128;
  return {random_matrix(points, kFeatures),
          random_matrix(points, kFeatures),
          random_matrix(points, kFeatures),
          points,
          32,
          0.1f,
          Tensor({points, kFeatures}, DType::kF32)};
}

// Words with boxes (UDOP).
ops::BoxAttentionArgs boxes(int64_t words) {
  Tensor places({words, 4}, DType::kF32);
  const Tensor corners = random_matrix(words, 2);
  for (int64_t i = 0; i < words; ++i)
    for (int64_t j = 0; j < 4; ++j)
      places.row<float>(i)[j] = std::abs(corners.row<float>(i)[j % 2]) * (j < 2 ? 0.9f : 1.0f);
  return {random_matrix(words, kSize),
          random_matrix(words, kSize),
          random_matrix(words, kSize),
          index_tensor({0, static_cast<int32_t>(words)}),
          kHeads,
          kHeadDim,
          0.125f,
          places,
          {random_matrix(kHeads, 257), 128},
          {random_matrix(kHeads, 201), 100},
          {random_matrix(kHeads, 201), 100},
          Tensor({words, kSize}, DType::kF32)};
}

// Rows to their experts and back: gathered, two layers of each expert, combined (Switch base).
void bench_experts(Bench& bench, int64_t tokens, int experts, DType dtype) {
  constexpr int64_t kInner = 3072;
  Context& ctx = bench.ctx();
  std::vector<PackedWeight> in, out;
  for (int i = 0; i < experts; ++i) {
    const Tensor w1 = random_matrix(kInner, kSize), w2 = random_matrix(kSize, kInner);
    const MatrixView v1{w1.raw(), DType::kF32, kInner, kSize, kSize};
    const MatrixView v2{w2.raw(), DType::kF32, kSize, kInner, kInner};
    in.emplace_back(ctx, std::span(&v1, 1), dtype);
    out.emplace_back(ctx, std::span(&v2, 1), dtype);
  }
  std::minstd_rand chance(1);
  std::vector<Ints> chosen(static_cast<size_t>(experts));
  for (int32_t t = 0; t < tokens; ++t) chosen[chance() % chosen.size()].push_back(t);
  Ints rows, places(static_cast<size_t>(tokens));
  for (const Ints& of_expert : chosen)
    for (const int32_t t : of_expert) {
      places[static_cast<size_t>(t)] = static_cast<int32_t>(rows.size());
      rows.push_back(t);
    }
  const Tensor x = random_matrix(tokens, kSize), theirs({tokens, kSize}, DType::kF32),
               inner({tokens, kInner}, DType::kF32), made({tokens, kSize}, DType::kF32),
               result({tokens, kSize}, DType::kF32), factors = random_matrix(tokens, 1);
  const Tensor of_rows = index_tensor(rows), of_places = index_tensor(places).reshape({tokens, 1});
  bench.time(
      std::to_string(experts) + " experts " + name_of(dtype) + ", " + std::to_string(tokens),
      [&] {
        ops::gather_rows(ctx, {x, of_rows, theirs});
        int64_t begin = 0;
        for (size_t i = 0; i < chosen.size(); ++i) {
          const int64_t end = begin + std::ssize(chosen[i]);
          ops::linear(
              ctx,
              {&in[i], theirs.rows(begin, end), {}, Activation::kRelu, inner.rows(begin, end)});
          ops::linear(
              ctx, {&out[i], inner.rows(begin, end), {}, Activation::kNone, made.rows(begin, end)});
          begin = end;
        }
        ops::combine_rows(ctx, {made, of_places, factors, result});
      },
      4.0 * static_cast<double>(tokens * kSize * kInner));
}

// Four neighbours become one token: gathered, normed, and half as many features (Swin).
void bench_merging(Bench& bench, int64_t side, int64_t features) {
  Context& ctx = bench.ctx();
  const int64_t tokens = side * side, merged = tokens / 4;
  const Tensor w = random_matrix(2 * features, 4 * features), x = random_matrix(tokens, features);
  const MatrixView view{w.raw(), DType::kF32, 2 * features, 4 * features, 4 * features};
  const PackedWeight packed(ctx, std::span(&view, 1), DType::kF32);
  Ints rows;
  for (int64_t y = 0; y < side; y += 2)
    for (int64_t c = 0; c < side; c += 2)
      for (const int64_t at :
           {y * side + c, (y + 1) * side + c, y * side + c + 1, (y + 1) * side + c + 1})
        rows.push_back(static_cast<int32_t>(at));
  const Tensor of_rows = index_tensor(rows), fours({tokens, features}, DType::kF32),
               weight = random_matrix(1, 4 * features).reshape({4 * features}),
               out({merged, 2 * features}, DType::kF32);
  const Tensor together = fours.reshape({merged, 4 * features});
  bench.time(
      "patch merging " + std::to_string(side) + " x " + std::to_string(side),
      [&] {
        ops::gather_rows(ctx, {x, of_rows, fours});
        ops::layer_norm(ctx, {together, {}, weight, weight, 1e-5f, together});
        ops::linear(ctx, {&packed, together, {}, Activation::kNone, out});
      },
      2.0 * static_cast<double>(merged * 8 * features * features));
}

void run(Bench& bench) {
  using Ragged = ops::RaggedAttentionArgs;
  constexpr int64_t kLong = 16384;
  bench.row<Ragged>(
      "LongT5, local", ops::ragged_attention, reference::ragged_attention,
      [](int64_t n) { return longt5(n, false); }, 320, kLong, of_attention(kLong, 255, kSize));
  bench.row<Ragged>(
      "LongT5, transient-global", ops::ragged_attention, reference::ragged_attention,
      [](int64_t n) { return longt5(n, true); }, 320, kLong,
      of_attention(kLong, 255 + kLong / 16.0, kSize));
  bench.row<Ragged>("Pegasus-X, blocks of 512", ops::ragged_attention, reference::ragged_attention,
                    pegasus_x, 256, kLong, of_attention(kLong, 512 + 32, kSize));
  // The outer blocks see everything.
  bench.row<Ragged>(
      "BigBird, blocks of 64", ops::ragged_attention, reference::ragged_attention, bigbird, 384,
      kLong, of_attention(kLong - 128, 3 * 64 + 128, kSize) + of_attention(128, kLong, kSize));
  bench.row<ops::PictureAttentionArgs>("Swin, shifted windows of 10", ops::picture_attention,
                                       reference::picture_attention, swin, 20, 240,
                                       of_attention(240 * 240, 100, 128));
  bench.row<ops::ChannelAttentionArgs>("channels, groups of 32", ops::channel_attention,
                                       reference::channel_attention, channels, 100, 192 * 192,
                                       of_attention(192 * 192, 32, 128));
  bench.row<ops::BoxAttentionArgs>("boxes, 1024 words", ops::box_attention,
                                   reference::box_attention, boxes, 64, 1024,
                                   of_attention(1024, 1024, kSize));
  for (const DType dtype : {DType::kF32, DType::kI8}) bench_experts(bench, 1024, 8, dtype);
  bench_merging(bench, 240, 128);
  std::printf("\nprobe: f32 FMA %.1f GFLOP/s\n", bench.rate() * 1e-9);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  int threads = 2;
  double seconds = 1;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads")
      threads = std::max(1, std::atoi(argv[i + 1]));
    else if (flag == "--seconds")
      seconds = std::atof(argv[i + 1]);
    else if (flag == "--only")
      only = argv[i + 1];
    else
      return std::fprintf(stderr, "bench_encoder_ops: no flag %s\n", argv[i]), 1;
  }
  tandem::Bench bench(threads, seconds, only);
  tandem::run(bench);
}
