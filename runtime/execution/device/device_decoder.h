// The decoder's half of a step on a device: hidden states, logits and the choice of tokens stay
// there; steps of a shape that was seen before are replayed as a whole. A step is launched, and its
// answer read later: meanwhile the next one may be launched, whose ids are the tokens that this one
// chooses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/step/step_tensors.h"
#include "parallel/layers/adapters.h"
#include "runtime/execution/device/beam_rounds.h"
#include "runtime/execution/device/device_sequences.h"
#include "runtime/execution/step_runner.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/token_choice.h"

namespace tandem {

class DeviceDecoder {
 public:
  // `record`: whether steps are recorded and replayed. max_sequences: has room at once. More are
  // possible, but growing drops the recordings. adapters: those that the model was built with, or
  // null.
  DeviceDecoder(Context& ctx, Model& model, int block_size, bool record, int max_sequences,
                AdapterSet* adapters = nullptr);
  ~DeviceDecoder();

  // A step under way.
  class Flight {
   public:
    // The host has to choose some of its tokens: it is to be finished before anything else is
    // launched.
    bool needs_host() const { return choice_.num_host() > 0; }
    // -1 - where the token of a row lies on the device, as an id of the next step's input; 0: it is
    // not known there.
    const std::vector<int32_t>& ids() const { return ids_; }
    // The same for the first beam behind a round; the others follow, downwards.
    int32_t beam_id(size_t round) const {
      return -1 - choice_.padded() - rounds_.first_beam(round);
    }
    uint64_t end() const { return end_; }  // a mark of the backend

   private:
    friend class DeviceDecoder;
    Flight(TokenChoice choice, BeamRounds rounds)
        : choice_(std::move(choice)), rounds_(std::move(rounds)) {}
    TokenChoice choice_;
    BeamRounds rounds_;
    std::vector<int32_t> ids_;
    Tensor logits_;   // of the host's rows
    Tensor landing_;  // page-locked, for the answer
    std::optional<uint64_t> begin_;
    uint64_t end_ = 0;
  };

  // A round of beam search: the rows of its running beams are rows[row], ...; what it needs besides
  // (BeamRounds::add), with `round.first_row` still to be filled in.
  struct Round {
    size_t row;
    ops::BeamRound round;
    std::vector<ops::BeamPlace> beams;
  };
  // `hidden`: the last hidden states, if they are wanted. With them nothing is recorded. Sequences
  // with places have begun (sequences()), and there is room for their next token. `weights`: asked
  // for only with `hidden`; null: none are. A step with a row of an adapter (AdapterSet::Scope)
  // is not recorded. Its products depend on which rows are whose.
  std::unique_ptr<Flight> launch(const ModelInput& in, KvCache& cache,
                                 std::span<const DecoderRow> rows, std::span<const Round> rounds,
                                 Tensor* hidden, const CrossWeights* weights = nullptr);
  // Waits for it. What sample() (sampler.h) says of each row, the same token but for ties and
  // roundings of another summation. `sequences`: of the rows that were launched, as they were; only
  // read where the host chooses.
  struct Answer {
    std::vector<proto::SequenceOutput> rows;
    std::vector<proto::BeamMoves> rounds;
    double seconds = 0;  // on the device, if steps are timed
  };
  Answer finish(Flight& flight, std::span<const SamplerSequence> sequences);

  DeviceSequences& sequences() { return sequences_; }
  // Recorded steps know where things lie: they are made anew when something has moved.
  void forget_recordings();

  // Before the first step: computes and records steps of so many sequences that decode greedily,
  // one token each, of all lengths that lists are made for. They belong to no sequence, and write
  // nothing.
  RecordedSteps prepare_decoding(int32_t sequences, KvCache& cache);

  const DecoderStats& stats() const { return stats_; }
  // From now on steps are timed on the device: from the first kernel to the answer's copy.
  void time_steps() { timed_ = true; }

 private:
  struct Result {
    Tensor logits;  // of the host's rows
    Tensor answer;  // of the device's: TokenChoice's, then BeamRounds'
  };
  // What is computed, besides the step's own tensors.
  struct Work {
    const TokenChoice& choice;
    const BeamRounds& rounds;
    KvCache& cache;
    bool refers_to_pages;  // that only the device knows
    bool takes_best;       // Model::take_best
    Tensor landing;        // ops::TellHostArgs::to
  };
  // What is wanted of the decoder itself. With it nothing is recorded.
  struct Wanted {
    Tensor* hidden = nullptr;
    const CrossWeights* weights = nullptr;
  };
  struct Recording;
  void reserve_tokens(int32_t rows);
  void reserve_landings(int32_t rows);
  Result compute(const StepTensors& step, const Work& work, Tensor* hidden);
  bool has_adapted_rows() const { return adapters_ != nullptr && !adapters_->rows().empty(); }
  Result compute_answer(const StepTensors& step, const Work& work, Tensor* hidden);
  Result compute_recorded(const StepTensors& step, const Work& work,
                          const std::vector<int32_t>& shape);
  Result run(StepPlan& plan, const std::optional<StepShape>& shape, Flight& flight, KvCache& cache,
             const Wanted& wanted, bool may_take_best = true);
  std::vector<int32_t> land(Flight& flight, int64_t size);

  Context& ctx_;
  Model& model_;
  bool record_;
  AdapterSet* const adapters_;
  const std::optional<int32_t> padding_;  // ModelLimits::position_padding
  StepRoom room_;
  DeviceSequences sequences_;
  std::map<std::vector<int32_t>, Recording> recordings_;
  size_t recording_bytes_ = 0;    // that recordings took
  Tensor tokens_;                 // what the last step's device rows chose, then its beams
  std::vector<Tensor> landings_;  // that no step uses
  DecoderStats stats_;
  bool timed_ = false;
};

}  // namespace tandem
