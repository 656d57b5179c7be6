#include "runtime/execution/drafts/verified_rows.h"

#include <utility>

#include "base/check.h"
#include "runtime/execution/choose_tokens.h"

namespace tandem {

VerifiedRows::VerifiedRows(std::vector<const SampleRow*> rows) : rows_(std::move(rows)) {
  for (const SampleRow* row : rows_) {
    SamplerSequence view = sampler_view(*row);
    const int32_t first = row->first_token + row->num_tokens - row->num_drafts - 1;
    views_.push_back(view);
    indices_.push_back(first);
    if (row->num_drafts == 0) continue;
    const WorkerSequence& seq = row->seq();
    std::vector<int32_t>& output = outputs_.emplace_back(seq.output);
    output.insert(output.end(), seq.drafts.begin(), seq.drafts.end());
    for (int32_t i = 1; i <= row->num_drafts; ++i) {
      view.output_ids = std::span(output).first(seq.output.size() + static_cast<size_t>(i));
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
  size_t at = 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const std::vector<int32_t>& drafts = rows_[row]->seq().drafts;
    if (rows_[row]->seq().drafted)
      chosen[at].mutable_drafts()->mutable_token_ids()->Add(drafts.begin(), drafts.end());
    size_t right = 0;
    while (right < drafts.size() && chosen[at + right].token_id() == drafts[right]) ++right;
    for (size_t i = 0; i <= right; ++i) out.push_back({row, std::move(chosen[at + i])});
    at += drafts.size() + 1;
  }
  return out;
}

}  // namespace tandem
