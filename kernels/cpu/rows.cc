// The CPU's ops on rows: embeddings, normalisation, gates, rows by index, soft caps.
#include <cstring>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

void load_row(const Tensor& table, int64_t row, float* out) {
  const int64_t size = table.dim(1);
  if (table.dtype() == DType::kF32) {
    std::memcpy(out, table.row<float>(row), static_cast<size_t>(size) * sizeof(float));
    return;
  }
  const uint16_t* from = table.row<uint16_t>(row);
  for (int64_t i = 0; i < size; ++i) out[i] = bf16_to_float(from[i]);
}

void add_row(const Tensor& table, int64_t row, float* out) {
  const int64_t size = table.dim(1);
  if (table.dtype() == DType::kF32) {
    const float* from = table.row<float>(row);
    for (int64_t i = 0; i < size; ++i) out[i] += from[i];
    return;
  }
  const uint16_t* from = table.row<uint16_t>(row);
  for (int64_t i = 0; i < size; ++i) out[i] += bf16_to_float(from[i]);
}

// -1: none that a table has.
int64_t id_at(const Tensor& ids, int64_t t) {
  if (ids.dtype() == DType::kI32) return ids.data<int32_t>()[t];
  const float id = ids.row<float>(t)[0];
  return id >= 0.0f && id < 0x1p31f ? static_cast<int64_t>(id) : -1;
}

}  // namespace

void embedding(Context& ctx, const ops::EmbeddingArgs& args) {
  const int64_t size = args.tokens.dim(1);
  const IsaKernels& isa = isa_kernels();
  for_rows(ctx, args.ids.dim(0), size * 12, [&](int64_t t) {
    float* out = args.out.row<float>(t);
    const int64_t id = id_at(args.ids, t) - args.first_id;
    if (id >= 0 && id < args.tokens.dim(0)) {
      load_row(args.tokens, id, out);
      if (args.scale != 1.0f)
        for (int64_t i = 0; i < size; ++i) out[i] *= args.scale;
    } else {
      std::memset(out, 0, static_cast<size_t>(size) * sizeof(float));
    }
    if (!args.positions.empty())
      add_row(args.positions, int64_t{args.position_ids.data<int32_t>()[t]} + args.position_offset,
              out);
    if (!args.norm_weight.empty())
      isa.layer_norm_row({out, nullptr, args.norm_weight.data<float>(),
                          args.norm_bias.data<float>(), size, args.norm_eps, out, false, nullptr});
  });
}

void norm_row(const ops::LayerNormArgs& args, int64_t row) {
  const IsaKernels& isa = isa_kernels();
  const int64_t size = args.x.dim(1) / args.groups;
  const float* bias = args.rms ? nullptr : args.bias.data<float>();
  const float* x = args.x.row<float>(row);
  const float* residual = args.residual.empty() ? nullptr : args.residual.row<float>(row);
  float* sum = args.sum.empty() ? nullptr : args.sum.row<float>(row);
  float* out = args.out.row<float>(row);
  for (int64_t i = 0; i < args.x.dim(1); i += size) {
    isa.layer_norm_row({x + i, residual == nullptr ? nullptr : residual + i,
                        args.weight.data<float>(), bias, size, args.eps, out + i, args.rms,
                        sum == nullptr ? nullptr : sum + i});
  }
}

void layer_norm(Context& ctx, const ops::LayerNormArgs& args) {
  for_rows(ctx, args.x.dim(0), args.x.dim(1) * 12, [&](int64_t t) { norm_row(args, t); });
}

void gated_activation(Context& ctx, const ops::GatedActivationArgs& args) {
  const IsaKernels& isa = isa_kernels();
  const int64_t size = args.gate.dim(1);
  for_rows(ctx, args.gate.dim(0), size * 12, [&](int64_t t) {
    const float* gate = args.gate.row<float>(t);
    const float* up = args.up.row<float>(t);
    float* out = args.out.row<float>(t);
    if (out != gate) std::memcpy(out, gate, static_cast<size_t>(size) * sizeof(float));
    isa.activate(args.activation, out, size);
    isa.multiply(out, up, size);
  });
}

void add_rows(Context& ctx, const ops::AddRowsArgs& args) {
  const int64_t size = args.x.dim(1);
  for_rows(ctx, args.x.dim(0), size * 12, [&](int64_t t) {
    const float *x = args.x.row<float>(t), *y = args.y.row<float>(t);
    float* out = args.out.row<float>(t);
    for (int64_t i = 0; i < size; ++i) out[i] = x[i] + y[i];
  });
}

void gather_rows(Context& ctx, const ops::GatherRowsArgs& args) {
  const int32_t* rows = args.rows.data<int32_t>();
  const size_t bytes = static_cast<size_t>(args.x.dim(1)) * sizeof(float);
  for_rows(ctx, args.rows.dim(0), static_cast<int64_t>(bytes) * 2, [&](int64_t i) {
    std::memcpy(args.out.row<float>(i), args.x.row<float>(rows[i]), bytes);
  });
}

void scatter_rows(Context& ctx, const ops::ScatterRowsArgs& args) {
  const int32_t* rows = args.rows.data<int32_t>();
  const size_t bytes = static_cast<size_t>(args.x.dim(1)) * sizeof(float);
  for_rows(ctx, args.rows.dim(0), static_cast<int64_t>(bytes) * 2, [&](int64_t i) {
    std::memcpy(args.out.row<float>(rows[i]), args.x.row<float>(i), bytes);
  });
}

void combine_rows(Context& ctx, const ops::CombineRowsArgs& args) {
  const int64_t size = args.out.dim(1), each = args.places.dim(1);
  for_rows(ctx, args.out.dim(0), size * 8 * each, [&](int64_t t) {
    const int32_t* places = args.places.row<int32_t>(t);
    const float* factors = args.factors.row<float>(t);
    float* out = args.out.row<float>(t);
    std::fill_n(out, size, 0.0f);
    for (int64_t i = 0; i < each; ++i) {
      if (places[i] < 0) continue;
      const float* x = args.x.row<float>(places[i]);
      for (int64_t d = 0; d < size; ++d) out[d] += factors[i] * x[d];
    }
  });
}

void sum_ranges(Context& ctx, const ops::SumRangesArgs& args) {
  const int64_t size = args.x.dim(1), rows = args.x.dim(0);
  const int64_t row_bytes = size * static_cast<int64_t>(sizeof(float));
  for_rows(ctx, args.ranges.dim(0), row_bytes * (1 + rows / args.ranges.dim(0)), [&](int64_t i) {
    const int32_t* range = args.ranges.row<int32_t>(i);
    float* out = args.out.row<float>(i);
    std::memcpy(out, args.x.row<float>(range[0]), static_cast<size_t>(row_bytes));
    for (int64_t row = range[0] + 1; row < range[1]; ++row) {
      const float* x = args.x.row<float>(row);
      for (int64_t d = 0; d < size; ++d) out[d] += x[d];
    }
  });
}

// In pieces of rows: those of logits are long, and in decoding few.
void soft_cap(Context& ctx, const ops::SoftCapArgs& args) {
  constexpr int64_t kPiece = kTaskBytes / static_cast<int64_t>(sizeof(float));
  const IsaKernels& isa = isa_kernels();
  const int64_t pieces = ceil_div(args.x.dim(1), kPiece);
  auto job = [&](int64_t task, int) {
    const int64_t begin = task % pieces * kPiece;
    isa.soft_cap(args.cap, args.x.row<float>(task / pieces) + begin,
                 std::min(kPiece, args.x.dim(1) - begin));
  };
  run_tasks(ctx, args.x.dim(0) * pieces, job);
}

}  // namespace tandem::cpu
