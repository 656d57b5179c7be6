#include "runtime/engine/request_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace tandem {

RequestState::RequestState(std::string request_id, PreparedRequest request,
                           const Tokenizer& tokenizer, double arrival_time, int priority)
    : request_id_(std::move(request_id)),
      request_(std::move(request)),
      arrival_time_(arrival_time),
      priority_(priority) {
  const auto& params = request_.params;
  if (pools()) return;
  const int n = uses_beams(params) ? params.n() : num_sequences(params);
  for (int i = 0; i < n; ++i) seqs_.emplace_back(i, tokenizer, params);
  if (!picks_best()) return;
  best_.resize(static_cast<size_t>(params.n()));
  for (int i = 0; i < params.n(); ++i) best_[static_cast<size_t>(i)].set_index(i);
}

bool RequestState::finished() const {
  if (pools()) return embedding_.has_value();
  return std::all_of(seqs_.begin(), seqs_.end(), [](const auto& seq) { return seq.finished(); });
}

const proto::CompletionOutput& RequestState::output_of(int i) const {
  const auto at = static_cast<size_t>(i);
  return picks_best() ? best_.at(at) : seqs_.at(at).output();
}

bool RequestState::output_finished(int i) const {
  return picks_best() ? finished() : seqs_.at(static_cast<size_t>(i)).finished();
}

// All have ended: the best by their sum of log-probabilities, as vLLM; of equals the lower index.
void RequestState::pick_best() {
  std::vector<const proto::CompletionOutput*> order;
  for (const auto& seq : seqs_) order.push_back(&seq.output());
  // NaN last: the order must be one.
  const auto key = [](const proto::CompletionOutput* c) {
    return std::isnan(c->cumulative_logprob()) ? -std::numeric_limits<double>::infinity()
                                               : c->cumulative_logprob();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return key(a) > key(b); });
  for (size_t i = 0; i < best_.size(); ++i) {
    best_[i] = *order[i];
    best_[i].set_index(static_cast<int32_t>(i));
  }
}

int RequestState::num_output_tokens() const {
  int tokens = beam_rounds_;
  for (const auto& seq : seqs_) tokens += seq.output().token_ids_size();
  return tokens;
}

proto::AddRequest RequestState::add_request() const {
  proto::AddRequest out;
  out.set_request_id(request_id_);
  *out.mutable_inputs() = request_.inputs;
  *out.mutable_sampling_params() = request_.params;
  out.set_priority(priority_);
  out.set_arrival_time(arrival_time_);
  out.set_first_seq_id(first_seq_id_);
  if (pools()) {
    out.add_seqs();
    return out;
  }
  const bool beams = uses_beams(request_.params);
  for (int i = 0; beams && i < request_.params.num_beams(); ++i) out.add_seqs()->set_index(i);
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
    if (!output.has_embedding() || embedding_) return ended;
    embedding_ = output.embedding();
    ended.push_back({output.seq_id(), SequenceStatus::kFinishedStopped});
    return ended;
  }
  add_prompt_logprobs(output);
  if (uses_beams(request_.params)) {
    beam_rounds_ += output.samples().empty() ? 0 : 1;
    return ended;
  }
  for (const proto::SequenceOutput& sample : output.samples()) {
    if (!owns(sample.seq_id())) continue;
    const int64_t index = sample.seq_id() - first_seq_id_;
    if (index >= static_cast<int64_t>(seqs_.size())) continue;
    SequenceOutputState& seq = seqs_[static_cast<size_t>(index)];
    if (seq.finished()) continue;
    if (first_token_ < 0) first_token_ = now;
    const SequenceStatus status = seq.append(sample);
    if (is_finished(status)) ended.push_back({sample.seq_id(), status});
  }
  if (!ended.empty() && picks_best() && finished()) pick_best();
  return ended;
}

void RequestState::finish_beams(const proto::BeamResult& result, double now) {
  TANDEM_CHECK_EQ(static_cast<size_t>(result.hypotheses_size()), seqs_.size());
  if (first_token_ < 0) first_token_ = now;
  for (int i = 0; i < result.hypotheses_size(); ++i)
    seqs_[static_cast<size_t>(i)].finish(result.hypotheses(i));
}

// A recomputed prompt reports its log-probabilities again; only those behind what is known are new.
void RequestState::add_prompt_logprobs(const proto::SequenceGroupOutput& output) {
  if (!request_.params.has_prompt_logprobs()) return;
  const int64_t first = output.prompt_logprobs_start();
  const int64_t length = request_.inputs.prompt_token_ids_size();
  for (int i = 0; i < output.prompt_logprobs_size(); ++i) {
    const auto next = static_cast<int64_t>(prompt_logprobs_.size()) + 1;
    if (first + i == next && next < length) prompt_logprobs_.push_back(output.prompt_logprobs(i));
  }
}

proto::RequestMetrics RequestState::metrics(double now) const {
  proto::RequestMetrics out;
  out.set_queue_time(first_scheduled_ < 0 ? now - arrival_time_ : first_scheduled_ - arrival_time_);
  out.set_time_to_first_token(first_token_ < 0 ? 0 : first_token_ - arrival_time_);
  out.set_total_time(now - arrival_time_);
  out.set_num_preemptions(num_preemptions_);
  return out;
}

proto::RequestOutput RequestState::output(double now) const {
  proto::RequestOutput out;
  out.set_request_id(request_id_);
  *out.mutable_inputs() = request_.inputs;
  for (int i = 0; i < num_outputs(); ++i) *out.add_outputs() = output_of(i);
  out.set_finished(finished());
  for (const auto& l : prompt_logprobs_) *out.add_prompt_logprobs() = l;
  if (embedding_) *out.mutable_embedding() = *embedding_;
  *out.mutable_metrics() = metrics(now);
  return out;
}

std::unique_ptr<SequenceGroup> make_sequence_group(const proto::AddRequest& request) {
  std::vector<std::unique_ptr<Sequence>> seqs;
  const int n = num_sequences(request.sampling_params());
  const bool pools = request.sampling_params().has_pooling();
  const bool beams = !pools && uses_beams(request.sampling_params());
  if (pools && (request.seqs_size() != 1 || request.inputs().prompt_token_ids_size() > 0 ||
                request.seqs(0).output_token_ids_size() > 0))
    throw invalid_request("seqs", "a request that is pooled has one sequence, without tokens");
  if (beams && request.seqs_size() != n)
    throw invalid_request(
        "seqs", std::to_string(request.seqs_size()) + " of " + std::to_string(n) + " beams");
  for (const proto::SequenceStart& start : request.seqs()) {
    if (start.index() < 0 || start.index() >= n)
      throw invalid_request(
          "seqs.index", std::to_string(start.index()) + " of " + std::to_string(n) + " sequences");
    auto seq = std::make_unique<Sequence>(request.first_seq_id() + start.index(), request.inputs(),
                                          /*from_decoder_prompt=*/true, start.index());
    if (beams && start.output_token_ids_size() > 0)
      throw invalid_request("seqs.output_token_ids", "a beam search starts without tokens");
    for (const int32_t token : start.output_token_ids()) seq->append_token(token);
    seqs.push_back(std::move(seq));
  }
  auto encoder = std::make_unique<Sequence>(request.first_seq_id() + n, request.inputs(),
                                            /*from_decoder_prompt=*/false);
  return std::make_unique<SequenceGroup>(request.request_id(), std::move(seqs), std::move(encoder),
                                         request.sampling_params(), request.arrival_time(),
                                         request.priority());
}

}  // namespace tandem
