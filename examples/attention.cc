// Attention over masks, biases, shared prefixes and latent pages (docs/layouts.md): no model is
// loaded.
//   attention
#include <tandem/attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <vector>

namespace {

using tandem::DType;
using tandem::Shape;
using tandem::Tensor;

// A tensor of value(i) at element i.
Tensor filled(const Shape& shape, const std::function<float(int64_t)>& value) {
  const Tensor t(shape, DType::kF32);
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = value(i);
  return t;
}
float wave(int64_t i) { return std::sin(0.7f * static_cast<float>(i)); }

Tensor integers(const std::vector<int32_t>& values) {
  const Tensor t({static_cast<int64_t>(values.size())}, DType::kI32);
  std::copy(values.begin(), values.end(), t.data<int32_t>());
  return t;
}

// Values of which key j's has a one at j alone: so a query's output is its weights.
Tensor identity(int64_t keys, int64_t width) {
  return filled({keys, 1, width},
                [width](int64_t i) { return i / width == i % width ? 1.0f : 0.0f; });
}

void print_rows(const char* title, const Tensor& out) {
  std::printf("%s\n", title);
  for (int64_t i = 0; i < out.dim(0); ++i) {
    for (int64_t d = 0; d < out.size() / out.dim(0); ++d)
      std::printf(" %5.2f", static_cast<double>(out.row<float>(i)[d]));
    std::printf("\n");
  }
}

// A tree of guesses: token 0 has the children 1 and 2, token 1 the child 3. A token sees itself and
// those above it.
void mask(tandem::Context& ctx) {
  std::vector<uint8_t> tree = {1, 0, 0, 0,  //
                               1, 1, 0, 0,  //
                               1, 0, 1, 0,  //
                               1, 1, 0, 1};
  tandem::ops::AttendRaggedArgs args;
  args.q = filled({4, 1, 4}, [](int64_t) { return 0.0f; });  // all scores are 0
  args.k = filled({4, 1, 4}, wave);
  args.v = identity(4, 4);
  args.qo_indptr = args.kv_indptr = integers({0, 4});
  args.scores.custom_mask = Tensor::borrow(tree);
  args.out = Tensor({4, 1, 4}, DType::kF32);
  tandem::ops::attend_ragged(ctx, args);
  print_rows("mask: weights of a tree's tokens", args.out);

  // The same in bits.
  tandem::ops::PackBitsArgs pack{args.scores.custom_mask, {}, Tensor({2}, DType::kU8)};
  tandem::ops::pack_bits(ctx, pack);
  const uint8_t* bytes = pack.packed.data<uint8_t>();
  std::printf("mask: in bits %02x %02x\n", bytes[0], bytes[1]);
}

// Two requests in pages; a bias of -ln 2 for each step of distance halves the weight.
void bias(tandem::Context& ctx) {
  std::vector<float> matrix;
  for (const int keys : {3, 4})  // one query each, the last token's
    for (int j = 0; j < keys; ++j)
      matrix.push_back(-std::log(2.0f) * static_cast<float>(keys - 1 - j));
  tandem::ops::AttendPagesArgs args;
  args.q = filled({2, 1, 4}, [](int64_t) { return 0.0f; });
  args.qo_indptr = integers({0, 1, 2});
  args.cache.k_cache = filled({3, 2, 1, 4}, wave);  // 3 pages of 2 tokens
  args.cache.v_cache = filled({3, 2, 1, 4}, [](int64_t i) { return i / 4 == i % 4 ? 1.0f : 0.0f; });
  args.table = {integers({0, 2, 4}), integers({0, 1, 0, 1}), integers({1, 2})};
  args.scores.bias = Tensor::borrow(matrix);
  args.out = Tensor({2, 1, 4}, DType::kF32);
  tandem::ops::attend_pages(ctx, args);
  print_rows("bias: weights that halve with the distance, over 3 and 4 keys", args.out);
}

// Three requests share page 0; the last two also share page 1. Each has a page of its own.
void cascade(tandem::Context& ctx) {
  tandem::PagedKvCache cache;
  cache.kv_cache = filled({5, 2, 4, 1, 8}, wave);
  const Tensor q = filled({3, 1, 8}, wave), out({3, 1, 8}, DType::kF32);
  const std::vector<tandem::ops::CascadeLevel> levels = {
      {integers({0, 3}), {integers({0, 1}), integers({0}), integers({4})}},
      {integers({0, 1, 3}), {integers({0, 0, 1}), integers({1}), integers({0, 4})}},
      {integers({0, 1, 2, 3}), {integers({0, 1, 2, 3}), integers({2, 3, 4}), integers({2, 4, 3})}}};
  tandem::ops::AttendCascadeArgs args;
  args.q = q;
  args.cache = cache;
  args.levels = levels;
  args.out = out;
  tandem::ops::attend_cascade(ctx, args);

  tandem::ops::AttendPagesArgs alone;
  alone.q = q;
  alone.qo_indptr = integers({0, 1, 2, 3});
  alone.cache = cache;
  alone.table = {integers({0, 2, 5, 8}), integers({0, 2, 0, 1, 3, 0, 1, 4}), integers({2, 4, 3})};
  alone.out = Tensor({3, 1, 8}, DType::kF32);
  tandem::ops::attend_pages(ctx, alone);
  float most = 0;
  for (int64_t i = 0; i < out.size(); ++i)
    most = std::max(most, std::abs(out.data<float>()[i] - alone.out.data<float>()[i]));
  std::printf("cascade: 17 tokens are read instead of 29; differs from requests alone by %s\n",
              most < 1e-6f ? "less than 1e-6" : "too much");
}

// Tokens are appended by request and position; then each request's last token attends.
void latent(tandem::Context& ctx) {
  tandem::MlaCache cache;
  cache.mla_cache = Tensor::zeros({3, 4, 512 + 64}, DType::kF32);
  const tandem::KvPageTable table{integers({0, 2, 3}), integers({2, 0, 1}), integers({1, 3})};
  // 5 and 3 tokens, all of them new.
  const tandem::BatchPositions places =
      tandem::batch_indices_positions(integers({0, 5, 8}), integers({5, 3}));
  tandem::ops::append_latent(ctx, {filled({8, 512}, wave), filled({8, 64}, wave),
                                   places.batch_indices, places.positions, cache, table});
  tandem::ops::AttendLatentArgs args;
  args.q_nope = filled({2, 16, 512}, wave);
  args.q_pe = filled({2, 16, 64}, wave);
  args.qo_indptr = integers({0, 1, 2});
  args.cache = cache;
  args.table = table;
  args.scores.scale = 1.0f / std::sqrt(128.0f + 64.0f);
  args.out = Tensor({2, 16, 512}, DType::kF32);
  args.lse = Tensor({2, 16}, DType::kF32);
  tandem::ops::attend_latent(ctx, args);
  std::printf("latent: 16 heads read 5 and 3 tokens of 576 numbers; lse of the first: %.3f %.3f\n",
              static_cast<double>(args.lse.row<float>(0)[0]),
              static_cast<double>(args.lse.row<float>(1)[0]));
}

}  // namespace

int main() {
  try {
    tandem::Context ctx(/*threads=*/2);
    mask(ctx);
    bias(ctx);
    cascade(ctx);
    latent(ctx);
    return 0;
  } catch (const tandem::InputError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
