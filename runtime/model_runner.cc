#include "runtime/model_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "runtime/beam_search.h"
#include "runtime/encoder_runner.h"
#include "runtime/sampler.h"
#include "runtime/sharded_sampler.h"

namespace tandem {
namespace {

std::span<const int32_t> span_of(const google::protobuf::RepeatedField<int32_t>& f) {
  return {f.data(), static_cast<size_t>(f.size())};
}

SamplerSequence sampler_view(const SampleRow& row) {
  const proto::SequenceData& data = row.group->seq_data(row.seq_index);
  return {&row.group->sampling_params(), span_of(row.group->encoder_seq_data().prompt_token_ids()),
          span_of(data.prompt_token_ids()), span_of(data.output_token_ids()),
          static_cast<uint32_t>(data.index())};
}

// Rows of one chunk whose logits say something about the next prompt token.
struct PromptRows {
  int32_t first_position;  // of the prompt token that the first row predicts
  int32_t count;
};
PromptRows prompt_rows(const SampleRow& row) {
  const proto::SequenceData& data = row.group->seq_data(row.seq_index);
  const int32_t first = data.num_computed_tokens() + 1;
  return {first, std::min(row.num_tokens, std::max(0, data.prompt_token_ids_size() - first))};
}

proto::SequenceGroupOutput* output_of(proto::StepOutput& out, const std::string& request_id) {
  return *std::find_if(out.mutable_outputs()->pointer_begin(), out.mutable_outputs()->pointer_end(),
                       [&](const auto* group) { return group->request_id() == request_id; });
}

}  // namespace

EncoderDecoderModelRunner::EncoderDecoderModelRunner(Context& ctx, Communicator& comm,
                                                     std::unique_ptr<Model> model, int block_size,
                                                     int num_device_blocks, int num_host_blocks,
                                                     bool record_steps)
    : ctx_(ctx),
      comm_(comm),
      model_(std::move(model)),
      block_size_(block_size),
      pools_(ctx, model_->kv_cache_spec(), block_size, num_device_blocks, num_host_blocks),
      device_decoder_(ctx, *model_, record_steps),
      table_({block_size, num_device_blocks, num_host_blocks, model_->config().vocab_size,
              model_->config().max_position_embeddings}) {}

proto::StepOutput EncoderDecoderModelRunner::execute(const proto::StepInput& step) {
  proto::StepOutput out;
  out.set_step(step.step());
  const auto scheduled = table_.apply(step);  // checks the message, the copies too
  if (!ctx_.on_cpu()) ctx_.backend().begin_step();
  pools_.apply_copies(ctx_, step);
  const Batch batch = build_batch(scheduled, block_size_);
  for (const auto* group : scheduled) {
    proto::SequenceGroupOutput& output = *out.add_outputs();
    output.set_request_id(group->request_id());
    output.set_seq_id(group->seq_data(0).seq_id());
  }

  try {
    run_model(batch, out);
  } catch (...) {
    comm_.abort();  // the other ranks wait in a collective that this one will not enter
    throw;
  }
  table_.advance(scheduled);
  std::unordered_map<std::string, proto::SequenceGroupMetadata*> by_id;
  for (auto* group : scheduled) by_id.emplace(group->request_id(), group);
  for (const auto& group : out.outputs()) {
    proto::SequenceGroupMetadata& known = *by_id.at(group.request_id());
    if (uses_beams(known.sampling_params())) continue;  // their tokens come with the next step
    for (const auto& s : group.samples()) table_.append_token(known, s.seq_id(), s.token_id());
  }
  return out;
}

void EncoderDecoderModelRunner::run_model(const Batch& batch, proto::StepOutput& out) {
  std::optional<StepTensors> step;  // of both halves
  if (batch.input.has_encoder_work()) {
    step.emplace(ctx_, StepPlan(ctx_, batch.input, model_->step_layout()));
    run_encoder(batch, *step, out);
  }
  if (!batch.input.has_decoder_work()) return;
  if (!ctx_.on_cpu()) {
    decode_on_device(batch, step ? &*step : nullptr, out);
  } else {
    const Tensor hidden = model_->decode(StepTensors(batch.input), pools_.device());
    add_prompt_logprobs(batch, hidden, out);
    sample(batch, hidden, out);
  }
}

// Every rank has the whole output, so that rank 0 can pool it alone.
void EncoderDecoderModelRunner::run_encoder(const Batch& batch, const StepTensors& step,
                                            proto::StepOutput& out) {
  const auto begun = std::chrono::steady_clock::now();
  const Tensor states = model_->encode(step);
  const auto cached = static_cast<int64_t>(batch.input.attention.cross_slot_mapping.size());
  if (cached > 0) model_->write_cross_kv(step, states.rows(0, cached), pools_.device());
  for (const PooledRows& rows : batch.pooled) {
    if (comm_.rank() != 0) break;
    auto* group = output_of(out, rows.group->request_id());
    *group->mutable_embedding() = pool(host_floats(ctx_, states.rows(rows.first, rows.end)),
                                       rows.group->sampling_params().pooling());
  }
  if (!ctx_.on_cpu()) ctx_.backend().synchronize();  // the time is the device's
  out.set_encoder_seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
}

Tensor EncoderDecoderModelRunner::rows_of(const Tensor& hidden, const std::vector<int32_t>& rows) {
  const Tensor chosen = ctx_.make({static_cast<int64_t>(rows.size()), hidden.dim(1)});
  Tensor indices = Tensor::borrow(rows);
  if (!ctx_.on_cpu()) {
    indices = ctx_.make(indices.shape(), DType::kI32);
    ctx_.backend().copy_in(Tensor::borrow(rows), indices);
  }
  ops::gather_rows(ctx_, {hidden, indices, chosen});
  return chosen;
}

// One rank: every row is sampled from its logits, in place.
std::vector<proto::SequenceOutput> EncoderDecoderModelRunner::sample_rows(
    const std::vector<SamplerSequence>& rows, const Tensor& logits) {
  std::vector<proto::SequenceOutput> sampled(rows.size());
  const auto width = static_cast<size_t>(logits.dim(1));
  ctx_.pool().run(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const auto k = static_cast<size_t>(i);
    sampled[k] = tandem::sample(rows[k], {logits.row<float>(i), width});
  });
  return sampled;
}

namespace {

std::vector<const SampleRow*> sampled_rows(const Batch& batch) {
  std::vector<const SampleRow*> rows;
  for (const SampleRow& row : batch.rows)
    if (row.samples) rows.push_back(&row);
  return rows;
}

int32_t last_token(const SampleRow& row) { return row.first_token + row.num_tokens - 1; }

void put_samples(const std::vector<const SampleRow*>& rows,
                 std::vector<proto::SequenceOutput> sampled, proto::StepOutput& out) {
  std::unordered_map<std::string, proto::SequenceGroupOutput*> outputs;
  for (auto& group : *out.mutable_outputs()) outputs.emplace(group.request_id(), &group);
  for (size_t i = 0; i < rows.size(); ++i) {
    sampled[i].set_seq_id(rows[i]->group->seq_data(rows[i]->seq_index).seq_id());
    *outputs.at(rows[i]->group->request_id())->add_samples() = std::move(sampled[i]);
  }
}

}  // namespace

void EncoderDecoderModelRunner::sample(const Batch& batch, const Tensor& hidden,
                                       proto::StepOutput& out) {
  const auto rows = sampled_rows(batch);
  if (rows.empty()) return;
  std::vector<SamplerSequence> views;
  std::vector<int32_t> indices;
  for (const SampleRow* row : rows) {
    views.push_back(sampler_view(*row));
    indices.push_back(last_token(*row));
  }
  const Tensor chosen = rows_of(hidden, indices);
  put_samples(rows,
              comm_.size() == 1
                  ? sample_rows(views, model_->compute_logits(chosen))
                  : sample_sharded(ctx_, comm_, views, model_->compute_logits_shard(chosen),
                                   model_->config().vocab_size),
              out);
}

void EncoderDecoderModelRunner::decode_on_device(const Batch& batch, const StepTensors* sent,
                                                 proto::StepOutput& out) {
  const auto rows = sampled_rows(batch);
  std::vector<DecoderRow> wanted;
  for (const SampleRow* row : rows) wanted.push_back({sampler_view(*row), last_token(*row)});
  const bool prompts = std::any_of(batch.rows.begin(), batch.rows.end(), [](const SampleRow& row) {
    return row.group->sampling_params().has_prompt_logprobs();
  });
  Tensor hidden;
  put_samples(
      rows,
      device_decoder_.run(batch.input, sent, pools_.device(), wanted, prompts ? &hidden : nullptr),
      out);
  if (prompts) add_prompt_logprobs(batch, hidden, out);
}

// One group at a time: prompts are short, and the logits of a whole step's prompts could be large.
void EncoderDecoderModelRunner::add_prompt_logprobs(const Batch& batch, const Tensor& hidden,
                                                    proto::StepOutput& out) {
  for (const SampleRow& row : batch.rows) {
    const proto::SamplingParams& params = row.group->sampling_params();
    if (!params.has_prompt_logprobs() || row.group->seq_data(row.seq_index).index() != 0) continue;
    const PromptRows wanted = prompt_rows(row);
    if (wanted.count <= 0) continue;
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < wanted.count; ++i) indices.push_back(row.first_token + i);
    const Tensor logits = ctx_.on_host(model_->compute_logits(rows_of(hidden, indices)));
    if (comm_.rank() != 0) continue;  // it took part in the gather
    const auto& prompt = row.group->seq_data(row.seq_index).prompt_token_ids();
    auto* group = output_of(out, row.group->request_id());
    group->set_prompt_logprobs_start(wanted.first_position);
    for (int32_t i = 0; i < wanted.count; ++i)
      *group->add_prompt_logprobs() =
          token_logprobs({logits.row<float>(i), static_cast<size_t>(logits.dim(1))},
                         prompt[wanted.first_position + i], params.prompt_logprobs());
  }
}

}  // namespace tandem
