// The decoder's layers of a stage, on a device: those of a shape that was seen before are replayed
// as a whole (DeviceBackend::record). What stages hand to each other is not part of it, so that a
// stage's time can be told from its waits. Owned by the runner's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "models/model.h"
#include "models/step/step_tensors.h"
#include "runtime/execution/step_runner.h"

namespace tandem {

class StageRecorder {
 public:
  // Both outlive it. `keeps`: the result is read while other memory of the step is used, so it gets
  // a place of its own.
  StageRecorder(Context& ctx, Model& model, int block_size, bool keeps);

  // The shape that the half is filled up to, if it can be recorded; it depends on the step alone,
  // so all stages have the same.
  std::optional<StepShape> fill_up(StepPlan& plan) const;
  // The first step of a shape runs as it is, the second is recorded.
  StageState decode(const StepTensors& in, const StepShape& shape, StageState before,
                    KvCache& cache);

  // Of decoders' halves.
  const DecoderStats& stats() const { return stats_; }

 private:
  struct Recording {
    bool seen = false, recorded = false, refused = false;
    uint64_t key = 0;
    StageState result;
    const void *ids = nullptr, *sum = nullptr, *update = nullptr;  // where its inputs lay
  };
  void record(Recording& r, const StepTensors& in, const StageState& before, KvCache& cache);
  void forget();

  Context& ctx_;
  Model& model_;
  StepRoom room_;
  bool keeps_;
  std::map<std::vector<int32_t>, Recording> recordings_;
  std::map<int64_t, Tensor> kept_;  // results, by rows: one is read at a time
  DecoderStats stats_;
};

}  // namespace tandem
