#include "parallel/layers/table_adapters.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// [n, m] → [m, n].
Tensor transposed(const Tensor& t) {
  const Tensor out({t.dim(1), t.dim(0)}, DType::kF32);
  for (int64_t i = 0; i < t.dim(0); ++i)
    for (int64_t j = 0; j < t.dim(1); ++j) out.row<float>(j)[i] = t.row<float>(i)[j];
  return out;
}

}  // namespace

TableAdapters::TableAdapters(const Build& b, std::string module, int64_t count, int64_t width,
                             float scale)
    : build_(b), module_(std::move(module)), count_(count), width_(width), scale_(scale) {}

void TableAdapters::load(uint64_t adapter, AdapterChanges& changes) {
  const ModuleChange* change = changes.find(module_);
  if (change == nullptr) return;
  Loaded made;
  made.replaces = change->weight.has_value();
  if (made.replaces) {
    if (build_.comm.rank() == 0)
      made.whole = build_.ctx.resident(matrix_part(*change->weight, {0, count_}, {0, width_}));
  } else {
    const int64_t rank = change->a->shape[0];
    if (build_.comm.rank() == 0) {
      made.down = build_.ctx.resident(transposed(matrix_part(*change->a, {0, rank}, {0, count_})));
      const Tensor up = matrix_part(*change->b, {0, width_}, {0, rank});
      for (int64_t i = 0; i < up.size(); ++i) up.data<float>()[i] *= change->scaling * scale_;
      if (build_.ctx.on_cpu())
        made.up = transposed(up);
      else
        made.product_up = packed(up);
    }
  }
  loaded_[adapter] = std::move(made);
}

// In the type in which a device multiplies.
PackedWeight TableAdapters::packed(const Tensor& up) const {
  const MatrixView view{up.raw(), DType::kF32, up.dim(0), up.dim(1), up.dim(1)};
  return PackedWeight(build_.ctx, {&view, 1}, build_.ctx.activations());
}

bool TableAdapters::changes() const {
  if (build_.adapters->rows().empty()) return false;
  const auto& groups = build_.adapters->rows().groups();
  return std::ranges::any_of(groups, [&](const auto& g) { return loaded_.contains(g.adapter); });
}

void TableAdapters::add(const Loaded& loaded, int32_t id, float* out) const {
  const float* down = loaded.down.row<float>(id);
  for (int64_t j = 0; j < loaded.up.dim(0); ++j) {
    const float* up = loaded.up.row<float>(j);
    for (int64_t i = 0; i < width_; ++i) out[i] += down[j] * up[i];
  }
}

// As ops::embedding.
void TableAdapters::replace(const Loaded& loaded, const ops::EmbeddingArgs& args, int32_t row,
                            float* out) const {
  if (build_.comm.rank() != 0) {
    std::memset(out, 0, static_cast<size_t>(width_) * sizeof(float));
    return;
  }
  const float* from = loaded.whole.row<float>(args.ids.data<int32_t>()[row]);
  for (int64_t i = 0; i < width_; ++i) out[i] = from[i] * scale_;
  if (args.positions.empty()) return;
  const int64_t position = int64_t{args.position_ids.data<int32_t>()[row]} + args.position_offset;
  const Tensor added = args.positions.rows(position, position + 1);
  if (added.dtype() == DType::kF32)
    for (int64_t i = 0; i < width_; ++i) out[i] += added.row<float>(0)[i];
  else
    for (int64_t i = 0; i < width_; ++i) out[i] += bf16_to_float(added.row<uint16_t>(0)[i]);
}

// The group's own of ids or positions.
Tensor TableAdapters::listed(const Tensor& indices, const AdapterRows::Group& group) const {
  if (indices.empty()) return {};
  const AdapterRows& rows = build_.adapters->rows();
  if (indices.dtype() == DType::kF32) return rows_of_group(build_.ctx, indices, rows, group);
  // (Whole rows are gathered, of floats: the bits of a number are one.)
  const Tensor bits = indices.as(DType::kF32).reshape({indices.dim(0), 1});
  return rows_of_group(build_.ctx, bits, rows, group)
      .reshape({static_cast<int64_t>(group.rows.size())})
      .as(DType::kI32);
}

// As add() and replace(), for all rows of a group on a device.
void TableAdapters::apply_there(const Loaded& loaded, const ops::EmbeddingArgs& args,
                                const AdapterRows::Group& group) const {
  Context& ctx = build_.ctx;
  const AdapterRows& rows = build_.adapters->rows();
  const bool first = build_.comm.rank() == 0;
  if (!loaded.replaces && !first) return;
  const auto count = static_cast<int64_t>(group.rows.size());
  const Tensor out = ctx.make({count, width_});
  ops::EmbeddingArgs theirs = args;
  theirs.ids = listed(args.ids, group);
  if (loaded.replaces) {
    theirs.position_ids = listed(args.position_ids, group);
    // On the other ranks ids are outside of the table, which gives zeros.
    theirs.first_id = first ? 0 : std::numeric_limits<int32_t>::max();
    if (first) theirs.tokens = loaded.whole;
    if (!first) theirs.positions = Tensor();
    theirs.out = out;
    ops::embedding(ctx, theirs);
    return write_rows_of_group(ctx, out, args.out, rows, group);
  }
  const Tensor hidden = ctx.make({count, loaded.down.dim(1)});
  ops::embedding(ctx, {theirs.ids, {}, loaded.down, {}, 1.0f, 0, 0, hidden});
  ops::linear(ctx, {&loaded.product_up, hidden, {}, Activation::kNone, out});
  add_to_rows_of_group(ctx, out, args.out, rows, group);
}

void TableAdapters::apply(const ops::EmbeddingArgs& args) const {
  const AdapterRows& rows = build_.adapters->rows();
  if (rows.empty()) return;
  TANDEM_CHECK_EQ(args.out.dim(0), rows.size());
  const bool first = build_.comm.rank() == 0, there = !build_.ctx.on_cpu();
  const int32_t* ids = there ? nullptr : args.ids.data<int32_t>();
  for (const AdapterRows::Group& group : rows.groups()) {
    const auto it = loaded_.find(group.adapter);
    if (it == loaded_.end()) continue;
    const Loaded& loaded = it->second;
    if (there) {
      apply_there(loaded, args, group);
      continue;
    }
    for_rows_of(build_.ctx, group, [&](int64_t, int32_t row) {
      float* out = args.out.row<float>(row);
      if (loaded.replaces)
        replace(loaded, args, row, out);
      else if (first)
        add(loaded, ids[row], out);
    });
  }
}

}  // namespace tandem
