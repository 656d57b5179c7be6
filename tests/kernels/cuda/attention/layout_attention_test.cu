// The ops of kernels/layouts/layout_ops.h on the device: the reference's, of every type.
#include "base/error.h"
#include "kernels/layouts/reference_layouts.h"
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/kernels/layouts/random_layouts.h"

namespace tandem {
namespace {

using testing::close_to;
using testing::Random;
using testing::RandomLayouts;
using testing::to_device;

std::span<float> values_of(const Tensor& t) {
  return {t.data<float>(), static_cast<size_t>(t.size())};
}

// A tensor of f32 without gaps, rounded to the type in place; returns it on the device.
Tensor sent(Context& ctx, const Tensor& host, DType type) {
  if (host.rank() == 0) return host;
  std::vector<std::byte> bytes = testing::to_type(values_of(host), type);
  std::ranges::copy(testing::from_type(bytes, type), host.data<float>());
  return to_device(ctx, Tensor::borrow(bytes.data(), host.shape(), type));
}
// As it is: masks, biases.
Tensor sent(Context& ctx, const Tensor& host) {
  if (host.rank() == 0) return host;
  if (host.contiguous()) return to_device(ctx, host);
  const Tensor whole(host.shape(), host.dtype());
  for (int64_t i = 0; i < host.dim(0); ++i)
    std::copy_n(host.row<float>(i), host.dim(1), whole.row<float>(i));
  return to_device(ctx, whole);
}

ScoreRules sent(Context& ctx, const ScoreRules& host) {
  ScoreRules there = host;
  there.custom_mask = sent(ctx, host.custom_mask);
  there.packed_custom_mask = sent(ctx, host.packed_custom_mask);
  there.bias = sent(ctx, host.bias);
  return there;
}
PagedKvCache sent(Context& ctx, const PagedKvCache& host, DType type) {
  return {sent(ctx, host.kv_cache, type), sent(ctx, host.k_cache, type),
          sent(ctx, host.v_cache, type), host.layout};
}
MlaCache sent(Context& ctx, const MlaCache& host, DType type) {
  return {sent(ctx, host.mla_cache, type), sent(ctx, host.ckv_cache, type),
          sent(ctx, host.kpe_cache, type)};
}

// As f32, all work on it done.
Tensor fetched(Context& ctx, const Tensor& there) {
  const Tensor here = ctx.on_host(there);
  const Tensor out(there.shape(), DType::kF32);
  std::ranges::copy(
      testing::from_type({static_cast<const std::byte*>(here.raw()), here.bytes()}, here.dtype()),
      out.data<float>());
  return out;
}

// Runs `args` (of the host) by the reference, and `there` by the op.
template <class Args>
void expect_the_reference(Context& ctx, Args& args, Args there, void (*op)(Context&, const Args&),
                          void (*reference)(const Args&), const char* name) {
  const DType type = ctx.activations();
  reference(args);
  there.out = ctx.backend().allocate(args.out.shape(), type);
  there.lse = ctx.backend().allocate(args.lse.shape(), DType::kF32);
  op(ctx, there);
  const double allowed = 1e-5 + 2 * testing::half_ulp(type);
  EXPECT_TRUE(close_to(fetched(ctx, there.out), args.out, allowed)) << name << name_of(type);
  EXPECT_TRUE(close_to(fetched(ctx, there.lse), args.lse, 1e-5)) << name << name_of(type);
}

TEST(CudaLayouts, AttentionMatchesTheReference) {
  Random random;
  for (const DType type : testing::kActivations)
    for (int round = 0; round < 10; ++round) {
      Context ctx = testing::cuda_context(type);
      RandomLayouts layouts(random, DType::kF32);
      ops::AttendRaggedArgs ragged = layouts.ragged(), ragged_there = ragged;
      ragged_there.q = sent(ctx, ragged.q, type);
      ragged_there.k = sent(ctx, ragged.k, type);
      ragged_there.v = sent(ctx, ragged.v, type);
      ragged_there.scores = sent(ctx, ragged.scores);
      expect_the_reference(ctx, ragged, ragged_there, ops::attend_ragged, reference::attend_ragged,
                           "ragged ");
      ops::AttendPagesArgs pages = layouts.pages(), pages_there = pages;
      pages_there.q = sent(ctx, pages.q, type);
      pages_there.cache = sent(ctx, pages.cache, type);
      pages_there.scores = sent(ctx, pages.scores);
      expect_the_reference(ctx, pages, pages_there, ops::attend_pages, reference::attend_pages,
                           "pages ");
      ops::AttendLatentArgs latent = layouts.latent(), latent_there = latent;
      latent_there.q_nope = sent(ctx, latent.q_nope, type);
      latent_there.q_pe = sent(ctx, latent.q_pe, type);
      latent_there.cache = sent(ctx, latent.cache, type);
      latent_there.scores = sent(ctx, latent.scores);
      expect_the_reference(ctx, latent, latent_there, ops::attend_latent, reference::attend_latent,
                           "latent ");
      ops::MergeStatesArgs states = layouts.states(), states_there = states;
      states_there.v = sent(ctx, states.v, type);
      states_there.s = sent(ctx, states.s);
      expect_the_reference(ctx, states, states_there, ops::merge_states, reference::merge_states,
                           "states ");
    }
}

// The states of levels are rounded to the type before they are merged.
TEST(CudaLayouts, CascadesMatchTheReference) {
  Random random;
  for (const DType type : testing::kActivations)
    for (int round = 0; round < 6; ++round) {
      Context ctx = testing::cuda_context(type);
      RandomLayouts layouts(random, DType::kF32);
      std::vector<ops::CascadeLevel> levels;
      const ops::AttendCascadeArgs args = layouts.cascade(levels);
      ops::AttendCascadeArgs there = args;
      there.q = sent(ctx, args.q, type);
      there.cache = sent(ctx, args.cache, type);
      reference::attend_cascade(args);
      there.out = ctx.backend().allocate(args.out.shape(), type);
      there.lse = ctx.backend().allocate(args.lse.shape(), DType::kF32);
      ops::attend_cascade(ctx, there);
      // (The values' size is about 3, and so may be that of a state's error.)
      const double allowed = 1e-5 + 8 * testing::half_ulp(type);
      EXPECT_TRUE(close_to(fetched(ctx, there.out), args.out, allowed)) << name_of(type);
      EXPECT_TRUE(close_to(fetched(ctx, there.lse), args.lse, 1e-5)) << name_of(type);
    }
}

TEST(CudaLayouts, AppendedRowsLieWhereTheReferencePutsThem) {
  Random random;
  for (const DType type : testing::kActivations)
    for (int round = 0; round < 8; ++round) {
      Context ctx = testing::cuda_context(type);
      RandomLayouts layouts(random, DType::kF32);
      const ops::AppendPagesArgs args = layouts.append();
      ops::AppendPagesArgs there = args;
      there.append_key = sent(ctx, args.append_key, type);
      there.append_value = sent(ctx, args.append_value, type);
      there.cache = sent(ctx, args.cache, type);
      reference::append_pages(args);
      ops::append_pages(ctx, there);
      const ops::AppendLatentArgs latent = layouts.append_latent();
      ops::AppendLatentArgs latent_there = latent;
      latent_there.append_ckv = sent(ctx, latent.append_ckv, type);
      latent_there.append_kpe = sent(ctx, latent.append_kpe, type);
      latent_there.cache = sent(ctx, latent.cache, type);
      reference::append_latent(latent);
      ops::append_latent(ctx, latent_there);
      const std::pair<Tensor, Tensor> caches[] = {
          {there.cache.kv_cache, args.cache.kv_cache},
          {there.cache.k_cache, args.cache.k_cache},
          {there.cache.v_cache, args.cache.v_cache},
          {latent_there.cache.mla_cache, latent.cache.mla_cache},
          {latent_there.cache.ckv_cache, latent.cache.ckv_cache},
          {latent_there.cache.kpe_cache, latent.cache.kpe_cache}};
      for (const auto& [got, want] : caches)
        if (want.rank() > 0) {
          EXPECT_TRUE(close_to(fetched(ctx, got), want, 0)) << name_of(type);
        }
    }
}

TEST(CudaLayouts, BitsArePackedAsByTheReference) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF32);
  for (int round = 0; round < 12; ++round) {
    std::vector<int32_t> lengths;
    for (int64_t i = random.integer(1, 5); i > 0; --i)
      lengths.push_back(random.pick({0, 1, 7, 8, 9, 2000}));
    ops::PackBitsArgs args;
    args.indptr = testing::indices(testing::indptr_of(lengths));
    args.x = Tensor({args.indptr.data<int32_t>()[lengths.size()]}, DType::kU8);
    for (int64_t i = 0; i < args.x.size(); ++i)
      args.x.data<uint8_t>()[i] = random.pick<uint8_t>({0, 1, 2, 128});
    const Tensor starts = packed_indptr_of(args.indptr);
    const int64_t bytes = starts.data<int32_t>()[lengths.size()];
    args.packed = Tensor::zeros({bytes}, DType::kU8);
    reference::pack_bits(args);
    if (bytes == 0) continue;
    ops::PackBitsArgs there = args;
    there.x = to_device(ctx, args.x);
    there.packed = to_device(ctx, Tensor::zeros({bytes}, DType::kU8));
    ops::pack_bits(ctx, there);
    const Tensor got = ctx.on_host(there.packed);
    EXPECT_EQ(std::memcmp(got.raw(), args.packed.raw(), static_cast<size_t>(bytes)), 0);
  }
}

// Arguments on the wrong side are refused, and so are types that the device does not have.
TEST(CudaLayouts, WhatLiesElsewhereIsRefused) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF16);
  ops::AttendRaggedArgs args;
  args.q = args.k = args.v = Tensor::zeros({2, 1, 8}, DType::kF16);
  args.qo_indptr = args.kv_indptr = testing::indices({0, 2});
  args.out = Tensor::zeros({2, 1, 8}, DType::kF16);
  const auto refused = [&] {
    try {
      ops::attend_ragged(ctx, args);
    } catch (const InputError& error) {
      return error.param();
    }
    return std::string();
  };
  EXPECT_EQ(refused(), "q");
  args.q = to_device(ctx, args.q);
  EXPECT_EQ(refused(), "k");
  args.k = args.v = args.out = args.q;
  args.qo_indptr = to_device(ctx, args.qo_indptr);
  EXPECT_EQ(refused(), "qo_indptr");
  args.qo_indptr = args.kv_indptr;
  args.v = to_device(ctx, Tensor::zeros({2, 1, 8}, DType::kF32));
  EXPECT_EQ(refused(), "v");
}

}  // namespace
}  // namespace tandem
