// Draws: checks, dispatch.
#include <cstring>

#include "kernels/check/check_chosen.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

void check_rules(const Tensor& rules) {
  if (rules.device() != Device::kCpu) return;
  for (int64_t i = 0; i < rules.dim(0); ++i) {
    DrawRule rule;
    std::memcpy(static_cast<void*>(&rule), rules.row<int32_t>(i), sizeof(rule));
    if (rule.draws == 0) continue;
    TANDEM_CHECK(rule.temperature > 0 && rule.top_k >= 0 && rule.tail >= 0 && rule.tail <= 1 &&
                     rule.min_p >= 0 && rule.min_p <= 1 && rule.uniform_high < (1u << 21),
                 "a rule of a draw");
  }
}

}  // namespace

void draw(Context& ctx, const DrawArgs& args) {
  TANDEM_CHECK_EQ(args.logits.rank(), 2);
  TANDEM_CHECK_EQ(args.ids.rank(), 2);
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1);
  check_matrix(args.logits, rows, size);
  TANDEM_CHECK_GE(size, 1);
  const int64_t rules[] = {rows, kDrawRuleInts};
  check_shape_and_type(args.rules, rules, 2, DType::kI32);
  check_rules(args.rules);
  TANDEM_CHECK_GE(args.ids.dim(1), 1);
  check_chosen(args.ids, args.values, args.best, rows, args.ids.dim(1));
  if (rows > 0) ops_of(ctx).draw(ctx, args);
}

}  // namespace tandem::ops
