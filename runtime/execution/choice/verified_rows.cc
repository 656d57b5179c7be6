#include "runtime/execution/choice/verified_rows.h"

#include <span>
#include <utility>

#include "base/check.h"
#include "runtime/execution/choice/choose_tokens.h"

namespace tandem {

VerifiedRows::VerifiedRows(const std::vector<const SampleRow*>& rows) {
  rows_.reserve(rows.size());  // views point into them
  for (const SampleRow* row : rows) {
    const WorkerSequence& seq = row->seq();
    Row& kept = rows_.emplace_back(Row{views_.size(), seq.drafts, seq.drafted, {}});
    TANDEM_CHECK_EQ(static_cast<size_t>(row->num_drafts), kept.drafts.size());
    SamplerSequence view = sampler_view(*row);
    const int32_t first = row->first_token + row->num_tokens - row->num_drafts - 1;
    if (!kept.drafts.empty()) {
      kept.output = seq.output;
      kept.output.insert(kept.output.end(), kept.drafts.begin(), kept.drafts.end());
      view.output_ids = std::span(kept.output).first(seq.output.size());
    }
    views_.push_back(view);
    indices_.push_back(first);
    for (int32_t i = 1; i <= row->num_drafts; ++i) {
      view.output_ids = std::span(kept.output).first(seq.output.size() + static_cast<size_t>(i));
      views_.push_back(view);
      indices_.push_back(first + i);
    }
  }
}

std::vector<VerifiedRows::Chosen> VerifiedRows::choose(Context& ctx, Communicator& comm,
                                                       Model& model, const Tensor& hidden) const {
  return take(choose_tokens(ctx, comm, model, views_, rows_of(ctx, hidden, indices_)));
}

std::vector<VerifiedRows::Chosen> VerifiedRows::take(
    std::vector<proto::SequenceOutput> chosen) const {
  TANDEM_CHECK_EQ(chosen.size(), views_.size());
  std::vector<Chosen> out;
  out.reserve(rows_.size());
  for (size_t row = 0; row < rows_.size(); ++row) {
    const auto& [at, drafts, drafted, output] = rows_[row];
    if (drafted)
      chosen[at].mutable_drafts()->mutable_token_ids()->Add(drafts.begin(), drafts.end());
    size_t right = 0;
    while (right < drafts.size() && chosen[at + right].token_id() == drafts[right]) ++right;
    for (size_t i = 0; i <= right; ++i) out.push_back({row, std::move(chosen[at + i])});
  }
  return out;
}

}  // namespace tandem
