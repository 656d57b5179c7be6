#include "runtime/sampling/token_choice.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/append_words.h"
#include "kernels/core/padded_size.h"
#include "kernels/ops.h"
#include "models/step/step_tensors.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

// Sampling beyond DrawRule is the host's, and so is whatever wants to see the whole row.
bool is_drawable(const proto::SamplingParams& p) {
  const bool by_typicality = p.typical_p() > 0 && p.typical_p() < 1.0;
  return !uses_beams(p) && p.temperature() >= 0 && !(p.top_h() > 0) && !by_typicality &&
         !(p.epsilon_cutoff() > 0) && !(p.eta_cutoff() > 0);
}

// Of beams they are those of their candidates.
bool wants_list(const proto::SamplingParams& p) { return p.has_logprobs() && !uses_beams(p); }

// How many of a row's best are wanted; 0: the host's sampler has to see the row.
int wanted_of(const proto::SamplingParams& p, int64_t vocabulary) {
  if (p.renormalize_logits() || p.processed_logprobs() || changes_whole_rows(p)) return 0;
  if (wants_list(p) && p.logprobs() > ops::kMaxSelect) return 0;
  if (p.do_sample() && !is_drawable(p)) return 0;
  const int k = uses_beams(p) ? static_cast<int>(num_beam_candidates(p)) : 1;
  return k <= ops::kMaxSelect && k <= vocabulary ? k : 0;
}

ops::DrawRule rule_of(const SamplerSequence& seq) {
  const proto::SamplingParams& p = *seq.params;
  ops::DrawRule rule;
  rule.draws = 1;
  if (p.temperature() != 0.0) rule.temperature = static_cast<float>(p.temperature());
  rule.top_k = std::max(p.top_k(), 0);
  if (p.top_p() < 1.0) rule.tail = std::clamp(static_cast<float>(1.0 - p.top_p()), 0.0f, 1.0f);
  if (p.min_p() > 0) rule.min_p = std::min(static_cast<float>(p.min_p()), 1.0f);
  const double uniform = uniform_draw(p.seed(), seq.seq_index, seq.output_ids.size());
  const auto bits = static_cast<uint64_t>(uniform * 0x1p53);
  rule.uniform_high = static_cast<uint32_t>(bits >> 32);
  rule.uniform_low = static_cast<uint32_t>(bits);
  return rule;
}

bool leaves_nothing(const LogitEdits& changes) {
  const std::vector<uint32_t>& allowed = changes.allowed;
  if (changes.masked) return changes.list.empty();
  return !allowed.empty() &&
         std::all_of(allowed.begin(), allowed.end(), [](uint32_t bits) { return bits == 0; });
}

void add_entry(proto::TokenLogprobs& out, int32_t id, float logprob, int32_t rank) {
  auto* entry = out.add_top();
  entry->set_token_id(id);
  entry->set_logprob(logprob);
  entry->set_rank(rank);
}

// The next `count` elements of a flat tensor.
Tensor next(const Tensor& flat, int64_t& at, int64_t count) {
  at += count;
  return flat.rows(at - count, at);
}

}  // namespace

bool chooses_ahead(const proto::SamplingParams& params, int64_t vocabulary) {
  return wanted_of(params, vocabulary) > 0 && !uses_beams(params) && !reads_tokens(params);
}

bool searches_ahead(const proto::SamplingParams& params, int64_t vocabulary) {
  return uses_beams(params) && wanted_of(params, vocabulary) > 0 &&
         params.num_beams() <= ops::kMaxDeviceBeams && !reads_tokens(params);
}

bool keeps_tokens(const proto::SamplingParams& params) {
  return reads_history(params) && !reads_tokens(params) && wanted_of(params, ops::kMaxSelect) > 0;
}

TokenChoice::TokenChoice(std::span<const DecoderRow> rows, int64_t vocabulary) {
  std::vector<size_t> host;
  for (size_t i = 0; i < rows.size(); ++i) {
    const SamplerSequence& seq = rows[i].sequence;
    const int wanted = wanted_of(*seq.params, vocabulary);
    std::optional<LogitEdits> changes;
    const int32_t place = rows[i].place;
    if (wanted > 0)
      changes = needs_processing(seq) ? logit_edits(seq, vocabulary, place >= 0) : LogitEdits{};
    // A row in which nothing is left is the host's as well, but for beams in places: whose
    // candidates are as good as any, for the host too.
    const bool beams = uses_beams(*seq.params);
    const bool searched = beams && place >= 0;
    if (!changes || (leaves_nothing(*changes) && !searched)) {
      host.push_back(i);
      continue;
    }
    order_.push_back(i);
    k_ = std::max(k_, wanted);
    DeviceRow& row = rows_.emplace_back();
    row.candidates = beams ? wanted : 0;
    row.flags = (beams ? ops::kRowLogSoftmax : 0) | (changes->masked ? ops::kRowMasked : 0);
    row.first_edit = num_edits_;
    if (seq.params->do_sample()) row.rule = rule_of(seq);
    draws_ = draws_ || row.rule.draws != 0;
    row.place = place;
    row.length = static_cast<int32_t>(seq.prompt_ids.size() + seq.output_ids.size());
    has_places_ = has_places_ || place >= 0;
    changes->history.place = std::max(place, 0);
    if (wants_list(*seq.params))
      keep_raw(row, static_cast<int>(std::clamp<int64_t>(seq.params->logprobs(), 0, vocabulary)));
    else if (!beams && changes->penalises())
      keep_raw(row, -1);
    add_mask(changes->allowed, row);
    row.constrained = seq.params->has_constraint();
    num_edits_ += static_cast<int32_t>(changes->list.size());
    row.edits = std::move(*changes);
  }
  num_device_ = padded_ = static_cast<int32_t>(order_.size());
  is_plain_ =
      host.empty() && k_ == 1 && !draws_ && !has_places_ && raw_rows_.empty() && num_edits_ == 0 &&
      num_masks_ == 0 &&
      std::all_of(rows_.begin(), rows_.end(), [](const DeviceRow& row) { return row.flags == 0; });
  padded_masks_ = num_masks_;
  padded_raw_ = static_cast<int32_t>(raw_rows_.size());
  if (list_k_ > 0)
    list_k_ = static_cast<int>(
        std::min<int64_t>(std::bit_ceil(static_cast<unsigned>(list_k_)), vocabulary));
  num_host_ = padded_host_ = static_cast<int32_t>(host.size());
  order_.insert(order_.end(), host.begin(), host.end());
  index_.resize(rows.size());
  for (const size_t i : order_) {
    index_[i] = static_cast<int32_t>(step_rows_.size());
    step_rows_.push_back(rows[i].token);
  }
}

void TokenChoice::add_mask(const std::vector<uint32_t>& bits, DeviceRow& row) {
  if (bits.empty()) return;
  row.mask = num_masks_++;
  mask_words_ = static_cast<int32_t>(bits.size());
  masks_.insert(masks_.end(), bits.begin(), bits.end());
}

void TokenChoice::keep_raw(DeviceRow& row, int listed) {
  row.raw = static_cast<int32_t>(raw_rows_.size());
  row.listed = listed;
  raw_rows_.push_back(static_cast<int32_t>(rows_.size()) - 1);
  list_k_ = std::max(list_k_, listed);
}

std::vector<int32_t> TokenChoice::pad() {
  padded_ = padded_size(padded_);
  padded_host_ = padded_size(padded_host_);
  padded_raw_ = padded_size(padded_raw_);
  padded_masks_ = padded_size(padded_masks_);
  num_edits_ =
      doubled_size(std::max(num_edits_, 2 * padded_));  // an end token forbidden, or forced
  return {padded_, num_edits_,    k_,          draws_ ? 1 : 0, has_places_ ? 1 : 0, padded_raw_,
          list_k_, padded_masks_, padded_host_};
}

std::vector<int32_t> TokenChoice::packed() const {
  const auto rows = static_cast<size_t>(padded_);
  const auto of_device = step_rows_.begin() + num_device_;
  std::vector<int32_t> indices(step_rows_.begin(), of_device);
  indices.resize(rows, 0);
  indices.insert(indices.end(), of_device, step_rows_.end());
  indices.resize(rows + static_cast<size_t>(padded_host_), 0);
  std::vector<int32_t> flags(rows, 0), indptr(rows + 1), list;
  std::vector<ops::DrawRule> rules(draws_ ? rows : 0);
  std::vector<ops::RowHistory> histories(has_places_ ? rows : 0);
  std::vector<int32_t> places(has_places_ ? rows * 2 : 0, -1);
  for (size_t i = 0; i < rows_.size(); ++i) {
    flags[i] = rows_[i].flags;
    indptr[i] = rows_[i].first_edit;
    if (draws_) rules[i] = rows_[i].rule;
    if (const DeviceRow& row = rows_[i]; row.place >= 0) {
      histories[i] = row.edits.history;
      places[2 * i] = row.candidates > 0 ? -1 : row.place;  // a round gives beams theirs
      places[2 * i + 1] = row.length;
    }
    for (const auto& e : rows_[i].edits.list)
      list.insert(list.end(),
                  {e.id, static_cast<int32_t>(e.edit), std::bit_cast<int32_t>(e.value)});
  }
  std::fill(indptr.begin() + num_device_, indptr.end(), static_cast<int32_t>(list.size() / 3));
  list.resize(static_cast<size_t>(std::max(num_edits_, 1)) * 3, 0);
  std::vector<int32_t> raw_rows = raw_rows_;
  raw_rows.resize(static_cast<size_t>(padded_raw_), 0);
  // Of a row without processors: flags, and where its edits begin and end.
  std::vector<int32_t> nothing(list_k_ > 0 ? raw_rows.size() + 1 : 0);
  std::vector<int32_t> mask_rows(padded_masks_ > 0 ? rows : 0, -1);
  for (size_t i = 0; i < rows_.size() && padded_masks_ > 0; ++i) mask_rows[i] = rows_[i].mask;
  std::vector<int32_t> all;
  append_words(all, rules, rules.size());
  append_words(all, histories, histories.size());
  for (const auto* part :
       {&indices, &flags, &indptr, &list, &raw_rows, &nothing, &places, &mask_rows})
    all.insert(all.end(), part->begin(), part->end());
  all.insert(all.end(), masks_.begin(), masks_.end());
  all.resize(all.size() + static_cast<size_t>((padded_masks_ - num_masks_) * mask_words_), 0);
  return all;
}

void TokenChoice::take(const Tensor& there) {
  int64_t at = 0;
  if (draws_)
    rules_ = next(there, at, padded_ * ops::kDrawRuleInts).reshape({padded_, ops::kDrawRuleInts});
  if (has_places_)
    histories_ =
        next(there, at, padded_ * ops::kRowHistoryInts).reshape({padded_, ops::kRowHistoryInts});
  tokens = next(there, at, padded_ + padded_host_);
  flags_ = next(there, at, padded_);
  edit_indptr_ = next(there, at, padded_ + 1);
  const int64_t edits = std::max(num_edits_, 1);
  edits_ = next(there, at, 3 * edits).reshape({edits, 3});
  raw_rows_there_ = next(there, at, padded_raw_);
  nothing_ = next(there, at, list_k_ > 0 ? padded_raw_ + 1 : 0);
  if (has_places_) places_ = next(there, at, int64_t{padded_} * 2).reshape({padded_, 2});
  if (padded_masks_ > 0) {
    mask_rows_ = next(there, at, padded_);
    masks_there_ =
        next(there, at, int64_t{padded_masks_} * mask_words_).reshape({padded_masks_, mask_words_});
  }
  TANDEM_CHECK_EQ(at, there.dim(0));
}

int64_t TokenChoice::answer_size() const {
  return int64_t{padded_} * (2 * k_ + 1) + std::max(num_edits_, 1) +
         int64_t{padded_raw_} * (2 * list_k_ + 2);
}

TokenChoice::Answer TokenChoice::divide(const Tensor& flat) const {
  Answer out;
  int64_t at = 0;
  const int64_t rows = padded_;
  out.flat = flat;
  out.ids = next(flat, at, rows * k_).reshape({rows, k_});
  out.values = next(flat, at, rows * k_).reshape({rows, k_}).as(DType::kF32);
  out.log_sums = next(flat, at, rows).as(DType::kF32);
  out.edited = next(flat, at, std::max(num_edits_, 1)).as(DType::kF32);
  const int64_t raw = padded_raw_;
  out.raw_values = next(flat, at, raw).as(DType::kF32);
  out.ranks = next(flat, at, raw);
  out.list_ids = next(flat, at, raw * list_k_).reshape({raw, list_k_});
  out.list_values = next(flat, at, raw * list_k_).reshape({raw, list_k_}).as(DType::kF32);
  return out;
}

// Rows as they are before processors change them, and the best of those.
Tensor TokenChoice::raw_rows(Context& ctx, const Tensor& logits, const Answer& out) const {
  const Tensor raw = ctx.make({padded_raw_, logits.dim(1)}, DType::kF32);
  ops::gather_rows(ctx, {logits, raw_rows_there_, raw});
  if (list_k_ == 0) return raw;
  const Tensor log_sums = ctx.make({padded_raw_}, DType::kF32);  // the same as the others'
  ops::select(ctx, {raw, nothing_.rows(0, padded_raw_), nothing_, edits_.rows(0, 0), list_k_,
                    log_sums, out.edited.rows(0, 0), out.list_ids, out.list_values});
  return raw;
}

void TokenChoice::choose(Context& ctx, const Tensor& logits, const Answer& out, const Tensor& best,
                         const ops::SequenceMemory& memory) const {
  const Tensor raw = padded_raw_ > 0 ? raw_rows(ctx, logits, out) : Tensor();
  ops::select(
      ctx, {logits, flags_, edit_indptr_, edits_, k_, out.log_sums, out.edited, out.ids, out.values,
            best, histories_, has_places_ ? memory.tokens : Tensor(), masks_there_, mask_rows_});
  if (draws_) ops::draw(ctx, {logits, rules_, out.ids, out.values, best});
  if (padded_raw_ > 0)
    ops::rank_tokens(ctx, {raw, raw_rows_there_, best, out.raw_values, out.ranks});
  if (has_places_) ops::append_tokens(ctx, {best, places_, memory.tokens});
}

proto::SequenceOutput TokenChoice::read(int32_t d, const Answer& here) const {
  const DeviceRow& row = rows_[static_cast<size_t>(d)];
  const int32_t* best = here.ids.row<int32_t>(d);
  const float* value = here.values.row<float>(d);
  proto::SequenceOutput out;
  if (row.candidates > 0) {
    proto::BeamCandidates& candidates = *out.mutable_candidates();
    candidates.mutable_token_ids()->Add(best, best + row.candidates);
    candidates.mutable_logprobs()->Add(value, value + row.candidates);
    return out;
  }
  const float log_sum = here.log_sums.data<float>()[d];
  out.set_token_id(best[0]);
  const float logprob = raw_value(row, best[0], value[0], here) - log_sum;
  const bool nothing_left = row.constrained && value[0] == kNothingLeft;
  out.set_logprob(nothing_left ? kNothingLeft : logprob);
  if (row.listed < 0) return out;
  proto::TokenLogprobs& list = *out.mutable_logprobs();
  add_entry(list, best[0], logprob, here.ranks.data<int32_t>()[row.raw]);
  for (int i = 0; i < row.listed; ++i)
    add_entry(list, here.list_ids.row<int32_t>(row.raw)[i],
              here.list_values.row<float>(row.raw)[i] - log_sum, i + 1);
  return out;
}

// What the chosen token's logit was before processors changed it.
float TokenChoice::raw_value(const DeviceRow& row, int32_t id, float value,
                             const Answer& here) const {
  if (row.raw >= 0) return here.raw_values.data<float>()[row.raw];
  const size_t edit = row.edits.find(id);
  if (edit == row.edits.list.size()) return value;
  return here.edited.data<float>()[static_cast<size_t>(row.first_edit) + edit];
}

}  // namespace tandem
