// The decoder's half of a step on a device: hidden states, logits and the choice of tokens stay
// there; steps of a shape that was seen before are replayed as a whole. A step is launched, and its
// answer read later: meanwhile the next one may be launched, whose ids are the tokens that this one
// chooses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/step_tensors.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/token_choice.h"

namespace tandem {

class DeviceDecoder {
 public:
  // `record`: whether steps are recorded and replayed.
  DeviceDecoder(Context& ctx, Model& model, bool record);
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
    uint64_t end() const { return end_; }  // a mark of the backend

   private:
    friend class DeviceDecoder;
    explicit Flight(TokenChoice choice) : choice_(std::move(choice)) {}
    TokenChoice choice_;
    std::vector<int32_t> ids_;
    Tensor logits_;   // of the host's rows
    Tensor landing_;  // page-locked, for the answer
    uint64_t end_ = 0;
  };

  // `hidden`: the last hidden states, if they are wanted. With them nothing is recorded.
  std::unique_ptr<Flight> launch(const ModelInput& in, KvCache& cache,
                                 std::span<const DecoderRow> rows, Tensor* hidden);
  // Waits for it. What sample() (sampler.h) says of each row, the same token but for ties and
  // roundings of another summation. `sequences`: of the rows that were launched, as they were; only
  // read where the host chooses.
  std::vector<proto::SequenceOutput> finish(Flight& flight,
                                            std::span<const SamplerSequence> sequences);

  struct Stats {
    int64_t run = 0, recorded = 0, replayed = 0;  // steps
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Result {
    Tensor logits;  // of the host's rows
    TokenChoice::Answer answer;
  };
  struct Recording;
  void reserve_tokens(int32_t rows);
  Result compute(const StepTensors& step, const TokenChoice& choice, KvCache& cache,
                 Tensor* hidden);
  Result compute_recorded(const StepTensors& step, const TokenChoice& choice, KvCache& cache,
                          const std::vector<int32_t>& shape);

  Context& ctx_;
  Model& model_;
  bool record_;
  std::map<std::vector<int32_t>, Recording> recordings_;
  uint64_t next_key_ = 0;
  Tensor tokens_;                 // what the last step's device rows chose
  std::vector<Tensor> landings_;  // that no step uses
  Stats stats_;
};

}  // namespace tandem
