// A worker's synchronous half: executes steps on one rank. Knows nothing of requests, text or
// actors.
#pragma once

#include <memory>
#include <vector>

#include "models/model.h"
#include "parallel/communicator.h"
#include "runtime/batch_builder.h"
#include "runtime/device_decoder.h"
#include "runtime/kv_cache.h"
#include "runtime/logits_processors.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The seam at which tests inject slow, dying or fake runners.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  // Runs one step to its end. Throws std::runtime_error naming the field of an inconsistent
  // message.
  virtual proto::StepOutput execute(const proto::StepInput& step) = 0;
};

class EncoderDecoderModelRunner final : public ModelRunner {
 public:
  // `model` must have been built on `ctx` and `comm`, which must outlive the runner. In a group of
  // several ranks every rank's runner executes the same steps, in the same order, and returns the
  // same tokens; log-probabilities that requests ask for, candidates of beams and pooled vectors
  // are in rank 0's output only. Where one rank's execute() fails behind the checks of the message,
  // it aborts the group. `record_steps`: on a device, steps of a shape seen before are replayed
  // (DeviceBackend::record).
  EncoderDecoderModelRunner(Context& ctx, Communicator& comm, std::unique_ptr<Model> model,
                            int block_size, int num_device_blocks, int num_host_blocks,
                            bool record_steps = true);

  proto::StepOutput execute(const proto::StepInput& step) override;

 private:
  void run_model(const Batch& batch, proto::StepOutput& out);
  Tensor rows_of(const Tensor& hidden, const std::vector<int32_t>& rows);
  std::vector<proto::SequenceOutput> sample_rows(const std::vector<SamplerSequence>& rows,
                                                 const Tensor& logits);
  void sample(const Batch& batch, const Tensor& hidden, proto::StepOutput& out);
  void decode_on_device(const Batch& batch, const StepTensors* sent, proto::StepOutput& out);
  void run_encoder(const Batch& batch, const StepTensors& step, proto::StepOutput& out);
  void add_prompt_logprobs(const Batch& batch, const Tensor& hidden, proto::StepOutput& out);

  Context& ctx_;
  Communicator& comm_;
  std::unique_ptr<Model> model_;
  int block_size_;
  KvCachePools pools_;
  DeviceDecoder device_decoder_;
  SequenceTable table_;
};

}  // namespace tandem
