// Beam search as transformers 5.23 does it (GenerationMixin._beam_search), for one request:
// candidates of the running beams in, the next running beams and the finished hypotheses out.
// Synchronous, knows nothing of models, blocks or text. Scores are float32, with HuggingFace's
// additions in its order, since comparisons among them decide what is returned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/token_tree.h"

namespace tandem {

// One token that a beam may go on with.
struct BeamCandidate {
  int32_t token = 0;
  float logprob = 0;    // processed: what is added to the beam's score
  float perturbed = 0;  // with noise, in beam sampling; else logprob again
  float log_sum = 0;    // taken off the log-probabilities that hypotheses keep
};

// Whether the request asks for beam search.
inline bool uses_beams(const proto::SamplingParams& params) { return params.num_beams() > 1; }

// Tokens with which a beam ends, ascending.
std::vector<int32_t> end_tokens(const proto::SamplingParams& params);

// Candidates that decide a step: so many that num_beams go on even if all others end. The best so
// many of each beam contain the best so many of all.
int num_beam_candidates(const proto::SamplingParams& params);

class BeamSearch {
 public:
  // Where a running beam comes from: beam `parent` of the step before, and one token more.
  struct Move {
    int parent;
    int32_t token;
  };
  struct Hypothesis {
    std::vector<int32_t> tokens;  // generated ones
    std::vector<float> logprobs;  // of each token, processed; empty unless asked for
    float sum = 0;                // of its log-probabilities
    float score = -1e9f;          // length-penalised; about -1e9 if it has not ended
    bool ended = false;
  };

  // params.num_beams > 1, max_tokens > 0.
  explicit BeamSearch(const proto::SamplingParams& params);

  // What the candidates lead to. Nothing of the search has changed until apply().
  class Round {
   public:
    // Where the num_beams next running beams come from, also when the search ends with this round
    // (then nobody needs them).
    const std::vector<Move>& moves() const { return moves_; }
    bool finished() const { return finished_; }

   private:
    friend class BeamSearch;
    struct Next;
    std::vector<Move> moves_;
    std::vector<float> logprobs_;  // of the moves' tokens
    std::vector<float> scores_;    // of the next running beams
    std::vector<Next> hypotheses_;
    bool finished_ = false;
  };
  // The candidates of each running beam; before the first round there is one, the prompt. At least
  // one candidate each. Not once finished.
  Round choose(std::span<const std::vector<BeamCandidate>> beams) const;
  // A round that was chosen in the present state. Costs the same however long the beams are.
  void apply(const Round& round);
  // Both; returns the moves.
  std::vector<Move> step(std::span<const std::vector<BeamCandidate>> beams);

  // The next round is the last one, as if the length's limit were there.
  void end_with_next_round() { max_tokens_ = std::min(max_tokens_, num_steps_ + 1); }

  bool finished() const { return finished_; }
  int num_steps() const { return num_steps_; }
  int num_beams() const { return num_beams_; }
  // num_beams of them, the best first. Costs their length.
  std::vector<Hypothesis> hypotheses() const;
  // Generated tokens of a running beam (costs their length), and its score.
  std::vector<int32_t> tokens(int beam) const { return tree_.tokens(node(beam)); }
  float score(int beam) const { return scores_[static_cast<size_t>(beam)]; }
  // The same tokens, as a node of the tree: valid as long as the search.
  const TokenTree& tree() const { return tree_; }
  TokenTree::Node node(int beam) const { return running_[static_cast<size_t>(beam)]; }

  void check_integrity() const;

 private:
  struct Continuation {
    int beam;
    int32_t token;
    float score, key;  // of the whole sequence, without and with noise
    float own;         // of the token, with noise
    float logprob;     // of the token, without; kept
    bool ends;
  };
  // A hypothesis by its place in the tree.
  struct Ending {
    TokenTree::Node node = TokenTree::kRoot;
    float sum = 0;
    float score = -1e9f;
    bool ended = false;
  };

  std::vector<Continuation> best(std::span<const std::vector<BeamCandidate>> beams) const;
  void choose_hypotheses(const std::vector<Continuation>& best, Round& round) const;
  void choose_running(const std::vector<Continuation>& best, Round& round) const;
  bool can_improve(const Round& round) const;
  float length_factor(int generated) const;
  bool is_eos(int32_t token) const;

  int num_beams_;
  int num_candidates_;
  int max_tokens_;
  int counted_;  // tokens of the prompt that count as generated in lengths
  double length_penalty_;
  proto::SamplingParams::EarlyStopping early_stopping_;
  std::vector<int32_t> eos_;  // ascending
  bool keeps_logprobs_;

  int num_steps_ = 0;
  bool finished_ = false;
  TokenTree tree_;
  std::vector<TokenTree::Node> running_;  // beams
  std::vector<float> scores_;             // of the running beams
  std::vector<Ending> hypotheses_;        // the best first
};

// A hypothesis after the round: one that there was, or what a beam goes on with.
struct BeamSearch::Round::Next {
  Ending hypothesis;
  int beam = -1;  // that it goes on from; -1: it was there
  int32_t token = 0;
  float logprob = 0;
};

}  // namespace tandem
