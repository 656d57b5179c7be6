#include "runtime/engine/states/request_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/strings/printable.h"
#include "kernels/beam_order.h"

namespace tandem {
namespace {

// What a constrained sampler says when it had nothing to choose from.
bool is_nothing_left(const proto::SamplingParams& params, float logprob) {
  return params.has_constraint() && logprob == -std::numeric_limits<float>::infinity();
}

}  // namespace

RequestState::RequestState(std::string request_id, PreparedRequest request,
                           const Tokenizer& tokenizer, double arrival_time, int priority)
    : params_(std::move(request.params)), arrival_time_(arrival_time), priority_(priority) {
  output_.set_request_id(std::move(request_id));
  *output_.mutable_inputs() = std::move(request.inputs);
  if (inputs().has_encoder_frames())
    output_.mutable_inputs()->mutable_encoder_frames()->mutable_values()->Swap(&frame_values_);
  if (pools()) return;
  for (int i = 0; i < params_.n(); ++i) output_.add_outputs()->set_index(i);
  const int n = uses_beams(params_) ? params_.n() : num_sequences(params_);
  const bool best_of = n > params_.n();
  seqs_.reserve(static_cast<size_t>(n));
  const auto& ids = inputs().prompt_token_ids();
  const std::span<const int32_t> prompt(ids.data(), static_cast<size_t>(ids.size()));
  for (int i = 0; i < n; ++i)
    seqs_.emplace_back(best_of ? *candidates_.Add() : *output_.mutable_outputs(i), tokenizer,
                       params_, prompt);
}

void RequestState::note_stuck(size_t index) {
  const proto::CompletionOutput& output = seqs_[index].output();
  std::string where = "no token can follow";
  if (!uses_beams(params_))
    where += " behind " + std::to_string(output.token_ids_size()) + " tokens, " +
             in_quotes(output.text());
  else
    where += " in any beam";
  stuck_ = invalid_request(params_.constraint().field(), where);
}

// All have ended: the best by their sum of log-probabilities, as vLLM; of equals the lower index.
void RequestState::pick_best() {
  std::vector<proto::CompletionOutput*> order;
  for (proto::CompletionOutput& candidate : candidates_) order.push_back(&candidate);
  // NaN last: the order must be one.
  const auto key = [](const proto::CompletionOutput* c) {
    return std::isnan(c->cumulative_logprob()) ? -std::numeric_limits<double>::infinity()
                                               : c->cumulative_logprob();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return key(a) > key(b); });
  for (int i = 0; i < output_.outputs_size(); ++i) {
    output_.mutable_outputs(i)->Swap(order[static_cast<size_t>(i)]);
    output_.mutable_outputs(i)->set_index(i);
  }
}

proto::AddRequest RequestState::add_request() const {
  proto::AddRequest out;
  out.set_request_id(request_id());
  *out.mutable_inputs() = inputs();
  if (inputs().has_encoder_frames())
    *out.mutable_inputs()->mutable_encoder_frames()->mutable_values() = frame_values_;
  *out.mutable_sampling_params() = params_;
  out.set_priority(priority_);
  out.set_arrival_time(arrival_time_);
  out.set_first_seq_id(first_seq_id_);
  if (pools()) {
    out.add_seqs();
    return out;
  }
  const bool beams = uses_beams(params_);
  for (int i = 0; beams && i < params_.num_beams(); ++i) out.add_seqs()->set_index(i);
  for (size_t i = 0; !beams && i < seqs_.size(); ++i) {
    if (seqs_[i].finished()) continue;
    proto::SequenceStart& start = *out.add_seqs();
    start.set_index(static_cast<int32_t>(i));
    *start.mutable_output_token_ids() = seqs_[i].output().token_ids();
  }
  return out;
}

std::vector<RequestState::Finished> RequestState::apply(const proto::SequenceGroupOutput& output,
                                                        double scheduled_at, double now) {
  std::vector<Finished> ended;
  if (!owns(output.seq_id())) return ended;
  if (first_scheduled_ < 0) first_scheduled_ = scheduled_at;
  if (pools()) {
    if (finished() || !add_embedding(output)) return ended;
    ended.push_back({output.seq_id(), SequenceStatus::kFinishedStopped});
    finish(now);
    return ended;
  }
  add_prompt_logprobs(output);
  if (uses_beams(params_)) {
    num_tokens_ += output.samples().empty() ? 0 : 1;
    return ended;
  }
  for (const proto::SequenceOutput& sample : output.samples()) {
    if (!owns(sample.seq_id())) continue;
    const int64_t index = sample.seq_id() - first_seq_id_;
    if (index >= static_cast<int64_t>(seqs_.size())) continue;
    SequenceOutputState& seq = seqs_[static_cast<size_t>(index)];
    if (seq.finished()) continue;
    if (is_nothing_left(params_, sample.logprob())) {
      note_stuck(static_cast<size_t>(index));
      return ended;
    }
    if (first_token_ < 0) first_token_ = now;
    ++num_tokens_;
    const SequenceStatus status = seq.append(sample);
    if (is_finished(status)) ended.push_back({sample.seq_id(), status});
  }
  if (params_.has_max_time() && now - first_scheduled_ > params_.max_time()) end_by_time(ended);
  if (!ended.empty() &&
      std::all_of(seqs_.begin(), seqs_.end(), [](const auto& seq) { return seq.finished(); }))
    finish(now);
  return ended;
}

void RequestState::end_by_time(std::vector<Finished>& ended) {
  for (size_t i = 0; i < seqs_.size(); ++i) {
    if (seqs_[i].finished() || seqs_[i].output().token_ids().empty()) continue;
    seqs_[i].end_by_time();
    ended.push_back({first_seq_id_ + static_cast<int64_t>(i), SequenceStatus::kFinishedLength});
  }
}

void RequestState::finish_beams(const proto::BeamResult& result, double now) {
  TANDEM_CHECK_EQ(static_cast<size_t>(result.hypotheses_size()), seqs_.size());
  // Others of the search may have less left than the best one. Without a token it is none.
  const proto::BeamHypothesis& best = result.hypotheses(0);
  const bool none = best.token_ids().empty() && best.score() <= kImpossibleScore;
  if (is_nothing_left(params_, best.cumulative_logprob()) || (none && params_.has_constraint())) {
    note_stuck(0);
    return;
  }
  if (first_token_ < 0) first_token_ = now;
  for (int i = 0; i < result.hypotheses_size(); ++i)
    seqs_[static_cast<size_t>(i)].finish(result.hypotheses(i));
  num_tokens_ = 0;
  for (const auto& seq : seqs_) num_tokens_ += seq.output().token_ids_size();
  finish(now);
}

void RequestState::finish(double now) {
  if (picks_best()) pick_best();
  output_.set_finished(true);
  proto::RequestMetrics& metrics = *output_.mutable_metrics();
  metrics.set_queue_time(first_scheduled_ < 0 ? now - arrival_time_
                                              : first_scheduled_ - arrival_time_);
  metrics.set_time_to_first_token(first_token_ < 0 ? 0 : first_token_ - arrival_time_);
  metrics.set_total_time(now - arrival_time_);
  metrics.set_num_preemptions(num_preemptions_);
}

// Whether all of it is there. With wants_all_rows() each chunk of the prompt has its rows, a
// recomputed one too: only those behind what is known are new.
bool RequestState::add_embedding(const proto::SequenceGroupOutput& output) {
  const auto& values = output.embedding().values();
  if (values.empty()) return false;
  if (!wants_all_rows(params_)) {
    *output_.mutable_embedding() = output.embedding();
    return true;
  }
  auto& all = *rows_.mutable_values();
  const int64_t known = int64_t{all.size()} - output.embedding_start();
  if (known >= 0 && known < values.size()) all.Add(values.begin() + known, values.end());
  const int64_t rows = inputs().prompt_token_ids_size() - first_row(params_.pooling());
  if (all.size() < rows * numbers_of_row(params_.pooling())) return false;
  output_.mutable_embedding()->Swap(&rows_);
  return true;
}

// A recomputed prompt reports its log-probabilities again; only those behind what is known are new.
void RequestState::add_prompt_logprobs(const proto::SequenceGroupOutput& output) {
  if (!params_.has_prompt_logprobs()) return;
  const int64_t first = output.prompt_logprobs_start();
  const int64_t length = inputs().prompt_token_ids_size();
  for (int i = 0; i < output.prompt_logprobs_size(); ++i) {
    const int64_t next = output_.prompt_logprobs_size() + int64_t{1};
    if (first + i == next && next < length)
      *output_.add_prompt_logprobs() = output.prompt_logprobs(i);
  }
}

void RequestState::check_integrity() const {
  TANDEM_CHECK_EQ(output_.outputs_size(), pools() ? 0 : params_.n());
  TANDEM_CHECK_EQ(output_.has_metrics(), output_.finished());
  int tokens = 0;
  for (const auto& seq : seqs_) {
    // Those that were picked have changed places with empty outputs.
    if (finished() && picks_best()) return;
    tokens += seq.output().token_ids_size();
    TANDEM_CHECK_EQ(seq.finished(), !seq.output().finish_reason().empty());
    TANDEM_CHECK(!finished() || seq.finished());
  }
  if (!pools() && !(uses_beams(params_) && !finished())) TANDEM_CHECK_EQ(tokens, num_tokens_);
}

}  // namespace tandem
