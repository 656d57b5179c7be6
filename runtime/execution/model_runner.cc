#include "runtime/execution/model_runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "base/seconds_since.h"
#include "runtime/execution/choose_tokens.h"
#include "runtime/execution/encoder_runner.h"
#include "runtime/execution/step_spans.h"
#include "runtime/execution/verified_rows.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

// What the sampler saw when the rows' step was launched: before what stands for the tokens that it
// chooses was appended (not to beams).
std::vector<SamplerSequence> views_before(const std::vector<SampleRow>& rows) {
  std::vector<SamplerSequence> out;
  for (const SampleRow& row : rows) {
    SamplerSequence& view = out.emplace_back(sampler_view(row));
    if (!uses_beams(*view.params))
      view.output_ids = view.output_ids.first(view.output_ids.size() - 1);
  }
  return out;
}

// Rows of one chunk whose logits say something about the next prompt token.
struct PromptRows {
  int32_t first_position;  // of the prompt token that the first row predicts
  int32_t count;
};
PromptRows prompt_rows(const SampleRow& row) {
  const int32_t first = row.seq().num_computed + 1;
  const auto prompt = static_cast<int32_t>(row.seq().prompt.size());
  return {first, std::min(row.num_tokens, std::max(0, prompt - first))};
}

proto::SequenceGroupOutput* output_of(proto::StepOutput& out, const std::string& request_id) {
  return *std::find_if(out.mutable_outputs()->pointer_begin(), out.mutable_outputs()->pointer_end(),
                       [&](const auto* group) { return group->request_id() == request_id; });
}

}  // namespace

EncoderDecoderModelRunner::EncoderDecoderModelRunner(Context& ctx, Communicator& comm,
                                                     std::unique_ptr<Model> model, int block_size,
                                                     int num_device_blocks, int num_host_blocks,
                                                     bool record_steps, int max_drafts,
                                                     int max_sequences,
                                                     std::optional<LoadedDraftModel> draft_model)
    : ctx_(ctx),
      comm_(comm),
      model_(std::move(model)),
      block_size_(block_size),
      position_padding_(model_->limits().position_padding),
      pools_(ctx, model_->kv_cache_spec(), block_size, num_device_blocks, num_host_blocks),
      device_decoder_(ctx, *model_, block_size, record_steps, max_sequences),
      table_({block_size, num_device_blocks, num_host_blocks, model_->config().vocab_size,
              model_->limits().encoder_positions.value_or(0),
              model_->limits().decoder_positions.value_or(0), /*searches_beams=*/!ctx.on_cpu(),
              max_drafts, draft_model.has_value(), model_->limits().frames,
              model_->limits().default_global_tokens.has_value(),
              model_->limits().encoder_vocabulary}) {
  if (draft_model)
    draft_model_ = std::make_unique<DraftModel>(ctx, comm, std::move(*draft_model), block_size,
                                                num_device_blocks, num_host_blocks);
}

DeviceDecoder::Prepared EncoderDecoderModelRunner::prepare_decoding(
    std::span<const int32_t> sizes, const std::function<void(size_t done)>& told) {
  DeviceDecoder::Prepared out;
  try {
    for (size_t i = 0; i < sizes.size(); ++i) {
      out += device_decoder_.prepare_decoding(sizes[i], pools_.device());
      told(i + 1);
    }
  } catch (...) {
    comm_.abort();
    throw;
  }
  return out;
}

// --- Steps under way -----------------------------------------------------------------------------

void EncoderDecoderModelRunner::launch(const proto::StepInput& step) {
  ProfileSpan span(kStepSpan);
  const auto begun = std::chrono::steady_clock::now();
  // The step before this one may go on beside it, but for what the host has to choose in it.
  complete_all_but(1);
  if (!flights_.empty() && flights_.back().decoder && flights_.back().decoder->needs_host())
    complete_all_but(0);
  const auto scheduled = take_message(step);
  device_decoder_.sequences().forget(table_.take_forgotten());
  wait_for_tokens(scheduled);
  if (!ctx_.on_cpu()) ctx_.backend().begin_step();
  pools_.apply_copies(ctx_, step);
  if (draft_model_) make_drafts(step, scheduled);
  const Batch batch = make_batch(scheduled);
  say_step(span, batch);
  Flight flight;
  flight.out.set_step(step.step());
  std::unordered_map<const WorkerGroup*, int> outputs;
  for (const auto* group : scheduled) {
    outputs.emplace(group, flight.out.outputs_size());
    proto::SequenceGroupOutput& output = *flight.out.add_outputs();
    output.set_request_id(group->request_id);
    output.set_seq_id(group->seqs[0].seq_id);
  }
  for (const SampleRow& row : batch.rows)
    if (row.samples) flight.sampled.push_back({outputs.at(row.group), row.seq().seq_id});
  try {
    run_model(scheduled, batch, flight);
  } catch (...) {
    comm_.abort();  // the other ranks wait in a collective that this one will not enter
    throw;
  }
  table_.advance(scheduled);
  append_tokens(batch, flight);
  if (ctx_.on_cpu()) flight.out.set_seconds(seconds_since(begun));
  flights_.push_back(std::move(flight));
}

// Checks it, the copies too.
std::vector<WorkerGroup*> EncoderDecoderModelRunner::take_message(const proto::StepInput& step) {
  const ProfileSpan span(kMessageSpan);
  return table_.apply(step);
}

Batch EncoderDecoderModelRunner::make_batch(const std::vector<WorkerGroup*>& scheduled) const {
  const ProfileSpan span(kBatchSpan);
  return build_batch(scheduled, block_size_, position_padding_);
}

void EncoderDecoderModelRunner::make_drafts(const proto::StepInput& step,
                                            const std::vector<WorkerGroup*>& scheduled) {
  ProfileSpan span(kDraftsSpan);
  span.say({static_cast<int64_t>(scheduled.size())});
  try {
    draft_model_->begin_step(step, scheduled);
    draft_model_->make_drafts(scheduled);
  } catch (...) {
    comm_.abort();
    throw;
  }
}

// Sequences that go on: with their tokens, or with what stands for them. (Those of beams that the
// device does not search come with the next step.)
void EncoderDecoderModelRunner::append_tokens(const Batch& batch, Flight& flight) {
  if (flight.rows) {
    for (const auto& round : flight.rows->rounds())
      flight.rounds.push_back(flight.sampled[round.row].output);
    flight.beams = flight.rows->go_on(*flight.decoder, table_, device_decoder_.sequences());
    flight.rows.reset();
  }
  size_t row = 0;
  for (const SampleRow& sampled : batch.rows) {
    if (!sampled.samples) continue;
    const size_t i = row++;
    if (uses_beams(sampled.group->params)) continue;
    const auto& [output, seq_id] = flight.sampled[i];
    // The table's own, which the batch only reads.
    auto& group = const_cast<WorkerGroup&>(*sampled.group);
    if (!flight.decoder) {
      const auto& samples = flight.out.outputs(output).samples();
      auto known = std::find_if(samples.begin(), samples.end(),
                                [&](const auto& s) { return s.seq_id() == seq_id; });
      table_.append_token(group, seq_id, known->token_id());
      while (++known != samples.end() && known->seq_id() == seq_id)
        table_.append_behind_draft(group, seq_id, known->token_id());
      continue;
    }
    const int32_t id = flight.decoder->ids()[i];
    // (Where the host chooses, the step is completed before the id could be read.)
    flight.pending.emplace_back(i, table_.append_pending(group, seq_id, id < 0 ? id : -1));
  }
}

// Tokens that the host must know before it can say what to do with the next one.
void EncoderDecoderModelRunner::wait_for_tokens(const std::vector<WorkerGroup*>& scheduled) {
  if (flights_.empty() || !flights_.back().decoder) return;
  const auto vocabulary = model_->config().vocab_size;
  for (const auto* group : scheduled)
    if (!goes_on_ahead(*group, vocabulary, device_decoder_.sequences())) return complete_all_but(0);
}

// row: in flight.sampled.
void EncoderDecoderModelRunner::put_sample(Flight& flight, size_t row,
                                           proto::SequenceOutput sample) {
  const auto& [output, seq_id] = flight.sampled[row];
  sample.set_seq_id(seq_id);
  *flight.out.mutable_outputs(output)->add_samples() = std::move(sample);
}

void EncoderDecoderModelRunner::complete_all_but(size_t last) {
  for (size_t i = 0; i + last < flights_.size(); ++i) complete(flights_[i]);
}

void EncoderDecoderModelRunner::complete(Flight& flight) {
  if (!flight.decoder && !flight.encoder) return;
  const ProfileSpan span(kDeviceSpan);
  try {
    DeviceDecoder::Answer answer;
    if (flight.decoder)
      answer = device_decoder_.finish(*flight.decoder, views_before(flight.host_rows));
    flight.decoder.reset();
    for (const auto& [row, token] : flight.pending) table_.know(token, answer.rows[row].token_id());
    for (const auto& [round, beam, token] : flight.beams)
      table_.know(token, answer.rounds[round].token_ids(beam));
    for (size_t i = 0; i < answer.rounds.size(); ++i)
      *flight.out.mutable_outputs(flight.rounds[i])->mutable_moves() = std::move(answer.rounds[i]);
    for (size_t i = 0; i < answer.rows.size(); ++i)
      put_sample(flight, i, std::move(answer.rows[i]));
    if (flight.encoder) {
      const auto [from, to] = *flight.encoder;
      ctx_.backend().wait(to);
      flight.out.set_encoder_seconds(ctx_.backend().seconds_between(from, to));
      flight.encoder.reset();
    }
  } catch (...) {
    comm_.abort();
    throw;
  }
}

bool EncoderDecoderModelRunner::ready() {
  if (flights_.empty()) return false;
  const Flight& oldest = flights_.front();
  try {
    if (oldest.decoder) return ctx_.backend().reached(oldest.decoder->end());
    return !oldest.encoder || ctx_.backend().reached(oldest.encoder->second);
  } catch (...) {
    comm_.abort();
    throw;
  }
}

proto::StepOutput EncoderDecoderModelRunner::finish() {
  TANDEM_CHECK(!flights_.empty(), "no step is under way");
  complete(flights_.front());
  proto::StepOutput out = std::move(flights_.front().out);
  flights_.pop_front();
  return out;
}

// --- The model -----------------------------------------------------------------------------------

void EncoderDecoderModelRunner::run_model(const std::vector<WorkerGroup*>& scheduled,
                                          const Batch& batch, Flight& flight) {
  if (batch.input.has_encoder_work()) {
    run_encoder(scheduled, batch, flight);
    // Its scratch is free again: where the decoder's lies does not depend on the encoder.
    if (!ctx_.on_cpu()) ctx_.backend().begin_step();
  }
  if (!batch.input.has_decoder_work()) return;
  if (!ctx_.on_cpu()) return decode_on_device(batch, flight);
  decode(batch, flight);
}

void EncoderDecoderModelRunner::decode(const Batch& batch, Flight& flight) {
  const auto begun = std::chrono::steady_clock::now();
  const Tensor hidden = run_decoder(batch);
  add_prompt_logprobs(batch, hidden, flight.out);
  sample(batch, hidden, flight);
  const bool drafted = std::any_of(batch.rows.begin(), batch.rows.end(),
                                   [](const SampleRow& row) { return row.seq().drafted; });
  if (!drafted) return;
  // Its steps have been measured under the same load.
  draft_model_->cost().add_target(static_cast<int>(batch.input.input_ids.size()),
                                  seconds_since(begun));
  flight.out.set_draft_cost(draft_model_->cost().ratio());
}

Tensor EncoderDecoderModelRunner::run_decoder(const Batch& batch) {
  ProfileSpan span(kDecoderSpan);
  span.say({static_cast<int64_t>(batch.input.input_ids.size())});
  return model_->decode(StepTensors(batch.input), pools_.device());
}

// Every rank has the whole output, so that rank 0 can pool it alone.
void EncoderDecoderModelRunner::run_encoder(const std::vector<WorkerGroup*>& scheduled,
                                            const Batch& batch, Flight& flight) {
  ProfileSpan span(kEncoderSpan);
  span.say({batch.input.attention.encoder_start_loc.back()});
  const auto begun = std::chrono::steady_clock::now();
  const uint64_t from = ctx_.on_cpu() ? 0 : ctx_.backend().mark();
  const StepTensors step(ctx_,
                         StepPlan(ctx_, batch.input, model_->step_layout(), StepHalf::kEncoder));
  const Tensor states = model_->encode(step);
  const auto cached = static_cast<int64_t>(batch.input.attention.cross_slot_mapping.size());
  if (cached > 0) model_->write_cross_kv(step, states.rows(0, cached), pools_.device());
  if (cached > 0 && draft_model_) draft_model_->prepare(scheduled, step, states.rows(0, cached));
  if (!ctx_.on_cpu()) flight.encoder = {from, ctx_.backend().mark()};
  for (const PooledRows& rows : batch.pooled) {
    if (comm_.rank() != 0) break;
    auto* group = output_of(flight.out, rows.group->request_id);
    *group->mutable_embedding() =
        pool(host_floats(ctx_, states.rows(rows.first, rows.end)), rows.group->params.pooling());
  }
  if (!ctx_.on_cpu()) return;
  flight.out.set_encoder_seconds(seconds_since(begun));
}

namespace {

std::vector<const SampleRow*> sampled_rows(const Batch& batch) {
  std::vector<const SampleRow*> rows;
  for (const SampleRow& row : batch.rows)
    if (row.samples) rows.push_back(&row);
  return rows;
}

}  // namespace

void EncoderDecoderModelRunner::sample(const Batch& batch, const Tensor& hidden, Flight& flight) {
  const std::vector<const SampleRow*> sequences = sampled_rows(batch);
  const VerifiedRows rows(sequences);
  if (rows.views().empty()) return;
  ProfileSpan span(kSampleSpan);
  span.say({static_cast<int64_t>(rows.views().size())});
  auto sampled =
      choose_tokens(ctx_, comm_, *model_, rows.views(), rows_of(ctx_, hidden, rows.indices()));
  std::vector<int> right(sequences.size(), -1);  // drafts: all of a sequence but the first
  for (auto& [row, output] : rows.take(std::move(sampled))) {
    ++right[row];
    put_sample(flight, row, std::move(output));
  }
  if (!draft_model_) return;
  for (size_t i = 0; i < sequences.size(); ++i) draft_model_->learn(sequences[i]->seq(), right[i]);
}

void EncoderDecoderModelRunner::decode_on_device(const Batch& batch, Flight& flight) {
  std::vector<SampleRow> sampled;
  for (const SampleRow* row : sampled_rows(batch)) sampled.push_back(*row);
  flight.rows.emplace(sampled, block_size_, device_decoder_);
  const bool prompts = std::any_of(batch.rows.begin(), batch.rows.end(), [](const SampleRow& row) {
    return row.group->params.has_prompt_logprobs();
  });
  Tensor hidden;
  flight.decoder = device_decoder_.launch(batch.input, pools_.device(), flight.rows->rows(),
                                          flight.rows->rounds(), prompts ? &hidden : nullptr);
  if (flight.decoder->needs_host()) flight.host_rows = std::move(sampled);
  if (prompts) add_prompt_logprobs(batch, hidden, flight.out);
}

// One group at a time: prompts are short, and the logits of a whole step's prompts could be large.
void EncoderDecoderModelRunner::add_prompt_logprobs(const Batch& batch, const Tensor& hidden,
                                                    proto::StepOutput& out) {
  for (const SampleRow& row : batch.rows) {
    const proto::SamplingParams& params = row.group->params;
    if (!params.has_prompt_logprobs() || row.seq().index != 0) continue;
    const PromptRows wanted = prompt_rows(row);
    if (wanted.count <= 0) continue;
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < wanted.count; ++i) indices.push_back(row.first_token + i);
    const Tensor logits = ctx_.on_host(model_->compute_logits(rows_of(ctx_, hidden, indices)));
    if (comm_.rank() != 0) continue;  // it took part in the gather
    const std::vector<int32_t>& prompt = row.seq().prompt;
    auto* group = output_of(out, row.group->request_id);
    group->set_prompt_logprobs_start(wanted.first_position);
    for (int32_t i = 0; i < wanted.count; ++i)
      *group->add_prompt_logprobs() = token_logprobs(
          {logits.row<float>(i), static_cast<size_t>(logits.dim(1))},
          prompt[static_cast<size_t>(wanted.first_position + i)], params.prompt_logprobs());
  }
}

}  // namespace tandem
