#include "parallel/layers/adapters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/ops.h"

namespace tandem {

AdapterRows::AdapterRows(std::vector<uint64_t> of_row) : of_row_(std::move(of_row)) {
  std::map<uint64_t, std::vector<int32_t>> rows;
  for (size_t i = 0; i < of_row_.size(); ++i)
    if (of_row_[i] != 0) rows[of_row_[i]].push_back(static_cast<int32_t>(i));
  int64_t first = 0;
  for (auto& [adapter, list] : rows) {
    const auto count = static_cast<int64_t>(list.size());
    groups_.push_back({adapter, std::move(list), first});
    first += count;
  }
}

AdapterRows AdapterRows::part(int64_t begin, int64_t end) const {
  if (empty()) return {};
  return AdapterRows({of_row_.begin() + begin, of_row_.begin() + end});
}

AdapterRows AdapterRows::chosen(std::span<const int32_t> rows) const {
  if (empty()) return {};
  std::vector<uint64_t> out;
  out.reserve(rows.size());
  for (const int32_t row : rows) out.push_back(of_row(row));
  return AdapterRows(std::move(out));
}

void AdapterRows::send(Context& ctx) const {
  if (!sent_.empty()) return;
  std::vector<int32_t> all;
  size_t most = 0;
  for (const Group& group : groups_) {
    all.insert(all.end(), group.rows.begin(), group.rows.end());
    most = std::max(most, group.rows.size());
  }
  all.resize(all.size() + most, 0);
  sent_ = ctx.make({static_cast<int64_t>(all.size())}, DType::kI32);
  ctx.backend().copy_in(Tensor::borrow(all), sent_);
}

Tensor AdapterRows::indices(Context& ctx, const Group& group) const {
  send(ctx);
  return sent_.rows(group.first, group.first + static_cast<int64_t>(group.rows.size()));
}

Tensor AdapterRows::zeros(Context& ctx, const Group& group) const {
  send(ctx);
  return sent_.rows(sent_.dim(0) - static_cast<int64_t>(group.rows.size()), sent_.dim(0));
}

std::vector<AdaptableModule> AdapterSet::modules() const {
  std::vector<AdaptableModule> out;
  for (const auto& weak : sites_)
    if (const auto site = weak.lock())
      for (AdaptableModule& module : site->modules()) out.push_back(std::move(module));
  return out;
}

void AdapterSet::load(uint64_t adapter, AdapterChanges& changes) {
  for (const auto& weak : sites_)
    if (const auto site = weak.lock()) site->load(adapter, changes);
}

void AdapterSet::drop(uint64_t adapter) {
  for (const auto& weak : sites_)
    if (const auto site = weak.lock()) site->drop(adapter);
}

AdapterSet::Scope::Scope(AdapterSet* set, AdapterRows rows) : set_(set), own_(std::move(rows)) {
  if (set_ != nullptr) before_ = std::exchange(set_->rows_, &own_);
}

AdapterSet::Scope::~Scope() {
  if (set_ != nullptr) set_->rows_ = before_;
}

Tensor matrix_part(const HostTensor& t, Range rows, Range columns) {
  TANDEM_CHECK_EQ(t.shape.size(), size_t{2});
  const Tensor out({rows.size(), columns.size()}, DType::kF32);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const Tensor row = to_float(t, (rows.begin + i) * t.shape[1] + columns.begin, columns.size());
    std::memcpy(out.row<float>(i), row.raw(), row.bytes());
  }
  return out;
}

Tensor vector_part(const HostTensor& t, Range part) { return to_float(t, part.begin, part.size()); }

Tensor rows_of_group(Context& ctx, const Tensor& x, const AdapterRows& rows,
                     const AdapterRows::Group& group) {
  const auto count = static_cast<int64_t>(group.rows.size());
  if (group.adjacent()) return x.rows(group.rows.front(), group.rows.front() + count);
  const Tensor out = ctx.make({count, x.dim(1)}, x.dtype());
  if (!ctx.on_cpu()) {
    ops::gather_rows(ctx, {x, rows.indices(ctx, group), out});
    return out;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out.row<float>(i), x.row<float>(group.rows[static_cast<size_t>(i)]),
                static_cast<size_t>(x.dim(1)) * sizeof(float));
  return out;
}

void write_rows_of_group(Context& ctx, const Tensor& x, const Tensor& y, const AdapterRows& rows,
                         const AdapterRows::Group& group) {
  ops::scatter_rows(ctx, {x, rows.indices(ctx, group), y});
}

void add_to_rows_of_group(Context& ctx, const Tensor& x, const Tensor& y, const AdapterRows& rows,
                          const AdapterRows::Group& group) {
  const Tensor theirs = rows_of_group(ctx, y, rows, group);
  ops::add_rows(ctx, {theirs, x, theirs});
  if (!group.adjacent()) write_rows_of_group(ctx, theirs, y, rows, group);
}

}  // namespace tandem
