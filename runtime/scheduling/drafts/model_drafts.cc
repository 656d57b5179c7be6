#include "runtime/scheduling/drafts/model_drafts.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kMemoryOfSequence = 0.9;  // about ten trials
constexpr double kMemoryOfAll = 0.995;
constexpr double kWeightOfAll = 3;  // trials of its own that count as much
constexpr int kExploreOneIn = 16;

}  // namespace

void ModelDrafts::Rate::record(bool hit, double memory) {
  hits = hits * memory + (hit ? 1 : 0);
  trials = trials * memory + 1;
}

double ModelDrafts::of(const Rate& own, const Rate& all) {
  return (own.hits + kWeightOfAll * all.hits / all.trials) / (own.trials + kWeightOfAll);
}

bool ModelDrafts::prepares(double row) {
  explores_ = false;
  if (row + cost_ >= 1) return false;
  const double begun = begun_.hits / begun_.trials;
  if (begun * right_.hits / right_.trials > begun * row + cost_) return true;
  explores_ = ++turned_away_ % kExploreOneIn == 0;
  return explores_;
}

void ModelDrafts::add(int64_t seq_id) { seqs_.try_emplace(seq_id, Record{explores_}); }

// A step's first draft is worth `begun * right` tokens. It costs the draft model's step, said or
// not, and if it is said a row. Later ones have been said after all that came before.
ModelDrafts::Plan ModelDrafts::plan(int64_t seq_id, double row, int most) const {
  const auto it = seqs_.find(seq_id);
  if (it == seqs_.end() || most <= 0) return {};
  const Rate none{8, 8}, hopeful{6.4, 8};
  const Record& record = it->second;
  const double begun = of(record.begun, record.explores ? none : begun_);
  const double right = of(record.right, record.explores ? hopeful : right_);
  Plan out;
  double likely = right;
  for (; out.count < most; likely *= right) {
    const double value = begun * (likely - row) - (out.count == 0 ? 1 : begun) * cost_;
    if (value <= 0) break;
    ++out.count;
    out.gain += begun * likely;
    out.value += value;
  }
  return out;
}

void ModelDrafts::record(int64_t seq_id, int asked, int said, int right) {
  TANDEM_CHECK(asked > 0 && right >= 0 && right <= said && said <= asked);
  const auto it = seqs_.find(seq_id);
  const auto count = [&](Rate Record::*own, Rate& all, bool hit) {
    all.record(hit, kMemoryOfAll);
    if (it != seqs_.end()) (it->second.*own).record(hit, kMemoryOfSequence);
  };
  count(&Record::begun, begun_, said > 0);
  for (int i = 0; i < std::min(said, right + 1); ++i) count(&Record::right, right_, i < right);
}

}  // namespace tandem
