#include "parallel/layers/table_adapters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

// [n, m] → [m, n], times `factor`.
Tensor transposed(const Tensor& t, float factor) {
  const Tensor out({t.dim(1), t.dim(0)}, DType::kF32);
  for (int64_t i = 0; i < t.dim(0); ++i)
    for (int64_t j = 0; j < t.dim(1); ++j) out.row<float>(j)[i] = factor * t.row<float>(i)[j];
  return out;
}

}  // namespace

TableAdapters::TableAdapters(const Build& b, std::string module, int64_t count, int64_t width,
                             float scale)
    : build_(b), module_(std::move(module)), count_(count), width_(width), scale_(scale) {
  TANDEM_CHECK(b.ctx.on_cpu(), "adapters are for CPUs");
}

void TableAdapters::load(uint64_t adapter, AdapterChanges& changes) {
  const ModuleChange* change = changes.find(module_);
  if (change == nullptr) return;
  Loaded made;
  made.replaces = change->weight.has_value();
  if (made.replaces) {
    if (build_.comm.rank() == 0)
      made.whole = matrix_part(*change->weight, {0, count_}, {0, width_});
  } else {
    const int64_t rank = change->a->shape[0];
    if (build_.comm.rank() == 0) {
      made.down = transposed(matrix_part(*change->a, {0, rank}, {0, count_}), 1.0f);
      made.up =
          transposed(matrix_part(*change->b, {0, width_}, {0, rank}), change->scaling * scale_);
    }
  }
  loaded_[adapter] = std::move(made);
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

void TableAdapters::apply(const ops::EmbeddingArgs& args) const {
  const AdapterRows& rows = build_.adapters->rows();
  if (rows.empty()) return;
  TANDEM_CHECK_EQ(args.out.dim(0), rows.size());
  const bool first = build_.comm.rank() == 0;
  const int32_t* ids = args.ids.data<int32_t>();
  for (const AdapterRows::Group& group : rows.groups()) {
    const auto it = loaded_.find(group.adapter);
    if (it == loaded_.end()) continue;
    const Loaded& loaded = it->second;
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
