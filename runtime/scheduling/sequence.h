// Sequences and groups: the scheduler's side of a request. Plain data with invariants; owned by the
// scheduler, used from its thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/protocol/pooling_kind.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/sequence_status.h"
#include "runtime/sampling/token_tree.h"
#include "runtime/scheduling/source_key.h"

namespace tandem {

using EncoderDecoderInputs = proto::EncoderDecoderInputs;
using SamplingParams = proto::SamplingParams;

class Sequence {
 public:
  // from_decoder_prompt: the sequence starts as inputs.prompt_token_ids. Otherwise it is the
  // encoder's: inputs.encoder_prompt_token_ids, encoder_frames, or both. index:
  // its place in the request, on which its seed depends. The index stays when a group comes back
  // without its finished sequences.
  Sequence(int64_t seq_id, const EncoderDecoderInputs& inputs, bool from_decoder_prompt = true,
           int index = 0);

  int64_t seq_id() const { return seq_id_; }
  int index() const { return index_; }
  SequenceStatus status() const { return status_; }
  void set_status(SequenceStatus status) { status_ = status; }
  bool finished() const { return is_finished(status_); }

  int prompt_len() const { return prompt_len_; }
  int output_len() const { return length() - prompt_len_; }
  int length() const { return num_known_ + num_pending_; }
  // The last tokens of the sequence, sampled by steps in flight: workers know them, we do not yet.
  // They count in every length.
  int num_pending_tokens() const { return num_pending_; }
  int num_known_tokens() const { return num_known_; }
  // The known ones: prompt + output. Of a beam that has moved since they were read last, reading
  // them costs their length.
  std::span<const int32_t> tokens() const;
  std::span<const int32_t> prompt_tokens() const { return std::span(tokens_).first(prompt_len_); }
  std::span<const int32_t> output_tokens() const { return tokens().subspan(prompt_len_); }
  // Of an encoder that reads frames; else null.
  const proto::EncoderFrames* frames() const { return frames_.get(); }
  // Of the encoder's: positions with global attention, ascending.
  std::span<const int32_t> global_positions() const { return global_; }
  // Tokens whose keys and values are in the cache when the steps in flight have run. After prefill
  // it is length() - 1 between steps: the last sampled token has not been fed yet.
  int num_computed_tokens() const { return num_computed_; }
  int num_uncomputed_tokens() const { return length() - num_computed_; }

  void append_token(int32_t token);       // no token may be pending
  void add_pending() { ++num_pending_; }  // one more will be sampled
  void resolve_pending(int32_t token);    // the first pending token's value
  void drop_pending() { num_pending_ = 0; }
  // The last known token was a draft, and is computed; behind it comes `token`. None is pending.
  void go_on_behind_draft(int32_t token);
  void advance(int tokens);  // tokens more are computed
  void reset_computed() { num_computed_ = 0; }
  // A beam continues another one. Its output is `node` of the tree, which must outlive it. Its
  // computed tokens are those of the other one.
  void continue_from(const TokenTree& tree, TokenTree::Node node, int num_computed);
  // The same with the first pending token's value, when this one and those behind it have been fed
  // already: what is computed stays.
  void resolve_pending_from(const TokenTree& tree, TokenTree::Node node);

 private:
  int64_t seq_id_;
  mutable std::vector<int32_t> tokens_;  // of a beam: the prompt, and output that may be outdated
  std::unique_ptr<const proto::EncoderFrames> frames_;
  std::vector<int32_t> global_;
  int prompt_len_;
  int index_;
  const TokenTree* tree_ = nullptr;  // of a beam that has moved
  TokenTree::Node node_ = TokenTree::kRoot;
  mutable TokenTree::Node read_ = TokenTree::kRoot;  // what tokens_ holds
  int num_known_;
  int num_pending_ = 0;
  int num_computed_ = 0;
  SequenceStatus status_ = SequenceStatus::kWaiting;
};

// The beam search of a group as the scheduler drives it, a round at a time: every running beam's
// candidates are collected, then the search moves on.
struct BeamState {
  explicit BeamState(const SamplingParams& params)
      : search(params), candidates(static_cast<size_t>(params.num_beams())) {}

  bool started() const { return search.num_steps() > 0; }

  // Workers make the same moves by themselves, so rounds run ahead of their results. Each beam has
  // a pending token for each round in flight. A block that is not full belongs to one beam alone.
  // Fixed before the group is scheduled.
  bool ahead = false;
  BeamSearch search;
  std::vector<std::vector<BeamCandidate>> candidates;  // of this round, by index; empty: none yet
  std::vector<BeamSearch::Move> news;  // of the last round, by index, while workers do not know
  int epoch = 0;  // answers to steps that were scheduled in another one are void
};

// Sequences that generate: num_beams, or best_of, or n.
int num_sequences(const SamplingParams& params);

// Where the encoder's input of a group is, with encoders on ranks of their own
// (steps/encoder_steps.h).
enum class EncoderPlace : uint8_t {
  kHere,      // the group does not wait for it
  kWaits,     // no rank has been asked
  kUnderWay,  // a rank has, and its result has not been taken
};

// All sequences of one request, and the encoder sequence that they share.
class SequenceGroup {
 public:
  // seqs: in ascending order of their index.
  SequenceGroup(std::string request_id, std::vector<std::unique_ptr<Sequence>> seqs,
                std::unique_ptr<Sequence> encoder_seq, SamplingParams params, double arrival_time,
                int priority = 0);

  const std::string& request_id() const { return request_id_; }
  const std::vector<std::unique_ptr<Sequence>>& seqs() const { return seqs_; }
  std::vector<Sequence*> seqs_with(SequenceStatus status) const;
  std::vector<Sequence*> unfinished_seqs() const;
  Sequence* find(int64_t seq_id) const;
  const Sequence& encoder_seq() const { return *encoder_seq_; }
  // The key of the source in the caches. It is the shape and bits of the encoder's frames, if there
  // are any, and its tokens. Positions with global attention, the request's adapter and its
  // cache_salt follow, as numbers that are no tokens.
  const SourceKey& source_key() const { return source_; }
  // The key of the decoder's keys and values, besides the tokens up to theirs: the source's, and a
  // prompt whose tokens attend to all of it.
  const SourceKey& prefix_key() const { return prefix_; }
  const SamplingParams& params() const { return params_; }
  double arrival_time() const { return arrival_time_; }
  int priority() const { return priority_; }  // smaller is served first
  // No tokens are wanted, but numbers: one sequence, which ends when they are there.
  bool pools() const { return params_.has_pooling(); }
  // Of those, numbers made of the encoder's output: the sequence has no tokens, and the group no
  // blocks; it is in one step. Of the others the sequence's prompt is computed, in chunks.
  bool pools_encoder() const { return tandem::pools_encoder(params_); }
  bool finished() const;
  bool has_pending_tokens() const;
  // The prompt's tokens attend to all of it: they are computed in the step that admits the group.
  bool has_whole_prompt() const { return has_whole_prompt_; }
  // It is so; before the group is scheduled.
  void take_prompt_whole();
  // Null unless the request asks for beams.
  BeamState* beams() { return beams_.get(); }
  const BeamState* beams() const { return beams_.get(); }
  bool searches_ahead() const { return beams_ != nullptr && beams_->ahead; }
  // Of beams: the first round is completed, or in flight if workers search. Before that only
  // sequence 0 runs; the others are forks of it that wait.
  bool launched() const { return beams_->started() || seqs_.front()->num_pending_tokens() > 0; }
  // The sequence is a fork that waits for its first token.
  bool waits_for_fork(const Sequence& seq) const {
    return beams_ != nullptr && seq.index() > 0 && !launched();
  }
  // Some beam's candidates are on their way.
  bool awaits_candidates() const;

  // The encoder has run, or will in a step in flight, and the cross-attention cache is valid.
  bool encoder_computed() const { return encoder_computed_; }
  void set_encoder_computed(bool v) { encoder_computed_ = v; }
  EncoderPlace encoder_place() const { return encoder_place_; }
  void set_encoder_place(EncoderPlace place) { encoder_place_ = place; }
  // Until then no token is computed.
  bool awaits_encoder() const { return encoder_place_ != EncoderPlace::kHere; }
  // Metadata went out in full, and no preemption has invalidated it.
  bool announced() const { return announced_; }
  void set_announced(bool v) { announced_ = v; }

  int num_preemptions = 0;
  std::optional<double> first_scheduled_time;

 private:
  std::string request_id_;
  std::vector<std::unique_ptr<Sequence>> seqs_;
  std::unique_ptr<Sequence> encoder_seq_;
  SourceKey source_, prefix_;
  bool has_whole_prompt_ = false;
  SamplingParams params_;
  double arrival_time_;
  int priority_;
  std::unique_ptr<BeamState> beams_;
  bool encoder_computed_ = false;
  EncoderPlace encoder_place_ = EncoderPlace::kHere;
  bool announced_ = false;
};

}  // namespace tandem
