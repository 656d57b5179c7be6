#include "runtime/execution/pipeline.h"

#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

template <class T, size_t n>
Tensor view_of(std::array<T, n>& values) {
  return Tensor::borrow(values.data(), {static_cast<int64_t>(sizeof(values))}, DType::kU8);
}

}  // namespace

Pipeline::Pipeline(Context& ctx, std::shared_ptr<Communicator> group, int stages, Stage layers)
    : ctx_(ctx),
      group_(std::move(group)),
      stages_(stages),
      ranks_(group_->size() / stages),
      stage_(group_->rank() / ranks_),
      layers_(std::move(layers)) {
  TANDEM_CHECK_EQ(ranks_ * stages_, group_->size());
}

// Rows and columns of the sum, and whether there is an update; then the tensors.
void Pipeline::send_on(const StageState& state) {
  const int to = rank_of(stage_ + 1);
  std::array<int64_t, 3> head{state.sum.dim(0), state.sum.dim(1), !state.update.empty()};
  TANDEM_CHECK(state.sum.dtype() == DType::kF32);
  group_->send(view_of(head), to);
  group_->send(state.sum, to);
  if (!state.update.empty()) group_->send(state.update, to);
}

StageState Pipeline::receive_state() {
  const int from = rank_of(stage_ - 1);
  std::array<int64_t, 3> head{};
  group_->receive(view_of(head), from);
  StageState state;
  state.sum = ctx_.make({head[0], head[1]}, DType::kF32);
  group_->receive(state.sum, from);
  if (head[2] != 0) {
    state.update = ctx_.make({head[0], head[1]}, DType::kF32);
    group_->receive(state.update, from);
  }
  return state;
}

// The finished states go on to every stage behind: their decoder layers attend to them.
Tensor Pipeline::encode(Model& model, const StepTensors& in) {
  StageState state;
  if (stage_ > 0) state = receive_state();
  if (layers_.encodes()) state = model.encode_stage(in, std::move(state));
  if (!is_last()) send_on(state);
  return layers_.decodes() ? state.sum : Tensor();
}

Tensor Pipeline::decode(Model& model, const StepTensors& in, KvCache& cache) {
  if (!layers_.decodes()) return {};
  StageState state;
  if (!layers_.decoder.has_first()) state = receive_state();
  state = model.decode_stage(in, std::move(state), cache);
  if (is_last()) return state.sum;
  send_on(state);
  return {};
}

void Pipeline::add_up(const Tensor& x) {
  TANDEM_CHECK(x.dtype() == DType::kF32 && x.contiguous());
  if (!layers_.decodes()) return;
  if (!layers_.decoder.has_first()) {
    const Tensor before = ctx_.make(x.shape(), DType::kF32);
    group_->receive(before, rank_of(stage_ - 1));
    for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] += before.data<float>()[i];
  }
  if (!is_last()) group_->send(x, rank_of(stage_ + 1));
}

void Pipeline::share(proto::StepOutput& out) {
  std::array<int64_t, 1> size{};
  std::string bytes;
  const auto content = [&] {
    return Tensor::borrow(bytes.data(), {static_cast<int64_t>(bytes.size())}, DType::kU8);
  };
  if (is_last()) {
    bytes = out.SerializeAsString();
    size[0] = static_cast<int64_t>(bytes.size());
    for (int stage = 0; stage < stage_; ++stage) {
      group_->send(view_of(size), rank_of(stage));
      group_->send(content(), rank_of(stage));
    }
    return;
  }
  const int from = rank_of(stages_ - 1);
  group_->receive(view_of(size), from);
  TANDEM_CHECK(size[0] >= 0 && size[0] <= std::numeric_limits<int32_t>::max());
  bytes.resize(static_cast<size_t>(size[0]));
  group_->receive(content(), from);
  if (!out.ParseFromString(bytes))
    throw std::runtime_error("the last stage's answer is not a StepOutput");
}

Pipeline::Heads Pipeline::heads_of(const Model& model) {
  std::array<uint8_t, 2> heads{model.has_language_head(), model.has_output_head()};
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    if (is_last()) group_->send(view_of(heads), rank_of(stage));
    if (stage == stage_) group_->receive(view_of(heads), rank_of(stages_ - 1));
  }
  return {heads[0] != 0, heads[1] != 0};
}

}  // namespace tandem
