// Attention with biases of each query, and among tokens with boxes, on the device: the reference's
// values, of pages of every type.
#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/attention/planned.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::to_device;

double bucket_tolerance(DType dtype) { return dtype == DType::kF32 ? 2e-5 : 4e-2; }

struct BucketPages {
  KvPages host, device;
};

BucketPages zero_pages(Random& random, Context& ctx, int64_t blocks, int64_t block_size,
                       int64_t heads, int64_t head_dim, DType stored) {
  const bool nhd = random.integer(0, 1) == 1;
  Shape shape = {blocks, 2, nhd ? block_size : heads, nhd ? heads : block_size};
  const auto scale = page_scale_type(stored);
  const Tensor scales = scale ? Tensor::zeros(shape, *scale) : Tensor();
  shape.push_back(head_dim);
  const KvLayout layout = nhd ? KvLayout::kNHD : KvLayout::kHND;
  return {{Tensor::zeros(shape, scale ? stored : DType::kF32), layout, scales},
          {to_device(ctx, Tensor::zeros(shape, stored)), layout,
           scale ? to_device(ctx, scales) : Tensor()}};
}

void check_buckets(Random& random, DType dtype, DType stored, bool own, bool tiles) {
  Context ctx = testing::cuda_context(dtype);
  const std::vector<int32_t> queries = {1, 5, 0, 20, 1}, keys = {30, 5, 9, 47, 600};
  const int64_t heads = random.integer(1, 3), head_dim = random.pick<int64_t>({8, 16, 33}),
                size = heads * head_dim, rows = indptr_of(queries).back();
  const auto block_size = random.pick<int32_t>({1, 3, 16});
  const testing::ShuffledPages table(random, keys, block_size);
  const BucketPages pages =
      zero_pages(random, ctx, table.count(), block_size, heads, head_dim, stored);
  const auto values = [&](int64_t n, int64_t columns) {
    return rounded(random.matrix(n, columns), dtype);
  };
  const auto written = static_cast<int64_t>(table.slots.size());
  const Tensor k = values(written, size), v = values(written, size);
  reference::write_kv({k, v, indices(table.slots), pages.host});
  const DeviceMatrix k_there(ctx, random, k, dtype), v_there(ctx, random, v, dtype);
  ops::write_kv(ctx, {k_there.tensor(), v_there.tensor(), to_device(ctx, indices(table.slots)),
                      pages.device});
  ops::BucketAttentionArgs want{};
  want.q = values(rows, size);
  want.pages = pages.host;
  want.qo_indptr = indices(indptr_of(queries));
  want.kv_indptr = indices(table.indptr);
  want.kv_page_indices = indices(table.order);
  want.kv_last_page_len = indices(table.last);
  want.num_heads = static_cast<int>(heads);
  want.head_dim = static_cast<int>(head_dim);
  want.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  want.buckets = 4;
  want.biases = values(rows, heads * want.buckets);
  want.bucket_of = indices({0, 1, 1, 2, 3});
  want.ahead = own ? 1 : 0;
  want.behind = static_cast<int32_t>(random.integer(0, 2));
  want.out = Tensor({rows, size}, DType::kF32);
  if (own) {
    want.own_k = values(rows, size);
    want.own_v = values(rows, size);
  }
  reference::bucket_attention(want);
  std::vector<AttentionSequence> sequences;
  for (size_t i = 0; i < queries.size(); ++i)
    sequences.push_back({indptr_of(queries)[i], queries[i], keys[i], table.indptr[i], true});
  const testing::Planned planned(ctx, sequences, static_cast<int>(heads), tiles);
  const DeviceMatrix q(ctx, random, want.q, dtype), biases(ctx, random, want.biases, dtype),
      own_k(ctx, random, own ? want.own_k : want.q, dtype),
      own_v(ctx, random, own ? want.own_v : want.q, dtype), out(ctx, random, rows, size, dtype);
  ops::BucketAttentionArgs args = want;
  args.q = q.tensor();
  args.pages = pages.device;
  args.kv_page_indices = to_device(ctx, indices(table.order));
  args.biases = biases.tensor();
  args.bucket_of = to_device(ctx, want.bucket_of);
  args.out = out.tensor();
  args.own_k = own ? own_k.tensor() : Tensor();
  args.own_v = own ? own_v.tensor() : Tensor();
  args.plan = &planned.plan;
  ops::bucket_attention(ctx, args);
  EXPECT_TRUE(near(out.values(), rounded(want.out, dtype), bucket_tolerance(dtype), 0))
      << name_of(dtype) << ", pages of " << name_of(stored) << (own ? ", own keys" : "");
}

TEST(CudaBucketAttention, MatchesTheReference) {
  Random random;
  for (const DType dtype : testing::kActivations)
    for (const bool own : {false, true}) {
      check_buckets(random, dtype, dtype, own, /*tiles=*/dtype != DType::kF32);
      for (const DType stored : testing::types_in_8_bits())
        check_buckets(random, dtype, stored, own, /*tiles=*/false);
    }
}

TEST(CudaBoxAttention, MatchesTheReference) {
  Random random;
  for (const DType dtype : testing::kActivations)
    for (const int head_dim : {8, 33, 64}) {
      Context ctx = testing::cuda_context(dtype);
      const std::vector<int32_t> lengths = {9, 0, 33, 1};
      const int heads = 2;
      const int64_t rows = indptr_of(lengths).back(), size = int64_t{heads} * head_dim;
      ops::BoxAttentionArgs want{};
      const auto values = [&] { return rounded(random.matrix(rows, size), dtype); };
      want.q = values();
      want.k = values();
      want.v = values();
      want.indptr = indices(indptr_of(lengths));
      want.num_heads = heads;
      want.head_dim = head_dim;
      want.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
      want.boxes = Tensor({rows, 4}, DType::kF32);
      for (int64_t i = 0; i < want.boxes.size(); ++i)
        want.boxes.data<float>()[i] = static_cast<float>(random.integer(0, 100)) / 100.0f;
      want.bias = {random.matrix(heads, 21), 10};
      want.across = {random.matrix(heads, 101), 50};
      want.down = {random.matrix(heads, 201), 100};
      want.out = Tensor({rows, size}, DType::kF32);
      reference::box_attention(want);
      const DeviceMatrix q(ctx, random, want.q, dtype), k(ctx, random, want.k, dtype),
          v(ctx, random, want.v, dtype), out(ctx, random, rows, size, dtype);
      ops::BoxAttentionArgs args = want;
      args.q = q.tensor();
      args.k = k.tensor();
      args.v = v.tensor();
      args.indptr = to_device(ctx, want.indptr);
      args.boxes = to_device(ctx, want.boxes);
      for (ops::PositionBias* bias : {&args.bias, &args.across, &args.down})
        bias->values = to_device(ctx, bias->values);
      args.out = out.tensor();
      ops::box_attention(ctx, args);
      EXPECT_TRUE(near(out.values(), rounded(want.out, dtype), bucket_tolerance(dtype), 0))
          << name_of(dtype) << ", heads of " << head_dim;
    }
}

}  // namespace
}  // namespace tandem
