#include "runtime/execution/ranks/pipeline.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/seconds_since.h"
#include "parallel/communicators/round_communicator.h"

namespace tandem {
namespace {

template <class T, size_t n>
Tensor view_of(std::span<T, n> values) {
  return Tensor::borrow(values.data(), {static_cast<int64_t>(values.size_bytes())}, DType::kU8);
}

constexpr int64_t kNoTensor = -1;

int64_t type_of(const Tensor& x) { return x.empty() ? kNoTensor : static_cast<int64_t>(x.dtype()); }

}  // namespace

Pipeline::Pipeline(Context& ctx, std::shared_ptr<Communicator> group, int stages, Stage layers)
    : ctx_(ctx),
      group_(std::move(group)),
      stages_(stages),
      ranks_(group_->size() / stages),
      stage_(group_->rank() / ranks_),
      layers_(std::move(layers)),
      step_begun_(Clock::now()),
      seconds_(static_cast<size_t>(stage_)) {
  TANDEM_CHECK_EQ(ranks_ * stages_, group_->size());
  static_assert(kMostUnheard < kPiecesBetween);
}

double StageSeconds::sum() const { return std::accumulate(of_stage.begin(), of_stage.end(), 0.0); }

void Pipeline::begin_step() {
  told_before_ = told_;
  step_begun_ = Clock::now();
  waited_ = encoder_seconds_ = 0;
  std::fill(seconds_.begin(), seconds_.end(), 0);
}

void Pipeline::end_step() { computed_before_ = computed(); }

double Pipeline::computed() const {
  return computed_before_ + seconds_since(step_begun_) - waited_;
}

// What it waits is not computed. A send waits only if the receiver is far behind.
void Pipeline::send(const Tensor& x, int to) {
  const ProfileSpan span(kWaitForStages);
  const auto begun = Clock::now();
  group_->send(x, to);
  waited_ += seconds_since(begun);
}

void Pipeline::receive(const Tensor& x, int from) {
  const ProfileSpan span(kWaitForStages);
  const auto begun = Clock::now();
  group_->receive(x, from);
  waited_ += seconds_since(begun);
}

// The stages' seconds; rows and columns, and the types of the sum and of the update; then the
// tensors, a device's through the host's memory. What a stage computes behind its last message of a
// step goes with the next step's.
void Pipeline::send_on(const StageState& state) {
  const int to = rank_of(stage_ + 1);
  const Tensor sum = ctx_.on_host(state.sum),
               update = state.update.empty() ? Tensor() : ctx_.on_host(state.update);
  told_ = computed();
  std::vector<double> seconds = seconds_;
  seconds.push_back(told_ - told_before_);
  seconds.push_back(encoder_seconds_);
  std::array<int64_t, 4> head{sum.dim(0), sum.dim(1), type_of(sum), type_of(update)};
  send(view_of(std::span(seconds)), to);
  send(view_of(std::span(head)), to);
  send(sum, to);
  if (!update.empty()) send(update, to);
}

StageState Pipeline::receive_state() {
  const int from = rank_of(stage_ - 1);
  std::vector<double> seconds(seconds_.size() + 1);
  std::array<int64_t, 4> head{};
  receive(view_of(std::span(seconds)), from);
  receive(view_of(std::span(head)), from);
  encoder_seconds_ = seconds.back();
  std::copy(seconds.begin(), seconds.end() - 1, seconds_.begin());
  StageState state;
  const auto next = [&](int64_t type) {
    if (type == kNoTensor) return Tensor();
    const Tensor there = ctx_.make({head[0], head[1]}, static_cast<DType>(type));
    const Tensor here = ctx_.on_cpu() ? there : Tensor(there.shape(), there.dtype());
    receive(here, from);
    if (!ctx_.on_cpu()) ctx_.backend().copy_in(here, there);
    return there;
  };
  state.sum = next(head[2]);
  state.update = next(head[3]);
  return state;
}

// The finished states go on to every stage behind: their decoder layers attend to them.
Tensor Pipeline::encode(Model& model, const StepTensors& in) {
  StageState state;
  if (stage_ > 0) state = receive_state();
  const double begun = computed();
  if (layers_.encodes()) state = model.encode_stage(in, std::move(state));
  encoder_seconds_ += computed() - begun;
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
    const Tensor before(x.shape(), DType::kF32);
    receive(before, rank_of(stage_ - 1));
    for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] += before.data<float>()[i];
  }
  if (!is_last()) send(x, rank_of(stage_ + 1));
}

void Pipeline::tell(std::span<int32_t> tokens) {
  TANDEM_CHECK(is_last());
  for (int stage = 0; stage < stage_; ++stage) send(view_of(tokens), rank_of(stage));
}

void Pipeline::hear(std::span<int32_t> tokens) {
  TANDEM_CHECK(!is_last());
  receive(view_of(tokens), rank_of(stages_ - 1));
}

StageSeconds Pipeline::seconds() const {
  TANDEM_CHECK(is_last());
  StageSeconds out{seconds_, encoder_seconds_};
  out.of_stage.push_back(computed() - computed_before_);
  return out;
}

Pipeline::Heads Pipeline::heads_of(const Model& model) {
  std::array<uint8_t, 2> heads{model.has_language_head(), model.has_output_head()};
  for (int stage = 0; stage + 1 < stages_; ++stage) {
    if (is_last()) group_->send(view_of(std::span(heads)), rank_of(stage));
    if (stage == stage_) group_->receive(view_of(std::span(heads)), rank_of(stages_ - 1));
  }
  return {heads[0] != 0, heads[1] != 0};
}

}  // namespace tandem
