#include "runtime/execution/device/stage_recorder.h"

#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

constexpr size_t kMostShapes = 1024;

const void* place_of(const Tensor& x) { return x.empty() ? nullptr : x.raw(); }

}  // namespace

StageRecorder::StageRecorder(Context& ctx, Model& model, int block_size, bool keeps)
    : ctx_(ctx),
      model_(model),
      room_{block_size, model.limits().decoder_positions.value_or(0),
            model.limits().encoder_positions.value_or(0)},
      keeps_(keeps) {}

std::optional<StepShape> StageRecorder::fill_up(StepPlan& plan) const {
  if (!plan.can_pad() || !model_.may_record(plan.in.attention)) return std::nullopt;
  const StepShape shape = plan.shape(room_);
  plan.fill_up(shape, room_);
  return shape;
}

void StageRecorder::forget() {
  ctx_.backend().forget_recordings();
  recordings_.clear();
}

StageState StageRecorder::decode(const StepTensors& in, const StepShape& shape, StageState before,
                                 KvCache& cache) {
  ++stats_.run;
  const std::vector<int32_t> key = shape.values();
  if (recordings_.size() >= kMostShapes && !recordings_.contains(key)) forget();
  Recording& r = recordings_[key];
  if (!std::exchange(r.seen, true)) {
    StageState first = model_.decode_stage(in, std::move(before), cache);
    if (keeps_ && !kept_.contains(first.sum.dim(0)))
      kept_[first.sum.dim(0)] = ctx_.backend().allocate(first.sum.shape(), first.sum.dtype());
    return first;
  }
  if (!r.recorded && !r.refused) record(r, in, before, cache);
  if (r.refused) return model_.decode_stage(in, std::move(before), cache);
  // Its memory is a function of the shape.
  TANDEM_CHECK_EQ(r.ids, place_of(in.positions));
  TANDEM_CHECK_EQ(r.sum, place_of(before.sum));
  TANDEM_CHECK_EQ(r.update, place_of(before.update));
  ctx_.backend().replay(r.key);
  ++stats_.replayed;
  return keeps_ ? StageState{kept_.at(r.result.sum.dim(0))} : r.result;
}

void StageRecorder::record(Recording& r, const StepTensors& in, const StageState& before,
                           KvCache& cache) {
  r.key = ctx_.backend().new_key();
  r.refused = !ctx_.backend().record(r.key, [&] {
    r.result = model_.decode_stage(in, before, cache);
    if (keeps_) ctx_.backend().copy_matrix(r.result.sum, kept_.at(r.result.sum.dim(0)));
  });
  r.recorded = !r.refused;
  if (r.recorded) {
    ++stats_.recorded;
    stats_.nodes = ctx_.backend().nodes_recorded();
  }
  if (r.refused) r.result = {};
  r.ids = place_of(in.positions);
  r.sum = place_of(before.sum);
  r.update = place_of(before.update);
}

}  // namespace tandem
