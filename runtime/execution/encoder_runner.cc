#include "runtime/execution/encoder_runner.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tandem {
namespace {

void append(ModelInput& in, const EncoderIds& sequence, std::optional<int32_t> padding) {
  const std::vector<int32_t>& ids = sequence.ids;
  TANDEM_CHECK(!ids.empty());
  int32_t position = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    in.encoder_input_ids.push_back(ids[i]);
    const bool counts = ids[i] != padding;
    in.encoder_positions.push_back(counts ? position++ : -1);
  }
  in.attention.add_encoder(static_cast<int32_t>(ids.size()), sequence.global_positions);
}

}  // namespace

Tensor host_floats(Context& ctx, const Tensor& t) {
  const Tensor here = ctx.on_host(t);
  if (here.dtype() == DType::kF32) return here;
  TANDEM_CHECK(here.contiguous());
  HostTensor bits;
  bits.data = static_cast<const std::byte*>(here.raw());
  bits.dtype = here.dtype();
  bits.shape = here.shape();
  return to_float(bits).reshape(here.shape());
}

std::vector<Tensor> encode_sequences(Context& ctx, Model& model,
                                     std::span<const EncoderIds> sequences,
                                     int max_batched_tokens) {
  TANDEM_CHECK(model.limits().reads_ids(), "the encoder reads frames");
  std::vector<Tensor> out;
  for (size_t first = 0; first < sequences.size();) {
    ModelInput in;
    size_t last = first;
    while (last < sequences.size() &&
           (last == first || in.encoder_input_ids.size() + sequences[last].ids.size() <=
                                 static_cast<size_t>(max_batched_tokens)))
      append(in, sequences[last++], model.limits().position_padding.encoder);
    if (!ctx.on_cpu()) ctx.backend().begin_step();
    const StepPlan plan(ctx, in, model.step_layout(), StepHalf::kEncoder);
    const Tensor states = host_floats(ctx, model.encode(StepTensors(ctx, plan)));
    const auto& start = in.attention.encoder_start_loc;
    for (size_t i = 0; i < last - first; ++i) out.push_back(states.rows(start[i], start[i + 1]));
    first = last;
  }
  return out;
}

std::vector<float> mean_pool(const Tensor& states) {
  std::vector<double> sum(static_cast<size_t>(states.dim(1)), 0.0);
  for (int64_t i = 0; i < states.dim(0); ++i)
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += states.row<float>(i)[k];
  std::vector<float> mean(sum.size());
  for (size_t k = 0; k < sum.size(); ++k)
    mean[k] = static_cast<float>(sum[k] / static_cast<double>(states.dim(0)));
  return mean;
}

proto::Embedding pool(const Tensor& states, const proto::Pooling& pooling) {
  TANDEM_CHECK_GT(states.dim(0), 0);
  std::vector<float> values;
  if (pooling.kind() == proto::Pooling::MEAN) {
    values = mean_pool(states);
  } else {
    const bool first = pooling.kind() == proto::Pooling::CLS;
    const float* row = states.row<float>(first ? 0 : states.dim(0) - 1);
    values.assign(row, row + states.dim(1));
  }
  if (pooling.normalize()) {
    double squares = 0;
    for (const float v : values) squares += static_cast<double>(v) * v;
    const double norm = std::sqrt(squares);
    if (norm > 0)
      for (float& v : values) v = static_cast<float>(v / norm);
  }
  proto::Embedding out;
  out.mutable_values()->Add(values.begin(), values.end());
  return out;
}

std::vector<proto::Embedding> pool_ranges(Context& ctx, const Tensor& states,
                                          std::span<const PooledRange> ranges) {
  std::vector<proto::Embedding> out;
  if (ctx.on_cpu()) {
    for (const auto& [first, end, pooling] : ranges)
      out.push_back(pool(states.rows(first, end), *pooling));
    return out;
  }
  if (ranges.empty()) return out;
  std::vector<int32_t> rows;
  for (const auto& [first, end, pooling] : ranges) {
    TANDEM_CHECK_LT(first, end);
    const bool all = pooling->kind() == proto::Pooling::MEAN;
    const bool last = !all && pooling->kind() != proto::Pooling::CLS;
    rows.insert(rows.end(), {last ? end - 1 : first, all || last ? end : first + 1});
  }
  const Tensor sums = ctx.make({std::ssize(ranges), states.dim(1)}, DType::kF32);
  ops::sum_ranges(ctx, {states, step_ranges(ctx, rows), sums});
  const Tensor here = ctx.on_host(sums);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    float* const values = here.row<float>(row);
    const auto count = static_cast<float>(rows[2 * i + 1] - rows[2 * i]);
    for (int64_t k = 0; k < here.dim(1); ++k) values[k] /= count;
    out.push_back(pool(here.rows(row, row + 1), *ranges[i].pooling));
  }
  return out;
}

}  // namespace tandem
