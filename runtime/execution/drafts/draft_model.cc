#include "runtime/execution/drafts/draft_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/execution/choice/choose_tokens.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

bool ends_with(const proto::SamplingParams& params, int32_t token) {
  const auto& eos = params.eos_token_id();
  return !params.ignore_eos() && std::find(eos.begin(), eos.end(), token) != eos.end();
}

bool prepares(const WorkerGroup& group) {
  return group.compute_encoder && group.prepare_drafts && !group.pools();
}

}  // namespace

DraftModel::DraftModel(Context& ctx, Communicator& comm, LoadedDraftModel model,
                       const RunnerConfig& config)
    : ctx_(ctx),
      comm_(comm),
      model_(std::move(model.model)),
      shares_encoder_(model.shares_encoder),
      block_size_(config.block_size),
      pools_(ctx, model_->kv_cache_spec(), config.block_size, config.num_device_blocks,
             config.num_host_blocks),
      slots_(config.block_size, config.num_device_blocks, config.num_host_blocks),
      cost_(model.rows_of_a_step, model.rows_of_a_target_step) {
  if (!ctx.on_cpu())
    decoder_.emplace(ctx, *model_, config.block_size, config.record_steps, config.max_sequences);
}

// What this step writes is not the draft model's any more.
void DraftModel::begin_step(const proto::StepInput& step,
                            const std::vector<WorkerGroup*>& scheduled) {
  pools_.apply_copies(ctx_, step);
  slots_.apply_copies(step);
  beliefs_.clear();
  for (const WorkerGroup* group : scheduled) {
    if (group->pools()) continue;
    if (group->compute_encoder) slots_.clear(group->encoder.blocks, 0, group->encoder.length);
    for (const WorkerSequence& seq : group->seqs) {
      if (seq.chunk == 0) continue;
      const int drafts = std::max(seq.num_drafts, static_cast<int>(seq.drafts.size()));
      slots_.clear(seq.blocks, seq.num_computed, seq.num_computed + seq.chunk + drafts);
    }
  }
}

// --- The encoder ---------------------------------------------------------------------------------

void DraftModel::prepare(const std::vector<WorkerGroup*>& scheduled, const StepTensors& step,
                         const Tensor& states) {
  if (!shares_encoder_) {
    std::vector<const WorkerGroup*> groups;
    std::copy_if(scheduled.begin(), scheduled.end(), std::back_inserter(groups),
                 [](const WorkerGroup* group) { return prepares(*group); });
    return run_encoder(groups);
  }
  if (std::none_of(scheduled.begin(), scheduled.end(),
                   [](const WorkerGroup* group) { return prepares(*group); }))
    return;
  // All that are there: picking rows would cost more.
  model_->write_cross_kv(step, states, pools_.device());
  for (const WorkerGroup* group : scheduled)
    if (group->compute_encoder && !group->pools())
      slots_.fill(group->encoder.blocks, 0, group->encoder.length);
}

void DraftModel::run_encoder(const std::vector<const WorkerGroup*>& groups) {
  if (groups.empty()) return;
  ModelInput in;
  const std::optional<int32_t> padding = model_->limits().position_padding.encoder;
  for (const WorkerGroup* group : groups) append_encoder(*group, block_size_, in, padding);
  const StepTensors step(ctx_, StepPlan(ctx_, in, model_->step_layout(), StepHalf::kEncoder));
  model_->write_cross_kv(step, model_->encode(step), pools_.device());
  for (const WorkerGroup* group : groups)
    slots_.fill(group->encoder.blocks, 0, group->encoder.length);
}

// --- Drafts --------------------------------------------------------------------------------------

std::vector<DraftModel::Row> DraftModel::rows_to_draft(const std::vector<WorkerGroup*>& scheduled) {
  std::vector<Row> rows;
  for (WorkerGroup* group : scheduled) {
    const bool wanted = std::any_of(group->seqs.begin(), group->seqs.end(),
                                    [](const WorkerSequence& seq) { return seq.num_drafts > 0; });
    const int length = group->encoder.length;
    if (!wanted || slots_.count(group->encoder.blocks, length) < length) continue;
    for (WorkerSequence& seq : group->seqs) {
      if (seq.num_drafts == 0) continue;
      seq.drafted = true;
      // Its last token is always computed: what follows it is wanted.
      const int computed = slots_.count(seq.blocks, seq.length() - 1);
      Row& row = rows.emplace_back(Row{group, &seq, seq.output, computed});
      if (!group->params.has_logprobs()) continue;
      row.params = std::make_unique<proto::SamplingParams>(group->params);
      row.params->clear_logprobs();
    }
  }
  return rows;
}

void DraftModel::make_drafts(const std::vector<WorkerGroup*>& scheduled) {
  std::vector<Row> all = rows_to_draft(scheduled);
  std::vector<Row*> rows;
  for (Row& row : all) rows.push_back(&row);
  while (!rows.empty()) {
    choose_next(rows);
    agree(rows);
    for (Row* row : rows) {
      if (!row->takes) continue;
      row->seq->drafts.push_back(row->next);
      row->output.push_back(row->next);
      if (row->belief >= 0) beliefs_[row->seq->seq_id].push_back(row->belief);
    }
    std::erase_if(rows, [](const Row* row) { return !row->goes_on(); });
  }
  // Its scratch is free again: where the model's lies does not depend on drafts.
  if (!all.empty() && !ctx_.on_cpu()) ctx_.backend().begin_step();
}

bool DraftModel::Row::goes_on() const {
  return takes && static_cast<int>(seq->drafts.size()) < seq->num_drafts &&
         !ends_with(group->params, next);
}

// A greedy one is as likely to be right as others were that the draft model believed in as much;
// one that is drawn comes from the random number that the model's token will be drawn with.
void DraftModel::choose_next(const std::vector<Row*>& rows) {
  const auto chosen = run(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = *rows[i];
    row.next = chosen[i].token_id();
    if (!row.group->params.do_sample()) {
      row.belief = DraftConfidence::bucket_of(std::exp(static_cast<double>(chosen[i].logprob())));
      row.likely *= confidence_.likelihood(row.belief);
    }
    row.takes = row.likely >= row.seq->least_likelihood;
  }
}

void DraftModel::learn(int64_t seq_id, int right) {
  const auto it = beliefs_.find(seq_id);
  if (it == beliefs_.end()) return;
  const std::vector<int>& beliefs = it->second;
  for (int i = 0; i < std::min(right + 1, static_cast<int>(beliefs.size())); ++i)
    confidence_.record(beliefs[static_cast<size_t>(i)], i < right);
}

// Logits of their last tokens; those before are caught up on.
std::vector<proto::SequenceOutput> DraftModel::run(const std::vector<Row*>& rows) {
  const auto begun = Clock::now();
  ModelInput in;
  std::vector<SamplerSequence> views;
  std::vector<int32_t> last, ids;
  const std::optional<int32_t> padding = model_->limits().position_padding.decoder;
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = *rows[i];
    const std::vector<int32_t>& prompt = row.seq->prompt;
    const int length = static_cast<int>(prompt.size() + row.output.size());
    ids.clear();
    for (auto p = static_cast<size_t>(row.computed); p < static_cast<size_t>(length); ++p)
      ids.push_back(p < prompt.size() ? prompt[p] : row.output[p - prompt.size()]);
    append_decoder(row.seq->blocks, row.computed, ids, block_size_,
                   static_cast<int>(row.seq->prompt.size()), in);
    if (padding) skip_padding(*row.seq, row.computed, ids, *padding, in);
    if (i + 1 == rows.size() || rows[i + 1]->group != row.group)
      append_cross(*row.group, block_size_, in);
    last.push_back(static_cast<int32_t>(in.input_ids.size()) - 1);
    views.push_back({row.params ? row.params.get() : &row.group->params, row.group->encoder.tokens,
                     prompt, row.output, static_cast<uint32_t>(row.seq->index),
                     row.group->constraint.get()});
    slots_.fill(row.seq->blocks, row.computed, length);
    row.computed = length;
  }
  auto chosen = choose(in, views, last);
  cost_.add_draft(static_cast<int>(in.input_ids.size()),
                  std::chrono::duration<double>(Clock::now() - begun).count());
  return chosen;
}

// The tokens that follow rows of `in`.
std::vector<proto::SequenceOutput> DraftModel::choose(const ModelInput& in,
                                                      const std::vector<SamplerSequence>& views,
                                                      const std::vector<int32_t>& last) {
  if (!decoder_) {
    const Tensor hidden = model_->decode(StepTensors(in), pools_.device());
    return choose_tokens(ctx_, comm_, *model_, views, rows_of(ctx_, hidden, last));
  }
  ctx_.backend().begin_step();
  std::vector<DecoderRow> rows;
  for (size_t i = 0; i < views.size(); ++i) rows.push_back({views[i], last[i], /*place=*/-1});
  const auto flight = decoder_->launch(in, pools_.device(), rows, {}, nullptr);
  return decoder_->finish(*flight, views).rows;
}

// Ranks may differ in the last bits of a likelihood, and must run the same rows: rank 0 says.
void DraftModel::agree(const std::vector<Row*>& rows) {
  if (comm_.size() == 1) return;
  const size_t n = rows.size();
  std::vector<uint8_t> own(n), all(n * static_cast<size_t>(comm_.size()));
  for (size_t i = 0; i < n; ++i) own[i] = rows[i]->takes;
  const auto bytes_of = [](std::vector<uint8_t>& flags) {
    return Tensor::borrow(flags.data(), {static_cast<int64_t>(flags.size())}, DType::kU8);
  };
  comm_.all_gather(bytes_of(own), bytes_of(all));
  for (size_t i = 0; i < n; ++i) rows[i]->takes = all[i] != 0;
}

}  // namespace tandem
