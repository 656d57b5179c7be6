// The CPU's draws, by the host's arithmetic (kernels/row_draw.h): what devices are compared with,
// within rounding. Devices add fixed-point numbers.
#include <cstring>
#include <vector>

#include "kernels/cpu/ops_cpu.h"
#include "kernels/row_draw.h"
#include "kernels/row_math.h"

namespace tandem::cpu {
namespace {

// The id, or -1 if the row has no distribution.
int32_t draw_row(std::span<const float> logits, const ops::DrawRule& rule) {
  std::vector<float> row(logits.begin(), logits.end());
  if (rule.temperature != 1.0f)
    for (float& x : row) x /= rule.temperature;
  if (!find_peak(row).finite()) return -1;
  const double uniform =
      (static_cast<double>(rule.uniform_high) * 0x1.0p32 + rule.uniform_low) * 0x1.0p-53;
  const auto k = static_cast<size_t>(rule.top_k);
  if (k == 0 && rule.tail == 0 && rule.min_p == 0) return draw_from(row, uniform);
  Candidates c = candidates_of(row, k);
  if (k > 0) keep_top_k(c, k);
  if (rule.tail > 0) drop_tail(c, rule.tail);
  if (rule.min_p > 0) keep_min_p(c, rule.min_p);
  return c.ids[static_cast<size_t>(draw_from(c.logits, uniform))];
}

}  // namespace

void draw(Context& ctx, const ops::DrawArgs& args) {
  auto job = [&](int64_t row, int) {
    ops::DrawRule rule;
    std::memcpy(static_cast<void*>(&rule), args.rules.row<int32_t>(row), sizeof(rule));
    if (rule.draws == 0) return;
    const float* logits = args.logits.row<float>(row);
    const int32_t id = draw_row({logits, static_cast<size_t>(args.logits.dim(1))}, rule);
    if (id < 0) return;
    args.ids.row<int32_t>(row)[0] = id;
    args.values.row<float>(row)[0] = logits[id];
    if (!args.best.empty()) args.best.data<int32_t>()[row] = id;
  };
  run_tasks(ctx, args.logits.dim(0), job);
}

}  // namespace tandem::cpu
