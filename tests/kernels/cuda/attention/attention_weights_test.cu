// The weights of cross-attention on the device: the reference's, of pages of every type.
#include <array>

#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::to_device;

TEST(CudaAttentionWeights, MatchTheReference) {
  Random random;
  for (const DType dtype : testing::kActivations)
    for (int round = 0; round < 16; ++round) {
      Context ctx = testing::cuda_context(dtype);
      const DType f8 = ctx.backend().f8_pages() ? DType::kF8E4M3 : dtype;
      const DType stored = std::array{dtype, dtype, f8, DType::kI8}[round % 4];
      const auto scale = page_scale_type(stored);
      const int64_t heads = random.integer(1, 3), head_dim = random.pick<int64_t>({1, 7, 64}),
                    rows = random.integer(1, 5);
      const auto block_size = random.pick<int32_t>({1, 3, 16}),
                 keys = static_cast<int32_t>(random.integer(1, 700));
      const testing::ShuffledPages table(random, {keys}, block_size);
      const bool nhd = random.integer(0, 1) == 1;
      Shape shape = {table.count(), 2, nhd ? block_size : heads, nhd ? heads : block_size};
      const Tensor scales = scale ? Tensor::zeros(shape, *scale) : Tensor();
      shape.push_back(head_dim);
      const KvLayout layout = nhd ? KvLayout::kNHD : KvLayout::kHND;
      const KvPages host{Tensor::zeros(shape, scale ? stored : DType::kF32), layout, scales},
          device{to_device(ctx, Tensor::zeros(shape, stored)), layout,
                 scale ? to_device(ctx, scales) : Tensor()};
      const Tensor k = rounded(random.matrix(keys, heads * head_dim), dtype),
                   q = rounded(random.matrix(rows, head_dim), dtype);
      reference::write_kv({k, k, indices(table.slots), host});
      const DeviceMatrix k_there(ctx, random, k, dtype), q_there(ctx, random, q, dtype);
      ops::write_kv(
          ctx, {k_there.tensor(), k_there.tensor(), to_device(ctx, indices(table.slots)), device});
      const Tensor want({rows, random.integer(1, keys)}, DType::kF32);
      ops::AttentionWeightsArgs args{
          q,    host, indices(table.order), keys, static_cast<int>(random.integer(0, heads - 1)),
          0.3f, want};
      reference::attention_weights(args);
      const DeviceMatrix out(ctx, random, rows, want.dim(1), DType::kF32);
      args.q = q_there.tensor();
      args.pages = device;
      args.page_indices = to_device(ctx, indices(table.order));
      args.out = out.tensor();
      ops::attention_weights(ctx, args);
      EXPECT_TRUE(near(out.values(), want, 1e-7, 2e-5))
          << name_of(dtype) << ", pages of " << name_of(stored) << ", " << keys << " keys";
      args.q = {};
      args.kv_head = -1;
      ops::attention_weights(ctx, args);
      EXPECT_TRUE(testing::same_bits(out.values(), Tensor::zeros(want.shape(), DType::kF32)));
    }
}

}  // namespace
}  // namespace tandem
