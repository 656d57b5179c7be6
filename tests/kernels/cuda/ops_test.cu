// The CUDA device's ops on rows, pages and blocks against the references, over odd shapes, strides
// and all types of activations; its copies.
#include <cstring>

#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::half_ulp;
using testing::indices;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::same_bits;
using testing::to_device;

TEST(CudaOps, Embedding) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 8; ++round) {
      const int64_t rows = random.integer(1, 20), size = random.pick<int64_t>({1, 8, 56, 100, 300});
      ops::EmbeddingArgs args;
      args.tokens = random.matrix(20, size);
      args.positions = random.matrix(12, size);
      if (random.integer(0, 1)) args.tokens = testing::to_bf16(args.tokens);
      if (random.integer(0, 1)) args.positions = testing::to_bf16(args.positions);
      if (random.integer(0, 3) == 0) args.positions = Tensor();
      args.scale = random.pick({1.0f, 7.5f});
      args.position_offset = 2;
      args.first_id = random.pick({0, 40});
      std::vector<int32_t> ids, positions;
      for (int64_t i = 0; i < rows; ++i) {  // some outside
        ids.push_back(static_cast<int32_t>(args.first_id + random.integer(-3, 22)));
        positions.push_back(static_cast<int32_t>(random.integer(-2, 9)));
      }
      args.ids = indices(ids);
      args.position_ids = indices(positions);
      const Tensor want({rows, size}, DType::kF32);
      args.out = want;
      reference::embedding(args);
      for (Tensor* t : {&args.ids, &args.position_ids, &args.tokens, &args.positions})
        if (!t->empty()) *t = to_device(ctx, *t);
      const DeviceMatrix out(ctx, random, rows, size, dtype);
      args.out = out.tensor();
      ops::embedding(ctx, args);
      EXPECT_TRUE(near(out.values(), want, 1e-6, 1.01 * half_ulp(dtype) + 1e-6))
          << name_of(dtype) << " " << rows << " x " << size;

      // With a norm: one launch; in f32 the bits of both ops.
      const Tensor weight = random.vector(size), bias = random.vector(size);
      args.norm_weight = to_device(ctx, weight);
      args.norm_bias = to_device(ctx, bias);
      args.norm_eps = 1e-2f;
      const DeviceMatrix normed(ctx, random, rows, size, dtype);
      args.out = normed.tensor();
      ops::embedding(ctx, args);
      const Tensor got = normed.values();
      ops::layer_norm(
          ctx, {out.tensor(), {}, args.norm_weight, args.norm_bias, args.norm_eps, out.tensor()});
      if (dtype == DType::kF32) {
        EXPECT_TRUE(same_bits(got, out.values())) << rows << " x " << size;
      }
      reference::layer_norm({want, {}, weight, bias, args.norm_eps, want});
      EXPECT_TRUE(near(got, want, 2e-5, 1.01 * half_ulp(dtype) + 2e-5))
          << name_of(dtype) << " " << rows << " x " << size;
    }
  }
}

TEST(CudaOps, LayerNorm) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 3, 31, 32, 56, 127, 129, 200, 768, 1024, 12000}) {
      const int64_t rows = random.integer(1, 5);
      Tensor x = random.matrix(rows, size);
      for (int64_t i = 0; i < rows; ++i) x.row<float>(i)[0] += 3;  // a mean that matters
      x = rounded(x, dtype);
      const bool add = random.integer(0, 1) == 1;
      const Tensor residual = add ? rounded(random.matrix(rows, size), dtype) : Tensor();
      const Tensor weight = random.vector(size), bias = random.vector(size);
      const Tensor want({rows, size}, DType::kF32);
      reference::layer_norm({x, residual, weight, bias, 1e-5f, want});
      const DeviceMatrix there(ctx, random, x, dtype);
      const DeviceMatrix other(ctx, random, add ? residual : x, dtype);
      const DeviceMatrix out(ctx, random, rows, size, dtype);
      ops::LayerNormArgs args{there.tensor(),
                              add ? other.tensor() : Tensor(),
                              to_device(ctx, weight),
                              to_device(ctx, bias),
                              1e-5f,
                              out.tensor()};
      ops::layer_norm(ctx, args);
      const Tensor got = out.values();
      EXPECT_TRUE(near(got, want, 1e-5, 1.01 * half_ulp(dtype) + 1e-5))
          << name_of(dtype) << " " << rows << " x " << size;
      const DeviceMatrix again(ctx, random, rows, size, dtype);
      const DeviceMatrix sum(ctx, random, rows, size, dtype);
      const Tensor want_sum({rows, size}, DType::kF32);
      reference::layer_norm({x, residual, weight, bias, 1e-5f, want, want_sum});
      ops::LayerNormArgs summing = args;
      summing.out = again.tensor();
      summing.sum = sum.tensor();
      ops::layer_norm(ctx, summing);
      EXPECT_TRUE(same_bits(again.values(), got)) << name_of(dtype) << " " << rows << " x " << size;
      EXPECT_TRUE(same_bits(sum.values(), rounded(want_sum, dtype))) << name_of(dtype);
      args.out = args.x;
      ops::layer_norm(ctx, args);  // in place
      EXPECT_TRUE(same_bits(there.values(), got)) << name_of(dtype) << " " << rows << " x " << size;
    }
  }
}

TEST(CudaOps, RmsNorm) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 3, 31, 32, 56, 127, 129, 200, 768, 1024, 12000}) {
      const int64_t rows = random.integer(1, 5);
      Tensor x = random.matrix(rows, size);
      for (int64_t i = 0; i < rows; ++i) x.row<float>(i)[0] += 3;  // a mean that stays
      x = rounded(x, dtype);
      const bool add = random.integer(0, 1) == 1;
      const Tensor residual = add ? rounded(random.matrix(rows, size), dtype) : Tensor();
      const Tensor weight = random.vector(size);
      const Tensor want({rows, size}, DType::kF32), want_sum({rows, size}, DType::kF32);
      reference::layer_norm({x, residual, weight, {}, 1e-6f, want, want_sum, true});
      const DeviceMatrix there(ctx, random, x, dtype);
      const DeviceMatrix other(ctx, random, add ? residual : x, dtype);
      const DeviceMatrix out(ctx, random, rows, size, dtype), sum(ctx, random, rows, size, dtype);
      ops::LayerNormArgs args{there.tensor(),
                              add ? other.tensor() : Tensor(),
                              to_device(ctx, weight),
                              {},
                              1e-6f,
                              out.tensor(),
                              sum.tensor(),
                              true};
      ops::layer_norm(ctx, args);
      const Tensor got = out.values();
      EXPECT_TRUE(near(got, want, 1e-5, 1.01 * half_ulp(dtype) + 1e-5))
          << name_of(dtype) << " " << rows << " x " << size;
      EXPECT_TRUE(same_bits(sum.values(), rounded(want_sum, dtype))) << name_of(dtype);
      args.out = args.x;
      args.sum = Tensor();
      ops::layer_norm(ctx, args);  // in place
      EXPECT_TRUE(same_bits(there.values(), got)) << name_of(dtype) << " " << rows << " x " << size;
    }
  }
}

TEST(CudaOps, GatedActivation) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const Activation activation :
         {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh, Activation::kSilu})
      for (const int64_t size : {1, 3, 31, 80, 129, 2048}) {
        const int64_t rows = random.integer(1, 5);
        const Tensor both = rounded(random.matrix(rows, 2 * size), dtype);
        const Tensor want({rows, size}, DType::kF32);
        reference::gated_activation(
            {both.columns(0, size), both.columns(size, 2 * size), activation, want});
        const DeviceMatrix there(ctx, random, both, dtype), out(ctx, random, rows, size, dtype);
        const Tensor gate = there.tensor().columns(0, size);
        ops::GatedActivationArgs args{gate, there.tensor().columns(size, 2 * size), activation,
                                      out.tensor()};
        ops::gated_activation(ctx, args);
        const Tensor got = out.values();
        EXPECT_TRUE(near(got, want, 1e-5, 1.01 * half_ulp(dtype) + 1e-5))
            << name_of(dtype) << " " << rows << " x " << size;
        args.out = gate;
        ops::gated_activation(ctx, args);  // in place
        EXPECT_TRUE(same_bits(there.values().columns(0, size), got)) << name_of(dtype);
      }
  }
}

TEST(CudaOps, GatherRows) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 128, 257}) {
      const Tensor x = rounded(random.matrix(30, size), dtype);
      std::vector<int32_t> rows;
      for (int64_t i = random.integer(1, 40); i > 0; --i)
        rows.push_back(static_cast<int32_t>(random.integer(0, 29)));
      const DeviceMatrix from(ctx, random, x, dtype);
      const DeviceMatrix to(ctx, random, std::ssize(rows), size, dtype);
      ops::gather_rows(ctx, {from.tensor(), to_device(ctx, indices(rows)), to.tensor()});
      const Tensor got = to.values();
      for (int64_t i = 0; i < std::ssize(rows); ++i)
        EXPECT_TRUE(same_bits(got.rows(i, i + 1), x.rows(rows[static_cast<size_t>(i)],
                                                         rows[static_cast<size_t>(i)] + 1)));
    }
  }
}

// Heads that vectors fit and others, rows that are aligned and others; slots of several pages, some
// that are nobody's.
TEST(CudaOps, WriteKv) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 10; ++round) {
      const int64_t blocks = 4, block_size = random.pick<int64_t>({1, 3, 16}),
                    heads = random.integer(1, 3), head_dim = random.pick<int64_t>({5, 8, 16, 64});
      const int64_t tokens = random.integer(1, blocks * block_size);
      const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
      const bool nhd = layout == KvLayout::kNHD;
      const Shape shape = {blocks, 2, nhd ? block_size : heads, nhd ? heads : block_size, head_dim};
      const Tensor k = rounded(random.matrix(tokens, heads * head_dim), dtype),
                   v = rounded(random.matrix(tokens, heads * head_dim), dtype);
      std::vector<int32_t> slots(static_cast<size_t>(blocks * block_size));
      std::iota(slots.begin(), slots.end(), 0);
      std::shuffle(slots.begin(), slots.end(), random.engine());
      slots.resize(static_cast<size_t>(tokens));
      slots[static_cast<size_t>(random.integer(0, tokens - 1))] = -1;

      const Tensor want(shape, DType::kF32);
      std::fill_n(want.data<float>(), want.size(), 7.0f);
      std::vector<std::byte> before =
          testing::to_type({want.data<float>(), static_cast<size_t>(want.size())}, dtype);
      reference::write_kv({k, v, indices(slots), {want, layout}});
      const Tensor pages = to_device(ctx, Tensor::borrow(before.data(), shape, dtype));
      const int64_t step = random.pick<int64_t>({1, 8});
      const DeviceMatrix keys(ctx, random, k, dtype, step), values(ctx, random, v, dtype, step);
      ops::write_kv(
          ctx, {keys.tensor(), values.tensor(), to_device(ctx, indices(slots)), {pages, layout}});
      const Tensor got = ctx.on_host(pages);
      const std::vector<std::byte> expected =
          testing::to_type({want.data<float>(), static_cast<size_t>(want.size())}, dtype);
      EXPECT_EQ(std::memcmp(got.raw(), expected.data(), expected.size()), 0)
          << name_of(dtype) << " " << to_string(shape) << ", " << tokens << " tokens";
    }
  }
}

Tensor random_bytes(Random& random, const Tensor& t) {
  for (size_t i = 0; i < t.bytes(); ++i)
    static_cast<uint8_t*>(t.raw())[i] = static_cast<uint8_t>(random.integer(0, 255));
  return t;
}

// Within the device, to page-locked host memory and back; blocks of whole vectors and others.
TEST(CudaOps, CopyBlocks) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF16);
  for (const int64_t size : {1, 7, 8, 64, 1000, 5000}) {
    const int64_t count = 9;
    const Shape shape = {count, size};
    const Tensor device = to_device(ctx, random_bytes(random, Tensor(shape, DType::kF16)));
    const Tensor before = ctx.on_host(device);
    const Tensor host = random_bytes(random, ctx.backend().allocate_host(shape, DType::kF16));
    Tensor want(shape, DType::kF16);
    std::memcpy(want.raw(), host.raw(), host.bytes());
    const auto block = static_cast<size_t>(2 * size);
    const auto copy = [&](const Tensor& from, int a, const Tensor& to, int b) {
      std::memcpy(static_cast<std::byte*>(to.raw()) + block * static_cast<size_t>(b),
                  static_cast<const std::byte*>(from.raw()) + block * static_cast<size_t>(a),
                  block);
    };
    ops::copy_blocks(ctx, {device, host, indices({0, 8, 5, 3, 2, 2})});  // out
    ctx.backend().synchronize();
    for (const auto& [a, b] : {std::pair(0, 8), {5, 3}, {2, 2}}) copy(before, a, want, b);
    EXPECT_EQ(std::memcmp(host.raw(), want.raw(), want.bytes()), 0) << size;

    ops::copy_blocks(ctx, {host, device, indices({8, 1, 0, 7})});    // in
    ops::copy_blocks(ctx, {device, device, indices({1, 4, 3, 6})});  // within
    for (const auto& [a, b] : {std::pair(8, 1), {0, 7}}) copy(want, a, before, b);
    for (const auto& [a, b] : {std::pair(1, 4), {3, 6}}) copy(before, a, before, b);
    EXPECT_EQ(std::memcmp(ctx.on_host(device).raw(), before.raw(), before.bytes()), 0) << size;
  }
}

// More than the staging buffers hold; the host's memory changes as soon as the call returns.
TEST(CudaBackend, CopiesInAndOut) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF32);
  const Shape shape = {(int64_t{21} << 20) / 4 + 3};
  const Tensor host(shape, DType::kI32), device = ctx.backend().allocate(shape, DType::kI32);
  int32_t* p = host.data<int32_t>();
  std::iota(p, p + host.size(), 5);
  ctx.backend().copy_in(host, device);
  std::fill_n(p, host.size(), -1);
  const Tensor back = ctx.on_host(device);
  for (int64_t i = 0; i < back.size(); ++i) ASSERT_EQ(back.data<int32_t>()[i], 5 + i);
}

TEST(CudaBackend, CopiesMatrices) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    const Tensor x = rounded(random.matrix(7, 45), dtype);
    const DeviceMatrix from(ctx, random, x, dtype), to(ctx, random, 7, 45, dtype);
    ctx.backend().copy_matrix(from.tensor(), to.tensor());
    EXPECT_TRUE(same_bits(to.values(), x));
  }
}

// A step once recorded does its work on whatever its inputs hold at each replay.
TEST(CudaBackend, ReplaysWithOtherInputs) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    DeviceBackend& backend = ctx.backend();
    const int64_t rows = 5, size = 48, vocabulary = 100;
    const Tensor table = random.matrix(vocabulary, size), ones = random.vector(size);
    const MatrixView view = testing::view_of(table);
    const PackedWeight head(ctx, {&view, 1}, dtype);
    const Tensor tokens = to_device(ctx, table), norm = to_device(ctx, ones);
    const Tensor ids = to_device(ctx, indices({0, 1, 2, 3, 4})),
                 best = backend.allocate({rows}, DType::kI32);
    const Tensor none = to_device(ctx, indices(std::vector<int32_t>(rows + 1, 0)));
    const auto step = [&] {
      const Tensor x = ctx.make({rows, size}), y = ctx.make({rows, size}),
                   logits = ctx.make({rows, vocabulary}, DType::kF32);
      ops::embedding(ctx, {ids, {}, tokens, {}, 1.0f, 0, 0, x});
      ops::layer_norm(ctx, {x, {}, norm, norm, 1e-5f, y});
      ops::linear(ctx, {&head, y, {}, Activation::kGelu, logits});
      const Tensor edits = ctx.make({0, 3}, DType::kI32), edited = ctx.make({0}, DType::kF32),
                   log_sums = ctx.make({rows}, DType::kF32),
                   values = ctx.make({rows, 1}, DType::kF32);
      ops::select(ctx, {logits, none.rows(0, rows), none, edits, 1, log_sums, edited,
                        best.reshape({rows, 1}), values});
    };
    const auto choose = [&] {
      std::vector<int32_t> chosen(static_cast<size_t>(rows));
      for (int32_t& id : chosen) id = static_cast<int32_t>(random.integer(0, vocabulary - 1));
      backend.copy_in(indices(chosen), ids);
    };
    backend.begin_step();
    step();  // whatever is made at a first call is there now
    backend.synchronize();
    backend.begin_step();
    ASSERT_TRUE(backend.record(1, step));
    for (int round = 0; round < 5; ++round) {
      choose();
      backend.replay(1);
      const Tensor replayed = ctx.on_host(best);
      backend.begin_step();
      step();
      const Tensor run = ctx.on_host(best);
      EXPECT_EQ(std::memcmp(replayed.raw(), run.raw(), run.bytes()), 0) << name_of(dtype);
    }
    backend.forget_recordings();
  }
}

}  // namespace
}  // namespace tandem
