// The CPU's draws: plain, what devices are compared with. Masses are integers here, so that their
// sums have no order. The host's own draws (runtime/sampling/sampler.h) add floats in the order of
// ids, as HuggingFace does, and know every warper: tokens of the two may differ where a uniform
// number falls on a boundary, within rounding.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

struct Entry {
  float x;        // after the temperature
  uint64_t mass;  // in units of 2^-44 of the best's
  bool kept;
};

uint64_t mass_of(float x, float peak) {
  return static_cast<uint64_t>(std::exp(x - peak) * 0x1.0p44f);
}

uint64_t total_of(const std::vector<Entry>& row) {
  uint64_t sum = 0;
  for (const Entry& e : row) sum += e.kept ? e.mass : 0;
  return sum;
}

void keep_top_k(std::vector<Entry>& row, int32_t k) {
  if (k == 0 || static_cast<size_t>(k) >= row.size()) return;
  std::vector<float> values;
  for (const Entry& e : row) values.push_back(e.x);
  std::nth_element(values.begin(), values.begin() + (k - 1), values.end(), std::greater<>());
  const float least = values[static_cast<size_t>(k - 1)];
  for (Entry& e : row) e.kept = e.x >= least;
}

void drop_tail(std::vector<Entry>& row, float tail) {
  if (tail == 0) return;
  const uint64_t total = total_of(row);
  const uint64_t most = std::min(
      total - 1, static_cast<uint64_t>(static_cast<double>(tail) * static_cast<double>(total)));
  std::vector<size_t> order;
  for (size_t i = 0; i < row.size(); ++i)
    if (row[i].kept) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return row[a].x < row[b].x; });
  uint64_t sum = 0;
  for (const size_t i : order) {
    sum += row[i].mass;
    if (sum > most) break;
    row[i].kept = false;
  }
}

// The id, or -1 if the row has no distribution.
int32_t draw_row(const float* logits, int64_t size, const ops::DrawRule& rule) {
  std::vector<Entry> row(static_cast<size_t>(size));
  float peak = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < row.size(); ++i) {
    row[i].x = logits[i] / rule.temperature;
    if (std::isnan(row[i].x)) return -1;
    peak = std::max(peak, row[i].x);
  }
  if (std::isinf(peak)) return -1;
  for (Entry& e : row) e = {e.x, mass_of(e.x, peak), true};
  keep_top_k(row, rule.top_k);
  drop_tail(row, rule.tail);
  for (Entry& e : row) e.kept = e.kept && std::exp(e.x - peak) >= rule.min_p;
  const uint64_t total = total_of(row);
  const double uniform =
      (static_cast<double>(rule.uniform_high) * 0x1.0p32 + rule.uniform_low) * 0x1.0p-53;
  const uint64_t target =
      std::min(total - 1, static_cast<uint64_t>(uniform * static_cast<double>(total)));
  uint64_t sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    sum += row[i].kept ? row[i].mass : 0;
    if (sum > target) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

void draw(Context& ctx, const ops::DrawArgs& args) {
  auto job = [&](int64_t row, int) {
    ops::DrawRule rule;
    std::memcpy(static_cast<void*>(&rule), args.rules.row<int32_t>(row), sizeof(rule));
    if (rule.draws == 0) return;
    const float* logits = args.logits.row<float>(row);
    const int32_t id = draw_row(logits, args.logits.dim(1), rule);
    if (id < 0) return;
    args.ids.row<int32_t>(row)[0] = id;
    args.values.row<float>(row)[0] = logits[id];
    if (!args.best.empty()) args.best.data<int32_t>()[row] = id;
  };
  run_tasks(ctx, args.logits.dim(0), job);
}

}  // namespace tandem::cpu
