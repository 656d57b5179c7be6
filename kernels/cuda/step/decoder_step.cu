// ops::decoder_step: which steps the kernel takes (step_kernel.cuh), and what it is given.
#include <algorithm>
#include <array>

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/step/step_memory.h"
#include "kernels/cuda/step/step_params.h"
#include "kernels/kv_pages.h"

namespace tandem::cuda {
namespace {

using step::Params;

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Rows that begin at multiples of 16 bytes.
bool aligned(const Tensor& t) {
  const auto stride = t.rank() == 2 ? static_cast<uintptr_t>(t.row_stride()) : 0;
  return (reinterpret_cast<uintptr_t>(t.raw()) | stride * size_of(t.dtype())) % 16 == 0;
}

std::array<const ops::StepProduct*, step::kProducts> products_of(const ops::DecoderLayerParts& l) {
  return {&l.qkv, &l.self_out, &l.cross_q, &l.cross_out, &l.first, &l.second};
}
std::array<const ops::StepNorm*, step::kNorms> norms_of(const ops::DecoderLayerParts& l) {
  return {&l.self_norm, &l.cross_norm, &l.final_norm};
}

// What is the same in all layers.
bool like(const ops::DecoderLayerParts& a, const ops::DecoderLayerParts& b) {
  for (int i = 0; i < step::kProducts; ++i) {
    const PackedWeight &x = products_of(a)[i]->weight, &y = products_of(b)[i]->weight;
    if (x.in_features() != y.in_features() || x.out_features() != y.out_features()) return false;
  }
  for (int i = 0; i < step::kNorms; ++i)
    if (norms_of(a)[i]->eps != norms_of(b)[i]->eps || norms_of(a)[i]->rms != norms_of(b)[i]->rms)
      return false;
  const Tensor &x = a.bias.values, &y = b.bias.values;
  return x.empty() == y.empty() && a.bias.zero == b.bias.zero &&
         (x.empty() || x.dim(1) == y.dim(1));
}

bool is_plain(const ops::StepProduct& product, DType type) {
  const PackedWeight& w = product.weight;
  return w.quantization() == Quantization::kNone && w.dtype() == type && w.data().contiguous() &&
         w.in_features() % (16 / static_cast<int64_t>(size_of(type))) == 0 && aligned(w.data());
}

bool is_plain(const ops::DecoderLayerParts& layer, const KvPages& pages, DType type) {
  for (const ops::StepProduct* product : products_of(layer))
    if (!is_plain(*product, type)) return false;
  for (const ops::StepNorm* norm : norms_of(layer))
    if (!aligned(norm->weight) || (!norm->rms && !aligned(norm->bias))) return false;
  return pages.data.dtype() == type && aligned(pages.data);
}

bool has_rows_alone(const ops::StepKeys& keys) {
  const ops::DeviceAttentionPlan& plan = *keys.plan;
  return (plan.tiles.empty() || plan.tiles.dim(0) == 0) && !plan.shared_keys;
}

// Bytes of a block's shared memory, and where things lie in it.
struct SharedPlan {
  int64_t state, area, ring, stages, bytes;
};

SharedPlan shared_plan(const ops::DecoderStepArgs& args, int64_t block_size, size_t limit) {
  constexpr int64_t kMostStages = 12;
  const ops::DecoderLayerParts& layer = args.layers[0];
  const int64_t rows = args.x.dim(0), d = args.x.dim(1),
                size = static_cast<int64_t>(size_of(args.x.dtype()));
  const int64_t width = int64_t{args.shape.num_heads} * args.shape.head_dim,
                inner = layer.second.weight.in_features();
  const int64_t queries = step::kernel_rows(static_cast<int>(rows));
  const int64_t of_warp = queries * step::kMostHead * 4 + (kKeysPerChunk / block_size + 2) * 4;
  SharedPlan out{};
  // (As if there were all stages.)
  out.state = round_up(step::kWarps * kMostStages * 8, 128);
  out.area = round_up(out.state + rows * d * size, 128);
  out.ring =
      round_up(out.area + std::max({rows * d * (4 + size), rows * width * size, rows * inner * size,
                                    step::kWarps * round_up(of_warp, 16)}),
               128);
  const int64_t left = static_cast<int64_t>(limit) - out.ring;
  out.stages = std::min(kMostStages, left / (step::kWarps * step::kStageBytes));
  out.bytes = out.ring + out.stages * step::kWarps * step::kStageBytes;
  return out;
}

int64_t block_size_of(const ops::DecoderStepArgs& args) {
  return kv_strides(args.pages[0]).block_size;
}

void add_layers(const ops::DecoderStepArgs& args, StepMemory& memory, Params& p) {
  std::vector<step::LayerPlaces> all(args.layers.size());
  for (size_t l = 0; l < all.size(); ++l) {
    const ops::DecoderLayerParts& layer = args.layers[l];
    step::LayerPlaces& to = all[l];
    for (int i = 0; i < step::kProducts; ++i) {
      const ops::StepProduct& product = *products_of(layer)[i];
      to.weights[i] = product.weight.data().raw();
      to.biases[i] = product.bias.empty() ? nullptr : product.bias.raw();
    }
    for (int i = 0; i < step::kNorms; ++i) {
      const ops::StepNorm& norm = *norms_of(layer)[i];
      to.norm_weights[i] = norm.weight.data<float>();
      to.norm_biases[i] = norm.rms ? nullptr : norm.bias.data<float>();
    }
    to.pages = args.pages[l].data.raw();
    to.position_bias = layer.bias.values.empty() ? nullptr : layer.bias.values.data<float>();
  }
  const ops::DecoderLayerParts& first = args.layers[0];
  for (int i = 0; i < step::kProducts; ++i) {
    const PackedWeight& w = products_of(first)[i]->weight;
    p.products[i] = {static_cast<int32_t>(w.out_features()), static_cast<int32_t>(w.in_features())};
  }
  if (p.gated) p.products[step::kFirst].units /= 2;
  for (int i = 0; i < step::kNorms; ++i) p.eps[i] = norms_of(first)[i]->eps;
  if (!first.bias.values.empty()) {
    p.bias_columns = static_cast<int32_t>(first.bias.values.dim(1));
    p.bias_zero = first.bias.zero;
  }
  p.layers = memory.places(all);
  p.num_layers = static_cast<int32_t>(all.size());
}

step::Keys keys_of(const ops::StepKeys& keys, float scale, int heads) {
  const ops::DeviceAttentionPlan& plan = *keys.plan;
  step::Keys out{};
  if (!plan.rows.empty()) {
    TANDEM_CHECK_EQ(reinterpret_cast<uintptr_t>(plan.rows.raw()) % 16, 0u);
    out.work = static_cast<const AttentionWork*>(plan.rows.raw());
    out.works = static_cast<int32_t>(plan.rows.dim(0));
  }
  out.page_indices = keys.page_indices.data<int32_t>();
  out.most_queries = std::max(1, plan.row_queries);
  out.partials = plan.partials;
  out.tickets = plan.tickets.empty() ? 0 : static_cast<int32_t>(plan.tickets.dim(0) / heads);
  out.scale_log2 = static_cast<float>(double{scale} * kLog2e);
  return out;
}

void add_pages(const ops::DecoderStepArgs& args, Params& p) {
  const KvStrides s = kv_strides(args.pages[0]);
  p.page_stride = s.block;
  p.value_offset = s.kv;
  p.head_stride = s.head;
  p.token_stride = s.token;
  p.block_size = static_cast<int32_t>(s.block_size);
  p.page = Divider::of(p.block_size);
  p.staged_pages = static_cast<int32_t>(round_up(kKeysPerChunk / s.block_size + 2, 4));
}

void add_shape(const ops::DecoderStepArgs& args, Params& p) {
  const ops::DecoderShape& shape = args.shape;
  p.rows = static_cast<int32_t>(args.x.dim(0));
  p.d = static_cast<int32_t>(args.x.dim(1));
  p.inner = static_cast<int32_t>(args.layers[0].second.weight.in_features());
  p.heads = shape.num_heads;
  p.head_dim = shape.head_dim;
  p.activation = shape.activation;
  p.gated = shape.gated;
  p.norms_behind = shape.norms_behind;
}

void add_rows(const ops::DecoderStepArgs& args, Params& p) {
  p.x = args.x.raw();
  p.x_stride = args.x.row_stride();
  if (!args.update.empty()) {
    p.update = args.update.raw();
    p.update_stride = args.update.row_stride();
  }
  p.out = args.out.raw();
  p.out_stride = args.out.row_stride();
  p.slots = args.slot_mapping.data<int32_t>();
  if (!args.last_norm) return;
  p.last_weight = args.last_norm->weight.data<float>();
  p.last_bias = args.last_norm->rms ? nullptr : args.last_norm->bias.data<float>();
  p.last_eps = args.last_norm->eps;
}

// What blocks leave for each other; kept until the launch.
struct Between {
  Tensor queries, attended, sums, hidden, parts;

  Between(Context& ctx, StepMemory& memory, Params& p) {
    const int64_t width = int64_t{p.heads} * p.head_dim;
    p.queries = (queries = ctx.make({p.rows, 3 * width})).raw();
    p.attended = (attended = ctx.make({p.rows, width})).raw();
    p.sums = (sums = ctx.make({p.rows, p.d})).raw();
    p.hidden = (hidden = ctx.make({p.rows, p.inner})).raw();
    int64_t slots = 1, tickets = 1;
    for (const step::Keys* keys : {&p.self, &p.cross}) {
      slots = std::max(slots, int64_t{keys->partials} + int64_t{keys->works} * keys->most_queries);
      tickets = std::max(tickets, int64_t{keys->tickets} + keys->works);
    }
    parts = ctx.make({slots, p.heads, step::kWarps, p.head_dim + 2}, DType::kF32);
    p.parts = parts.data<float>();
    p.tickets = memory.tickets(tickets * p.heads);
  }
};

}  // namespace

bool takes_decoder_step(const Context& ctx, const ops::DecoderStepArgs& args) {
  const auto& backend = static_cast<const CudaBackend&>(*ctx.backend_or_null());
  const int64_t rows = args.x.dim(0), d = args.x.dim(1);
  const DType type = ctx.activations();
  if (rows > backend.most_step_rows() || rows == 0 || backend.capability() < 80 ||
      backend.batch_invariant() || args.layers.empty())
    return false;
  const int64_t head_dim = args.shape.head_dim;
  if (d % 8 != 0 || head_dim > step::kMostHead ||
      head_dim * static_cast<int64_t>(size_of(type)) % 16 != 0)
    return false;
  if (!has_rows_alone(args.self) || !has_rows_alone(args.cross)) return false;
  if (!aligned(args.x) || (!args.update.empty() && !aligned(args.update))) return false;
  for (size_t i = 0; i < args.layers.size(); ++i)
    if (!is_plain(args.layers[i], args.pages[i], type) || !like(args.layers[i], args.layers[0]) ||
        args.pages[i].layout != args.pages[0].layout ||
        args.pages[i].data.shape() != args.pages[0].data.shape())
      return false;
  return shared_plan(args, block_size_of(args), backend.shared_limit()).stages >= 2;
}

void decoder_step(Context& ctx, const ops::DecoderStepArgs& args) {
  auto& backend = static_cast<CudaBackend&>(ctx.backend());
  TANDEM_CHECK(cuda::takes_decoder_step(ctx, args) && aligned(args.out), "a step of another kind");
  Params p{};
  add_shape(args, p);
  add_rows(args, p);
  add_layers(args, backend.step_memory(), p);
  add_pages(args, p);
  p.self = keys_of(args.self, args.shape.self_scale, p.heads);
  p.cross = keys_of(args.cross, args.shape.cross_scale, p.heads);
  const Between between(ctx, backend.step_memory(), p);
  p.barrier = backend.step_memory().barrier();
  const SharedPlan plan = shared_plan(args, p.block_size, backend.shared_limit());
  p.state = static_cast<int32_t>(plan.state);
  p.area = static_cast<int32_t>(plan.area);
  p.ring = static_cast<int32_t>(plan.ring);
  p.stages = static_cast<int32_t>(plan.stages);
  p.bulk = backend.capability() >= 90;
  const auto launch = ctx.activations() == DType::kF32   ? step::launch_f32
                      : ctx.activations() == DType::kF16 ? step::launch_f16
                                                         : step::launch_bf16;
  launch(p, backend.multiprocessors(), static_cast<int>(plan.bytes), stream_of(ctx));
  after_launch("decoder_step");
}

}  // namespace tandem::cuda
