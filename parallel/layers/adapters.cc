#include "parallel/layers/adapters.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/ops.h"

namespace tandem {

AdapterRows::AdapterRows(std::vector<uint64_t> of_row) : of_row_(std::move(of_row)) {
  std::map<uint64_t, std::vector<int32_t>> rows;
  for (size_t i = 0; i < of_row_.size(); ++i)
    if (of_row_[i] != 0) rows[of_row_[i]].push_back(static_cast<int32_t>(i));
  for (auto& [adapter, list] : rows) groups_.push_back({adapter, std::move(list)});
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

Tensor rows_of_group(Context& ctx, const Tensor& x, const AdapterRows::Group& group) {
  const auto count = static_cast<int64_t>(group.rows.size());
  if (group.adjacent()) return x.rows(group.rows.front(), group.rows.front() + count);
  const Tensor out = ctx.make({count, x.dim(1)}, DType::kF32);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out.row<float>(i), x.row<float>(group.rows[static_cast<size_t>(i)]),
                static_cast<size_t>(x.dim(1)) * sizeof(float));
  return out;
}

}  // namespace tandem
