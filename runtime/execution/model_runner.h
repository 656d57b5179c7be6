// A worker's synchronous half: executes steps on one rank. Knows nothing of requests, text or
// actors.
//
// Running ahead. A device works behind the host: launch() returns when a step is on its way, and a
// second one may be launched before the first one's answer is read. Its input ids are then tokens
// that only the device knows (DeviceDecoder). Where the host needs them first (processors that look
// at what was generated, sampling that the device does not do, beams that the device does not
// search), launch() waits by itself. On the CPU launch() does all the work.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/device/device_decoder.h"
#include "runtime/execution/device/device_rows.h"
#include "runtime/execution/drafts/draft_model.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/sequence_table.h"
#include "runtime/execution/step_runner.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

using ModelRunner = StepRunner;

class EncoderDecoderModelRunner final : public ModelRunner {
 public:
  // `model` must have been built on `ctx` and `comm`, which must outlive the runner. In a group of
  // several ranks every rank's runner executes the same steps, in the same order, and returns the
  // same tokens; log-probabilities that requests ask for, candidates of beams and pooled vectors
  // are in rank 0's output only. Where one rank's launch() or finish() fails behind the checks of
  // the message, it aborts the group. `record_steps`: on a device, steps of a shape seen before are
  // replayed (DeviceBackend::record). max_drafts: that a sequence may have in a step; 0 on a
  // device. max_sequences: DeviceDecoder's. draft_model: says those that are asked for; on the CPU.
  EncoderDecoderModelRunner(Context& ctx, Communicator& comm, std::unique_ptr<Model> model,
                            int block_size, int num_device_blocks, int num_host_blocks,
                            bool record_steps = true, int max_drafts = 0, int max_sequences = 0,
                            std::optional<LoadedDraftModel> draft_model = std::nullopt);

  void launch(const proto::StepInput& step) override;
  int steps_launched() const override { return static_cast<int>(flights_.size()); }
  bool ready() override;
  proto::StepOutput finish() override;
  // On a device, before the first step: DeviceDecoder::prepare_decoding() for each size, in a group
  // on all ranks alike. told(done) behind each.
  DeviceDecoder::Prepared prepare_decoding(std::span<const int32_t> sizes,
                                           const std::function<void(size_t done)>& told);
  const DecoderStats& decoder_stats() const { return device_decoder_.stats(); }
  void time_decoder() { device_decoder_.time_steps(); }

 private:
  // A row whose token is wanted: of which of the step's outputs, and sequences.
  struct Sampled {
    int output;
    int64_t seq_id;
  };
  struct Flight {
    proto::StepOutput out;  // complete once `decoder` is null
    std::vector<Sampled> sampled;
    std::unique_ptr<DeviceDecoder::Flight> decoder;
    std::vector<SampleRow> host_rows;  // `sampled`, where the host chooses; until the next apply()
    std::vector<std::pair<size_t, SequenceTable::PendingToken>> pending;  // row of `sampled`
    std::optional<DeviceRows> rows;                                       // within launch()
    std::vector<DeviceRows::Pending> beams;                               // of rounds
    std::vector<int> rounds;  // of beam search: which of the step's outputs
    std::optional<std::pair<uint64_t, uint64_t>> encoder;  // marks
  };

  std::vector<WorkerGroup*> take_message(const proto::StepInput& step);
  Batch make_batch(const std::vector<WorkerGroup*>& scheduled) const;
  void wait_for_tokens(const std::vector<WorkerGroup*>& scheduled);
  static void put_sample(Flight& flight, size_t row, proto::SequenceOutput sample);
  void complete(Flight& flight);
  void complete_all_but(size_t last);
  void make_drafts(const proto::StepInput& step, const std::vector<WorkerGroup*>& scheduled);
  void append_tokens(const Batch& batch, Flight& flight);
  void run_model(const std::vector<WorkerGroup*>& scheduled, const Batch& batch, Flight& flight);
  void decode(const Batch& batch, Flight& flight);
  Tensor run_decoder(const Batch& batch);
  void sample(const Batch& batch, const Tensor& hidden, Flight& flight);
  void decode_on_device(const Batch& batch, Flight& flight);
  void run_encoder(const std::vector<WorkerGroup*>& scheduled, const Batch& batch, Flight& flight);
  void add_prompt_logprobs(const Batch& batch, const Tensor& hidden, proto::StepOutput& out);

  Context& ctx_;
  Communicator& comm_;
  std::unique_ptr<Model> model_;
  int block_size_;
  std::optional<int32_t> position_padding_;
  KvCachePools pools_;
  DeviceDecoder device_decoder_;
  SequenceTable table_;
  std::unique_ptr<DraftModel> draft_model_;  // null: there is none
  std::deque<Flight> flights_;               // oldest first
};

}  // namespace tandem
