#include "models/blocks/output_head.h"

#include <utility>

#include "models/config/labels.h"
#include "models/task.h"

namespace tandem {
namespace {

constexpr int64_t kSpanOutputs = 2;

}  // namespace

struct OutputHead::Layers {
  explicit Layers(const Build& b)
      : alone(make_local_communicator()), build{b.ctx, *alone, b.dtype} {
    if (b.ctx.on_cpu()) build.dtype = DType::kF32;
    build.adapters = b.adapters;
  }

  const std::unique_ptr<Communicator> alone;
  Build build;
  std::optional<ColumnParallelLinear> dense, out;
};

OutputHead OutputHead::of_labels(const Weights& w, const Build& b, int64_t d_model,
                                 int64_t outputs) {
  auto layers = std::make_shared<Layers>(b);
  layers->dense.emplace(w / "dense", layers->build, d_model, d_model, Activation::kTanh);
  layers->out.emplace(w / "out_proj", layers->build, d_model, outputs);
  return OutputHead(std::move(layers));
}

OutputHead OutputHead::of_spans(const Weights& w, const Build& b, int64_t d_model) {
  auto layers = std::make_shared<Layers>(b);
  layers->out.emplace(w, layers->build, d_model, kSpanOutputs);
  return OutputHead(std::move(layers));
}

Tensor OutputHead::forward(const Tensor& hidden) const {
  return layers_->out->forward(layers_->dense ? layers_->dense->forward(hidden) : hidden);
}

std::optional<OutputHead> find_output_head(const Weights& root, const Build& b,
                                           const ModelConfig& c) {
  const TaskSet tasks = tasks_of(c);
  if (tasks.has(Task::kClassify))
    return OutputHead::of_labels(root / "classification_head", b, c.d_model,
                                 std::ssize(labels_of(c).names));
  if (tasks.has(Task::kAnswer)) return OutputHead::of_spans(root / "qa_outputs", b, c.d_model);
  return std::nullopt;
}

}  // namespace tandem
