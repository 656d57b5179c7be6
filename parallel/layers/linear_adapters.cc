#include "parallel/layers/linear_adapters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "parallel/layers/element_types.h"

namespace tandem {
namespace {

constexpr int64_t kColumnsAtOnce = 64;  // of the base's weight, when its rows are measured

MatrixView view_of(const Tensor& t) { return {t.raw(), DType::kF32, t.dim(0), t.dim(1), t.dim(1)}; }

void scale_all(const Tensor& t, float factor) {
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] *= factor;
}

// What is added besides the product: B's bias, and a trained bias less the base's. Empty: nothing.
// scale: of the base's weight. old: the base's bias, or empty.
Tensor more_bias(const ModuleChange& change, Range rows, float scale, const Tensor& old) {
  Tensor out;
  if (change.b_bias) {
    out = vector_part(*change.b_bias, rows);
    scale_all(out, change.scaling * scale);
  }
  if (!change.bias) return out;
  const Tensor trained = vector_part(*change.bias, rows);
  for (int64_t n = 0; n < trained.size(); ++n) {
    if (!old.empty()) trained.data<float>()[n] -= old.data<float>()[n];
    if (!out.empty()) trained.data<float>()[n] += out.data<float>()[n];
  }
  return trained;
}

// Each row of `out`, which are the group's, becomes `row`.
void repeat(Context& ctx, const Tensor& row, const Tensor& out, const AdapterRows& rows,
            const AdapterRows::Group& group) {
  if (ctx.on_cpu()) {
    for (int64_t i = 0; i < out.dim(0); ++i) std::memcpy(out.row<float>(i), row.raw(), row.bytes());
    return;
  }
  ops::gather_rows(ctx, {row.reshape({1, row.size()}), rows.zeros(ctx, group), out});
}

// Row i of the matrix that is ones on the diagonal, from row `first` on.
Tensor identity_rows(int64_t first, int64_t count, int64_t columns) {
  Tensor out = Tensor::zeros({count, columns}, DType::kF32);
  for (int64_t i = 0; i < count; ++i) out.row<float>(i)[first + i] = 1.0f;
  return out;
}

}  // namespace

LinearAdapters::LinearAdapters(const Build& b, std::vector<AdaptedPart> parts, Base base)
    : build_(b), parts_(std::move(parts)), base_(std::move(base)) {}

DType LinearAdapters::results() const {
  return base_.f32_results ? DType::kF32 : build_.ctx.activations();
}

PackedWeight LinearAdapters::packed(std::span<const Tensor> stacked) const {
  std::vector<MatrixView> parts;
  for (const Tensor& t : stacked) parts.push_back(view_of(t));
  return PackedWeight(build_.ctx, parts, build_.ctx.activations());
}

std::vector<AdaptableModule> LinearAdapters::modules() const {
  std::vector<AdaptableModule> out;
  for (const AdaptedPart& part : parts_) out.push_back({part.module, part.out, part.in});
  return out;
}

int64_t LinearAdapters::first_column(size_t part) const {
  int64_t first = 0;
  for (size_t i = 0; i < part; ++i) first += parts_[i].rows.size();
  return first;
}

void LinearAdapters::load(uint64_t adapter, AdapterChanges& changes) {
  Loaded made;
  std::vector<Tensor> downs;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const ModuleChange* change = changes.find(parts_[i].module);
    if (change == nullptr) continue;
    Delta delta = change->weight ? replaced(parts_[i], first_column(i), *change)
                                 : low_rank(parts_[i], first_column(i), *change, downs);
    delta.part = i;
    made.parts.push_back(std::move(delta));
  }
  if (made.parts.empty()) return;
  if (!downs.empty() && downs[0].dim(1) > 0) made.down = packed(downs);
  loaded_[adapter] = std::move(made);
}

LinearAdapters::Delta LinearAdapters::low_rank(const AdaptedPart& part, int64_t first,
                                               const ModuleChange& change,
                                               std::vector<Tensor>& downs) const {
  const int64_t rank = change.a ? change.a->shape[0] : 0;
  Delta out;
  out.rank = rank;
  for (const Tensor& before : downs) out.hidden += before.dim(0);
  const Tensor down = rank > 0 ? matrix_part(*change.a, {0, rank}, part.columns)
                               : Tensor({0, part.columns.size()}, DType::kF32);
  const Tensor up = rank > 0 ? matrix_part(*change.b, part.rows, {0, rank})
                             : Tensor({part.rows.size(), 0}, DType::kF32);
  scale_all(up, change.scaling * base_.scale);
  if (adds_bias())
    out.up_bias = more_bias(change, part.rows, base_.scale, bias_of(first, part.rows.size()));
  if (change.magnitude) {
    out.gain = gains(part, first, *change.magnitude, down, up);
    for (int64_t n = 0; n < up.dim(0); ++n)
      for (int64_t j = 0; j < rank; ++j) up.row<float>(n)[j] *= 1.0f + out.gain.data<float>()[n];
  }
  if (results() != build_.ctx.activations()) return merged(part, first, std::move(out), down, up);
  if (rank > 0) downs.push_back(down);
  if (up.dim(0) == 0) return out;
  if (rank > 0) out.up = packed({&up, 1});
  if (!build_.ctx.on_cpu()) keep_there(first, out);
  return out;
}

// What the gain and the bias of a delta become on a device, which multiplies the base's bias too.
void LinearAdapters::keep_there(int64_t first, Delta& delta) const {
  Context& ctx = build_.ctx;
  if (!delta.gain.empty()) {
    const int64_t rows = delta.gain.dim(0);
    const Tensor bias = bias_of(first, rows);
    if (!bias.empty() && delta.up_bias.empty()) delta.up_bias = Tensor::zeros({rows}, DType::kF32);
    for (int64_t n = 0; !bias.empty() && n < rows; ++n)
      delta.up_bias.data<float>()[n] -= delta.gain.data<float>()[n] * bias.data<float>()[n];
    delta.gain = ctx.resident_bias(delta.gain.reshape({1, rows}), ctx.activations());
  }
  delta.up_bias = ctx.resident_bias(delta.up_bias, results());
}

// The whole weight instead of what is added to it: no op of a device adds to results in f32 where
// activations have 16 bits.
LinearAdapters::Delta LinearAdapters::merged(const AdaptedPart& part, int64_t first, Delta delta,
                                             const Tensor& down, const Tensor& up) const {
  const int64_t rows = part.rows.size(), columns = part.columns.size(), rank = down.dim(0);
  Delta out;
  if (rows == 0 || columns == 0) return out;
  const Tensor weight({rows, columns}, DType::kF32);
  for (int64_t begin = 0; begin < columns; begin += kColumnsAtOnce) {
    const int64_t end = std::min(columns, begin + kColumnsAtOnce);
    const Tensor base = base_columns({begin, end}, columns);
    for (int64_t k = begin; k < end; ++k)
      for (int64_t n = 0; n < rows; ++n) {
        float w = base.row<float>(k - begin)[first + n];
        if (!delta.gain.empty()) w *= 1.0f + delta.gain.data<float>()[n];
        for (int64_t j = 0; j < rank; ++j) w += up.row<float>(n)[j] * down.row<float>(j)[k];
        weight.row<float>(n)[k] = w;
      }
  }
  const MatrixView view = view_of(weight);
  out.whole =
      PackedWeight(build_.ctx, {&view, 1}, base_.weight.dtype(), base_.weight.quantization());
  Tensor bias = bias_of(first, rows);
  if (bias.empty())
    bias = delta.up_bias;
  else
    for (int64_t n = 0; !delta.up_bias.empty() && n < rows; ++n)
      bias.data<float>()[n] += delta.up_bias.data<float>()[n];
  out.whole_bias = build_.ctx.resident_bias(bias, results());
  return out;
}

// Columns of the base's weight as it is served, which has `of`: what it makes of unit vectors, on
// the host. [columns, features of the base]
Tensor LinearAdapters::base_columns(Range columns, int64_t of) const {
  Context& ctx = build_.ctx;
  const Tensor units =
      ctx.resident_bias(identity_rows(columns.begin, columns.size(), of), ctx.activations());
  const Tensor out = ctx.make({columns.size(), base_.weight.out_features()}, DType::kF32);
  ops::linear(ctx, {&base_.weight, units, {}, Activation::kNone, out});
  return ctx.on_host(out);
}

// Of the base, on the host and in memory of its own; empty if it has none here.
Tensor LinearAdapters::bias_of(int64_t first, int64_t rows) const {
  if (base_.bias.empty()) return {};
  const Tensor there = build_.ctx.on_host(base_.bias.rows(first, first + rows));
  const Tensor floats = to_float(there), out({rows}, DType::kF32);
  std::memcpy(out.raw(), floats.raw(), out.bytes());
  return out;
}

// W' = m W1 / |W1| by rows, with W1 = W + scaling B A. W as it is served: what the base makes of
// unit vectors. Of W' x = (1 + gain) W1 x that is the gain.
Tensor LinearAdapters::gains(const AdaptedPart& part, int64_t first, const HostTensor& magnitude,
                             const Tensor& down, const Tensor& up) const {
  const int64_t rows = part.rows.size(), columns = part.columns.size(), rank = down.dim(0);
  const Tensor squares = Tensor::zeros({1, rows}, DType::kF32);
  std::vector<double> sums(static_cast<size_t>(rows));
  for (int64_t begin = 0; begin < columns && rows > 0; begin += kColumnsAtOnce) {
    const int64_t count = std::min(kColumnsAtOnce, columns - begin);
    const Tensor weight = base_columns({begin, begin + count}, columns);
    for (int64_t k = 0; k < count; ++k)
      for (int64_t n = 0; n < rows; ++n) {
        float w = weight.row<float>(k)[first + n];
        for (int64_t j = 0; j < rank; ++j) w += up.row<float>(n)[j] * down.row<float>(j)[begin + k];
        sums[static_cast<size_t>(n)] += static_cast<double>(w) * w;
      }
  }
  for (int64_t n = 0; n < rows; ++n)
    squares.data<float>()[n] = static_cast<float>(sums[static_cast<size_t>(n)]);
  if (base_.sums_over_ranks && build_.comm.size() > 1) build_.comm.all_reduce(squares);
  const Tensor out = vector_part(magnitude, part.rows);
  for (int64_t n = 0; n < rows; ++n)
    out.data<float>()[n] =
        out.data<float>()[n] * base_.scale / std::sqrt(squares.data<float>()[n]) - 1.0f;
  return out;
}

LinearAdapters::Delta LinearAdapters::replaced(const AdaptedPart& part, int64_t first,
                                               const ModuleChange& change) const {
  Delta out;
  if (part.rows.size() == 0 || part.columns.size() == 0) return out;
  const Tensor weight = matrix_part(*change.weight, part.rows, part.columns);
  scale_all(weight, base_.scale);
  const MatrixView view = view_of(weight);
  out.whole =
      PackedWeight(build_.ctx, {&view, 1}, base_.weight.dtype(), base_.weight.quantization());
  if (!adds_bias()) return out;
  if (change.bias)
    out.whole_bias = build_.ctx.resident_bias(vector_part(*change.bias, part.rows), results());
  else if (!base_.bias.empty())
    out.whole_bias = base_.bias.rows(first, first + part.rows.size());
  return out;
}

bool LinearAdapters::changes() const {
  if (build_.adapters->rows().empty()) return false;
  const auto& groups = build_.adapters->rows().groups();
  return std::ranges::any_of(groups, [&](const auto& g) { return loaded_.contains(g.adapter); });
}

void LinearAdapters::apply(const Tensor& x, const Tensor& y) const {
  const AdapterRows& rows = build_.adapters->rows();
  if (rows.empty() || x.dim(1) == 0) return;
  TANDEM_CHECK_EQ(x.dim(0), rows.size());
  for (const AdapterRows::Group& group : rows.groups()) {
    const auto it = loaded_.find(group.adapter);
    if (it == loaded_.end()) continue;
    const Tensor theirs = rows_of_group(build_.ctx, x, rows, group);
    Tensor hidden;
    if (const PackedWeight& down = it->second.down; down.out_features() > 0) {
      hidden = build_.ctx.make({theirs.dim(0), down.out_features()});
      ops::linear(build_.ctx, {&down, theirs, {}, Activation::kNone, hidden});
    }
    for (const Delta& delta : it->second.parts) {
      const int64_t first = first_column(delta.part);
      const Tensor out = y.columns(first, first + parts_[delta.part].rows.size());
      if (out.dim(1) == 0) continue;
      if (delta.whole.out_features() > 0)
        replace(delta, theirs, out, group);
      else
        add(delta,
            delta.rank > 0 ? hidden.columns(delta.hidden, delta.hidden + delta.rank) : Tensor(),
            out, group);
    }
  }
}

void LinearAdapters::add(const Delta& delta, const Tensor& hidden, const Tensor& y,
                         const AdapterRows::Group& group) const {
  const int64_t columns = y.dim(1);
  if (hidden.empty() && delta.up_bias.empty()) return;
  const Tensor sum = build_.ctx.make({static_cast<int64_t>(group.rows.size()), columns});
  if (hidden.empty())
    repeat(build_.ctx, delta.up_bias, sum, build_.adapters->rows(), group);
  else
    ops::linear(build_.ctx, {&delta.up, hidden, delta.up_bias, Activation::kNone, sum});
  if (!build_.ctx.on_cpu()) return add_there(delta, sum, y, group);
  const float* gain = delta.gain.empty() ? nullptr : delta.gain.data<float>();
  const float* bias = base_.bias.empty() || gain == nullptr
                          ? nullptr
                          : base_.bias.data<float>() + first_column(delta.part);
  for_rows_of(build_.ctx, group, [&](int64_t i, int32_t row) {
    float* out = y.row<float>(row);
    const float* more = sum.row<float>(i);
    if (gain != nullptr)
      for (int64_t n = 0; n < columns; ++n)
        out[n] += gain[n] * (out[n] - (bias == nullptr ? 0.0f : bias[n]));
    for (int64_t n = 0; n < columns; ++n) out[n] += more[n];
  });
}

void LinearAdapters::add_there(const Delta& delta, const Tensor& sum, const Tensor& y,
                               const AdapterRows::Group& group) const {
  Context& ctx = build_.ctx;
  const AdapterRows& rows = build_.adapters->rows();
  if (!delta.gain.empty()) {
    const Tensor theirs = rows_of_group(ctx, y, rows, group);
    const Tensor more = ctx.make({sum.dim(0), sum.dim(1)});
    repeat(ctx, delta.gain, more, rows, group);
    ops::gated_activation(ctx, {more, theirs, Activation::kNone, more});
    ops::add_rows(ctx, {sum, more, sum});
  }
  add_to_rows_of_group(ctx, sum, y, rows, group);
}

void LinearAdapters::replace(const Delta& delta, const Tensor& x, const Tensor& y,
                             const AdapterRows::Group& group) const {
  const Tensor made = build_.ctx.make({x.dim(0), y.dim(1)}, y.dtype());
  ops::linear(build_.ctx, {&delta.whole, x, delta.whole_bias, Activation::kNone, made});
  if (!build_.ctx.on_cpu())
    return write_rows_of_group(build_.ctx, made, y, build_.adapters->rows(), group);
  for_rows_of(build_.ctx, group, [&](int64_t i, int32_t row) {
    std::memcpy(y.row<float>(row), made.row<float>(i),
                static_cast<size_t>(y.dim(1)) * sizeof(float));
  });
}

std::shared_ptr<LinearAdapters> adapt_linear(const Build& b, std::vector<AdaptedPart> parts,
                                             const LinearAdapters::Base& base) {
  if (b.adapters == nullptr) return nullptr;
  auto site = std::make_shared<LinearAdapters>(b, std::move(parts), base);
  b.adapters->add(site);
  return site;
}

}  // namespace tandem
