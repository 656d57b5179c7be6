#include "runtime/execution/ranks/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>
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

Pipeline::Pipeline(Context& ctx, std::shared_ptr<Communicator> group, bool by_device, int stages,
                   Stage layers)
    : ctx_(ctx),
      group_(std::move(group)),
      by_device_(by_device),
      stages_(stages),
      ranks_(group_->size() / stages),
      stage_(group_->rank() / ranks_),
      layers_(std::move(layers)),
      clock_(ctx),
      seconds_(static_cast<size_t>(stage_)) {
  TANDEM_CHECK_EQ(ranks_ * stages_, group_->size());
  static_assert(kMostUnheard < kPiecesBetween);
}

double StageSeconds::sum() const { return std::accumulate(of_stage.begin(), of_stage.end(), 0.0); }

void Pipeline::begin_step() {
  told_before_ = told_;
  clock_.begin_step();
  encoder_seconds_ = 0;
  std::fill(seconds_.begin(), seconds_.end(), 0);
}

void Pipeline::end_step() { clock_.end_step(); }

StageClock::Seconds Pipeline::untold() {
  told_ = clock_.seconds();
  return {told_.all - told_before_.all, told_.encoder - told_before_.encoder};
}

// What it waits is not computed. A send waits only if the receiver is far behind.
void Pipeline::send(const Tensor& x, int to) {
  const ProfileSpan span(kWaitForStages);
  const auto begun = std::chrono::steady_clock::now();
  group_->send(x, to);
  clock_.add_wait(seconds_since(begun));
}

void Pipeline::receive(const Tensor& x, int from) {
  const ProfileSpan span(kWaitForStages);
  const auto begun = std::chrono::steady_clock::now();
  group_->receive(x, from);
  clock_.add_wait(seconds_since(begun));
}

// The stages' seconds; rows and columns, and the types of the sum and of the update; then the
// tensors. What a stage computes behind its last message of a step goes with the next step's.
void Pipeline::send_on(const StageState& state) {
  const int to = rank_of(stage_ + 1);
  const auto sent = [&](const Tensor& x) { return by_device_ || x.empty() ? x : ctx_.on_host(x); };
  const Tensor sum = sent(state.sum), update = sent(state.update);
  const StageClock::Seconds own = untold();
  std::vector<double> seconds = seconds_;
  seconds.push_back(own.all);
  seconds.push_back(encoder_seconds_ + own.encoder);
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
    const bool direct = by_device_ || ctx_.on_cpu();
    const Tensor here = direct ? there : Tensor(there.shape(), there.dtype());
    receive(here, from);
    if (!direct) ctx_.backend().copy_in(here, there);
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
  if (layers_.encodes()) {
    clock_.begin_work(/*encoder=*/true);
    state = model.encode_stage(in, std::move(state));
    clock_.end_work();
  }
  if (!is_last()) send_on(state);
  return layers_.decodes() ? state.sum : Tensor();
}

// The last stage is at work until the end of the step: it chooses tokens.
Tensor Pipeline::decode(const std::function<StageState(StageState)>& layers) {
  if (!layers_.decodes()) return {};
  StageState state;
  if (!layers_.decoder.has_first()) state = receive_state();
  clock_.begin_work(/*encoder=*/false);
  state = layers(std::move(state));
  if (is_last()) return state.sum;
  clock_.end_work();
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

StageSeconds Pipeline::seconds() {
  TANDEM_CHECK(is_last());
  if (clock_.is_at_work()) clock_.end_work();
  const StageClock::Seconds own = untold();
  StageSeconds out{seconds_, encoder_seconds_ + own.encoder};
  out.of_stage.push_back(own.all);
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
