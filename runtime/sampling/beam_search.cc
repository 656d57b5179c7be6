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
      keeps_logprobs_(params.has_logprobs() || params.processed_logprobs()),
      tree_(keeps_logprobs_) {
  TANDEM_CHECK_GT(num_beams_, 1);
  TANDEM_CHECK_GT(max_tokens_, 0);
  const auto n = static_cast<size_t>(num_beams_);
  running_.assign(n, TokenTree::kRoot);
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

// The best continuations of all beams, best first.
std::vector<BeamSearch::Continuation> BeamSearch::best(
    std::span<const std::vector<BeamCandidate>> beams) const {
  std::vector<Continuation> all;
  for (int b = 0; b < num_beams_; ++b) {
    const auto& candidates = beams[beams.size() == 1 ? 0 : static_cast<size_t>(b)];
    const float score = scores_[static_cast<size_t>(b)];
    for (const BeamCandidate& c : candidates)
      all.push_back({b, c.token, c.logprob + score, c.perturbed + score, c.perturbed,
                     c.logprob - c.log_sum, is_eos(c.token) || num_steps_ + 1 >= max_tokens_});
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
void BeamSearch::choose_hypotheses(const std::vector<Continuation>& best, Round& round) const {
  const float factor = length_factor(num_steps_ + 1);
  std::vector<float> scores;
  for (const Ending& h : hypotheses_) scores.push_back(h.score);
  const auto counts = [&](size_t i) { return best[i].ends && i < static_cast<size_t>(num_beams_); };
  for (size_t i = 0; i < best.size(); ++i)
    scores.push_back(best[i].score / factor + (counts(i) ? 0.0f : kImpossibleScore));
  for (const int32_t position : top_ids(scores, hypotheses_.size())) {
    const auto at = static_cast<size_t>(position);
    if (at < hypotheses_.size()) {
      round.hypotheses_.push_back({.hypothesis = hypotheses_[at]});
      continue;
    }
    const size_t i = at - hypotheses_.size();
    const Ending ending = {.sum = best[i].score, .score = scores[at], .ended = counts(i)};
    round.hypotheses_.push_back({ending, best[i].beam, best[i].token, best[i].logprob});
  }
}

// The best that do not end. What ends goes on only where nothing else is left.
void BeamSearch::choose_running(const std::vector<Continuation>& best, Round& round) const {
  std::vector<float> scores;
  for (const Continuation& c : best) scores.push_back(c.score + (c.ends ? kImpossibleScore : 0.0f));
  for (const int32_t position : top_ids(scores, static_cast<size_t>(num_beams_))) {
    const auto i = static_cast<size_t>(position);
    round.moves_.push_back({num_steps_ == 0 ? 0 : best[i].beam, best[i].token});
    round.logprobs_.push_back(best[i].logprob);
    round.scores_.push_back(scores[i]);
  }
}

// Whether the best running beam could still overtake the worst hypothesis, by HuggingFace's
// estimate of the length that it will have.
bool BeamSearch::can_improve(const Round& round) const {
  const bool longest =
      early_stopping_ == proto::SamplingParams::EARLY_STOPPING_NEVER && length_penalty_ > 0;
  const float possible = round.scores_[0] / length_factor(longest ? max_tokens_ : num_steps_ + 1);
  float worst = round.hypotheses_[0].hypothesis.score;
  for (const auto& [h, beam, token, logprob] : round.hypotheses_)
    if (h.score < worst || std::isnan(h.score)) worst = h.score;
  return std::any_of(round.hypotheses_.begin(), round.hypotheses_.end(), [&](const auto& next) {
    return possible > (next.hypothesis.ended ? worst : kImpossibleScore);
  });
}

BeamSearch::Round BeamSearch::choose(std::span<const std::vector<BeamCandidate>> beams) const {
  TANDEM_CHECK(!finished_, "the search has ended");
  TANDEM_CHECK_EQ(beams.size(), num_steps_ == 0 ? size_t{1} : static_cast<size_t>(num_beams_));
  for (const auto& candidates : beams) TANDEM_CHECK(!candidates.empty());
  const std::vector<Continuation> continuations = best(beams);
  Round round;
  choose_hypotheses(continuations, round);
  choose_running(continuations, round);
  const bool none_goes_on = std::all_of(continuations.begin(), continuations.end(),
                                        [](const Continuation& c) { return c.ends; });
  const bool enough = early_stopping_ == proto::SamplingParams::EARLY_STOPPING_TRUE &&
                      std::all_of(round.hypotheses_.begin(), round.hypotheses_.end(),
                                  [](const auto& next) { return next.hypothesis.ended; });
  round.finished_ = none_goes_on || enough || !can_improve(round);
  return round;
}

void BeamSearch::apply(const Round& round) {
  TANDEM_CHECK(!finished_, "the search has ended");
  for (size_t i = 0; i < hypotheses_.size(); ++i) {
    const auto& [hypothesis, beam, token, logprob] = round.hypotheses_[i];
    hypotheses_[i] = hypothesis;
    if (beam >= 0) hypotheses_[i].node = tree_.append(node(beam), token, logprob);
  }
  std::vector<TokenTree::Node> running;
  running.reserve(round.moves_.size());
  for (size_t i = 0; i < round.moves_.size(); ++i)
    running.push_back(
        tree_.append(node(round.moves_[i].parent), round.moves_[i].token, round.logprobs_[i]));
  running_ = std::move(running);
  scores_ = round.scores_;
  ++num_steps_;
  finished_ = round.finished_;
}

std::vector<BeamSearch::Move> BeamSearch::step(std::span<const std::vector<BeamCandidate>> beams) {
  Round round = choose(beams);
  apply(round);
  return std::move(round.moves_);
}

std::vector<BeamSearch::Hypothesis> BeamSearch::hypotheses() const {
  std::vector<Hypothesis> out;
  for (const Ending& h : hypotheses_)
    out.push_back({tree_.tokens(h.node), tree_.logprobs(h.node), h.sum, h.score, h.ended});
  return out;
}

void BeamSearch::check_integrity() const {
  const auto n = static_cast<size_t>(num_beams_);
  tree_.check_integrity();
  TANDEM_CHECK_EQ(running_.size(), n);
  TANDEM_CHECK_EQ(scores_.size(), n);
  TANDEM_CHECK_EQ(hypotheses_.size(), n);
  TANDEM_CHECK_LE(num_steps_, max_tokens_);
  for (const TokenTree::Node node : running_) TANDEM_CHECK_EQ(tree_.length(node), num_steps_);
  for (size_t i = 0; i < n; ++i) {
    const Ending& h = hypotheses_[i];
    TANDEM_CHECK_LE(tree_.length(h.node), num_steps_);
    if (i > 0) TANDEM_CHECK_GE(order_key(hypotheses_[i - 1].score), order_key(h.score));
    if (h.ended)
      TANDEM_CHECK(tree_.length(h.node) == max_tokens_ || is_eos(tree_.last_token(h.node)));
  }
}

}  // namespace tandem
