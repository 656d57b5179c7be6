// The search (beam_search.h). HuggingFace keeps -1e9 as "not possible" in scores and offsets; so do
// we, since at float32 it swallows what is added to it, and ties follow from that. Its offsets for
// inputs of a batch that are done have no counterpart: a search is one input, and ends.
#include "runtime/sampling/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "kernels/beam_order.h"
#include "kernels/row_math.h"

namespace tandem {

std::vector<int32_t> end_tokens(const proto::SamplingParams& params) {
  std::vector<int32_t> ids;
  if (!params.ignore_eos()) ids.assign(params.eos_token_id().begin(), params.eos_token_id().end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

int num_beam_candidates(const proto::SamplingParams& params) {
  const int64_t each = std::max<int64_t>(2, 1 + static_cast<int64_t>(end_tokens(params).size()));
  return static_cast<int>(
      std::min<int64_t>(each * params.num_beams(), std::numeric_limits<int>::max()));
}

BeamSearch::BeamSearch(const proto::SamplingParams& params)
    : num_beams_(params.num_beams()),
      num_candidates_(num_beam_candidates(params)),
      max_tokens_(params.max_tokens()),
      counted_(params.prompt_tokens_counted_as_generated()),
      length_penalty_(params.length_penalty()),
      early_stopping_(params.early_stopping()),
      eos_(end_tokens(params)),
      keeps_logprobs_(params.has_logprobs()) {
  TANDEM_CHECK_GT(num_beams_, 1);
  TANDEM_CHECK_GT(max_tokens_, 0);
  const auto n = static_cast<size_t>(num_beams_);
  running_.resize(n);
  running_logprobs_.resize(n);
  // The beams start alike; all but the first are out of the running until they differ.
  scores_.assign(n, kImpossibleScore);
  scores_[0] = 0;
  hypotheses_.resize(n);
}

bool BeamSearch::is_eos(int32_t token) const {
  return std::binary_search(eos_.begin(), eos_.end(), token);
}

float BeamSearch::length_factor(int generated) const {
  return static_cast<float>(std::pow(static_cast<double>(generated + counted_), length_penalty_));
}

std::vector<int32_t> BeamSearch::extended(const Continuation& c) const {
  std::vector<int32_t> tokens;
  const auto& parent = running_[static_cast<size_t>(c.beam)];
  tokens.reserve(parent.size() + 1);
  tokens = parent;
  tokens.push_back(c.token);
  return tokens;
}

std::vector<float> BeamSearch::extended_logprobs(const Continuation& c) const {
  if (!keeps_logprobs_) return {};
  std::vector<float> logprobs = running_logprobs_[static_cast<size_t>(c.beam)];
  logprobs.push_back(c.logprob);
  return logprobs;
}

// The best continuations of all beams, best first.
std::vector<BeamSearch::Continuation> BeamSearch::best(
    std::span<const std::vector<BeamCandidate>> beams) const {
  std::vector<Continuation> all;
  for (int b = 0; b < num_beams_; ++b) {
    const auto& candidates = beams[beams.size() == 1 ? 0 : static_cast<size_t>(b)];
    const float score = scores_[static_cast<size_t>(b)];
    for (const BeamCandidate& c : candidates)
      all.push_back({b, c.token, c.logprob + score, c.perturbed + score, c.perturbed, c.logprob,
                     is_eos(c.token) || num_steps_ + 1 >= max_tokens_});
  }
  const size_t k = std::min(all.size(), static_cast<size_t>(num_candidates_));
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(k);
  const auto rank = [](const Continuation& c) {
    return BeamContinuation{c.key, c.beam, c.own, c.token};
  };
  std::partial_sort(
      all.begin(), middle, all.end(),
      [&](const Continuation& a, const Continuation& b) { return goes_before(rank(a), rank(b)); });
  all.erase(middle, all.end());
  return all;
}

// What ends among the first num_beams competes with the hypotheses so far. The rest is behind by
// 1e9, and fills places that nothing better takes.
void BeamSearch::update_hypotheses(const std::vector<Continuation>& best) {
  const float factor = length_factor(num_steps_ + 1);
  std::vector<float> scores;
  for (const Hypothesis& h : hypotheses_) scores.push_back(h.score);
  const auto counts = [&](size_t i) { return best[i].ends && i < static_cast<size_t>(num_beams_); };
  for (size_t i = 0; i < best.size(); ++i)
    scores.push_back(best[i].score / factor + (counts(i) ? 0.0f : kImpossibleScore));
  std::vector<Hypothesis> merged;
  for (const int32_t position : top_ids(scores, hypotheses_.size())) {
    const auto at = static_cast<size_t>(position);
    if (at < hypotheses_.size()) {
      merged.push_back(std::move(hypotheses_[at]));
      continue;
    }
    const size_t i = at - hypotheses_.size();
    merged.push_back(
        {extended(best[i]), extended_logprobs(best[i]), best[i].score, scores[at], counts(i)});
  }
  hypotheses_ = std::move(merged);
}

// The best that do not end. What ends goes on only where nothing else is left.
void BeamSearch::update_running(const std::vector<Continuation>& best, std::vector<Move>& moves) {
  std::vector<float> scores;
  for (const Continuation& c : best) scores.push_back(c.score + (c.ends ? kImpossibleScore : 0.0f));
  std::vector<std::vector<int32_t>> running;
  std::vector<std::vector<float>> running_logprobs;
  std::vector<float> running_scores;
  for (const int32_t position : top_ids(scores, static_cast<size_t>(num_beams_))) {
    const auto i = static_cast<size_t>(position);
    moves.push_back({num_steps_ == 0 ? 0 : best[i].beam, best[i].token});
    running.push_back(extended(best[i]));
    running_logprobs.push_back(extended_logprobs(best[i]));
    running_scores.push_back(scores[i]);
  }
  running_ = std::move(running);
  running_logprobs_ = std::move(running_logprobs);
  scores_ = std::move(running_scores);
}

// Whether the best running beam could still overtake the worst hypothesis, by HuggingFace's
// estimate of the length that it will have.
bool BeamSearch::can_improve() const {
  const bool longest =
      early_stopping_ == proto::SamplingParams::EARLY_STOPPING_NEVER && length_penalty_ > 0;
  const float possible = scores_[0] / length_factor(longest ? max_tokens_ : num_steps_);
  float worst = hypotheses_[0].score;
  for (const Hypothesis& h : hypotheses_)
    if (h.score < worst || std::isnan(h.score)) worst = h.score;
  return std::any_of(hypotheses_.begin(), hypotheses_.end(), [&](const Hypothesis& h) {
    return possible > (h.ended ? worst : kImpossibleScore);
  });
}

std::vector<BeamSearch::Move> BeamSearch::step(std::span<const std::vector<BeamCandidate>> beams) {
  TANDEM_CHECK(!finished_, "the search has ended");
  TANDEM_CHECK_EQ(beams.size(), num_steps_ == 0 ? size_t{1} : static_cast<size_t>(num_beams_));
  for (const auto& candidates : beams) TANDEM_CHECK(!candidates.empty());
  const std::vector<Continuation> continuations = best(beams);
  update_hypotheses(continuations);
  std::vector<Move> moves;
  update_running(continuations, moves);
  ++num_steps_;
  const bool none_goes_on = std::all_of(continuations.begin(), continuations.end(),
                                        [](const Continuation& c) { return c.ends; });
  const bool enough = early_stopping_ == proto::SamplingParams::EARLY_STOPPING_TRUE &&
                      std::all_of(hypotheses_.begin(), hypotheses_.end(),
                                  [](const Hypothesis& h) { return h.ended; });
  finished_ = none_goes_on || enough || !can_improve();
  return moves;
}

void BeamSearch::check_integrity() const {
  const auto n = static_cast<size_t>(num_beams_);
  TANDEM_CHECK_EQ(running_.size(), n);
  TANDEM_CHECK_EQ(scores_.size(), n);
  TANDEM_CHECK_EQ(hypotheses_.size(), n);
  TANDEM_CHECK_LE(num_steps_, max_tokens_);
  for (const auto& tokens : running_) TANDEM_CHECK_EQ(tokens.size(), size_t(num_steps_));
  for (size_t i = 0; i < n; ++i) {
    const Hypothesis& h = hypotheses_[i];
    TANDEM_CHECK_LE(h.tokens.size(), static_cast<size_t>(num_steps_));
    TANDEM_CHECK_EQ(h.logprobs.size(), keeps_logprobs_ ? h.tokens.size() : size_t{0});
    if (i > 0) TANDEM_CHECK_GE(order_key(hypotheses_[i - 1].score), order_key(h.score));
    if (h.ended)
      TANDEM_CHECK(static_cast<int>(h.tokens.size()) == max_tokens_ || is_eos(h.tokens.back()));
  }
}

}  // namespace tandem
