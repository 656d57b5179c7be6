// The decoder's half of a step on a device: hidden states, logits and the choice of tokens stay
// there; steps of a shape that was seen before are replayed as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "models/model.h"
#include "models/step_tensors.h"
#include "runtime/logits_processors.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// A sequence whose next token is wanted, and the row of its last token in the step.
struct DecoderRow {
  SamplerSequence sequence;
  int32_t token = 0;
};

class DeviceDecoder {
 public:
  // `record`: whether steps are recorded and replayed.
  DeviceDecoder(Context& ctx, Model& model, bool record);
  ~DeviceDecoder();

  // Runs the decoder over the step, planned and sent here unless that was done (`sent`); what
  // sample() (sampler.h) says of each row, the same token but for ties and roundings of another
  // summation. `hidden`: the last hidden states, if they are wanted. With either nothing is
  // recorded.
  std::vector<proto::SequenceOutput> run(const ModelInput& in, const StepTensors* sent,
                                         KvCache& cache, std::span<const DecoderRow> rows,
                                         Tensor* hidden);

  struct Stats {
    int64_t run = 0, recorded = 0, replayed = 0;  // steps
  };
  const Stats& stats() const { return stats_; }

 private:
  struct Choice;
  struct Result;
  struct Recording;
  Result compute(const StepTensors& step, const Choice& choice, KvCache& cache, Tensor* hidden);
  Result compute_recorded(const StepTensors& step, const Choice& choice, KvCache& cache,
                          const std::vector<int32_t>& shape);
  std::vector<proto::SequenceOutput> read(const Choice& choice, const Result& result,
                                          std::span<const DecoderRow> rows);

  Context& ctx_;
  Model& model_;
  bool record_;
  std::map<std::vector<int32_t>, Recording> recordings_;
  uint64_t next_key_ = 0;
  Tensor landing_;  // page-locked, for what was chosen
  Stats stats_;
};

}  // namespace tandem
