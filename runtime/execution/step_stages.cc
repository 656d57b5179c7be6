#include "runtime/execution/step_stages.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"
#include "base/log/log.h"
#include "models/adapters/adapter_store.h"
#include "runtime/execution/choice/choose_tokens.h"
#include "runtime/execution/encoder_runner.h"
#include "runtime/execution/say_step.h"
#include "runtime/request/constraint_store.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

SequenceLimits limits_of(const Context& ctx, const Model& model, const RunnerConfig& config,
                         bool draft_model, Pipeline* pipeline, bool encodes_only) {
  const ModelLimits& limits = model.limits();
  Pipeline::Heads heads{model.has_language_head(), model.has_output_head()};
  if (pipeline != nullptr) heads = pipeline->heads_of(model);
  if (encodes_only) heads.language = true;  // of other ranks
  return {.block_size = config.block_size,
          .num_device_blocks = config.num_device_blocks,
          .num_host_blocks = config.num_host_blocks,
          .vocab_size = model.config().vocab_size,
          .max_encoder_positions = limits.encoder_positions.value_or(0),
          .max_decoder_positions = limits.decoder_positions.value_or(0),
          .searches_beams = !ctx.on_cpu() && pipeline == nullptr,
          .max_drafts = config.max_drafts,
          .draft_model = draft_model,
          .frames = limits.frames,
          .global_attention = limits.default_global_tokens.has_value(),
          .whole_prompts = limits.whole_prompts,
          .encoder_vocab_size = limits.encoder_vocabulary,
          .language_head = heads.language,
          .output_head = heads.output,
          .decoder_layers = model.gives_cross_weights() ? model.config().decoder_layers : 0,
          .decoder_heads = model.config().decoder_attention_heads};
}

proto::SequenceGroupOutput* output_of(proto::StepOutput& out, const std::string& request_id) {
  return *std::find_if(out.mutable_outputs()->pointer_begin(), out.mutable_outputs()->pointer_end(),
                       [&](const auto* group) { return group->request_id() == request_id; });
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

void clear(Context& ctx, const Tensor& x) {
  if (ctx.on_cpu()) {
    std::memset(x.raw(), 0, x.bytes());
    return;
  }
  std::vector<std::byte> zeros(x.bytes());
  ctx.backend().copy_in(Tensor::borrow(zeros.data(), x.shape(), x.dtype()), x);
}

}  // namespace

std::vector<const SampleRow*> ModelStep::sampled_rows() const {
  std::vector<const SampleRow*> rows;
  for (const SampleRow& row : batch.rows)
    if (row.samples) rows.push_back(&row);
  return rows;
}

StepStages::StepStages(RankModel rank, const RunnerConfig& config)
    : ctx_(rank.ctx),
      comm_(rank.comm),
      adapters_(std::move(rank.adapters)),
      pipeline_(std::move(rank.pipeline)),
      outbox_(std::move(rank.outbox)),
      inbox_(std::move(rank.inbox)),
      model_(std::move(rank.model)),
      block_size_(config.block_size),
      position_padding_(model_->limits().position_padding),
      // (A rank of encoders keeps one step's blocks, and has those of the largest so far.)
      pools_(ctx_, model_->kv_cache_spec(), config.block_size,
             outbox_ ? 1 : config.num_device_blocks, config.num_host_blocks),
      table_(limits_of(ctx_, *model_, config, rank.draft_model.has_value(), pipeline_.get(),
                       outbox_ != nullptr)),
      constraints_(std::move(rank.constraints)) {
  if (!chooses_tokens()) unheard_ = std::make_unique<UnheardTokens>(*pipeline_, table_);
  if (!rank.draft_model) return;
  draft_model_ = std::make_unique<DraftModel>(ctx_, comm_, std::move(*rank.draft_model), config);
}

Communicator& StepStages::group() {
  if (inbox_) return inbox_->group();
  if (outbox_) return outbox_->group();
  return pipeline_ ? pipeline_->group() : comm_;
}

ModelStep StepStages::take_message(const proto::StepInput& input) {
  const ProfileSpan span(kMessageSpan);
  ModelStep step;
  step.scheduled = table_.apply(input);
  step.forgotten = table_.take_forgotten();
  for (WorkerGroup* group : step.scheduled)
    if (group->params.has_constraint() && group->constraint == nullptr) find_constraint(*group);
  return step;
}

// It was made where the request was prepared. Another process makes it once more.
void StepStages::find_constraint(WorkerGroup& group) {
  if (constraints_ == nullptr) return;
  try {
    group.constraint = constraints_->get(group.params.constraint());
  } catch (const InputError& error) {
    log_warning("request {}: {}", group.request_id, error.what());
  }
}

void StepStages::prepare(const proto::StepInput& input, ModelStep& step, ProfileSpan& span) {
  if (inbox_) inbox_->let_go();
  if (input.takes_size() > 0) take_encoded(input);
  pools_.apply_copies(ctx_, input);
  use_adapters(step);
  if (draft_model_) make_drafts(input, step);
  build_batch(step);
  step.out.set_step(input.step());
  say_step(span, step.batch);
}

void StepStages::take_encoded(const proto::StepInput& input) {
  ProfileSpan span(kTakeSpan);
  span.say({input.takes_size()});
  if (inbox_ == nullptr) throw std::runtime_error("step input: takes: no rank runs encoders");
  or_abort(group(), [&] { inbox_->take(input, cache()); });
}

// --- Stages of a pipeline ------------------------------------------------------------------------

void StepStages::begin_step() {
  if (pipeline_) pipeline_->begin_step();
}

void StepStages::end_step(ModelStep& step) {
  if (!pipeline_) return;
  if (pipeline_->is_last()) {
    const StageSeconds seconds = pipeline_->seconds();
    step.out.mutable_stage_seconds()->Add(seconds.of_stage.begin(), seconds.of_stage.end());
    step.out.set_pipeline_seconds(step.out.seconds());
    step.out.set_encoder_seconds(seconds.encoder);
    step.out.set_seconds(seconds.sum());
  }
  pipeline_->end_step();
}

void StepStages::hear_tokens(const proto::StepInput& input) {
  if (unheard_) or_abort(group(), [&] { unheard_->hear_for(input); });
}

void StepStages::tell_tokens(const ModelStep& step) {
  if (!pipeline_ || !pipeline_->is_last()) return;
  std::vector<int32_t> tokens;
  const std::vector<const SampleRow*> rows = step.sampled_rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!UnheardTokens::is_told(*rows[i])) continue;
    const size_t end = tokens.size() + UnheardTokens::most_of(*rows[i]);
    step.for_each_token(i, [&](int32_t token, bool) { tokens.push_back(token); });
    tokens.resize(end, UnheardTokens::kNone);
  }
  if (!tokens.empty()) pipeline_->tell(tokens);
}

void StepStages::expect_tokens(const ModelStep& step) { unheard_->expect(step.sampled_rows()); }

// --- Adapters ------------------------------------------------------------------------------------

AdapterSet* StepStages::adapters() { return adapters_ ? &adapters_->set() : nullptr; }

// Those that are not here yet are loaded now, on all ranks at once.
void StepStages::use_adapters(const ModelStep& step) {
  std::vector<AdapterStore::Source> used;
  for (const WorkerGroup* group : step.scheduled) {
    if (!group->params.has_adapter()) continue;
    const proto::Adapter& adapter = group->params.adapter();
    if (adapters_ == nullptr || adapter.id() == 0)
      throw std::runtime_error("sampling_params.adapter: this worker has no adapters");
    used.push_back({adapter.id(), adapter.name(), adapter.path()});
  }
  if (!used.empty()) or_abort(group(), [&] { adapters_->use(used); });
}

void StepStages::make_drafts(const proto::StepInput& input, ModelStep& step) {
  ProfileSpan span(kDraftsSpan);
  span.say({static_cast<int64_t>(step.scheduled.size())});
  or_abort(comm_, [&] {
    draft_model_->begin_step(input, step.scheduled);
    draft_model_->make_drafts(step.scheduled);
  });
}

void StepStages::build_batch(ModelStep& step) {
  {
    const ProfileSpan span(kBatchSpan);
    step.batch = tandem::build_batch(step.scheduled, block_size_, position_padding_);
  }
  std::unordered_map<const WorkerGroup*, int> outputs;
  for (const auto* group : step.scheduled) {
    outputs.emplace(group, step.out.outputs_size());
    proto::SequenceGroupOutput& output = *step.out.add_outputs();
    output.set_request_id(group->request_id);
    output.set_seq_id(group->seqs[0].seq_id);
  }
  for (const SampleRow& row : step.batch.rows)
    if (row.samples) step.sampled.push_back({outputs.at(row.group), row.seq().seq_id});
}

Tensor StepStages::encode(ModelStep& step) {
  const ModelInput& input = step.batch.input;
  const StepTensors tensors(ctx_, StepPlan(ctx_, input, model_->step_layout(), StepHalf::kEncoder));
  const AdapterSet::Scope rows(adapters(), step.batch.encoder_adapters);
  const Tensor states = pipeline_ ? pipeline_->encode(*model_, tensors) : model_->encode(tensors);
  // Sources that are pooled lie behind the others, and are not cached.
  const auto cached = static_cast<int64_t>(input.attention.cross_slot_mapping.size());
  if (cached == 0 || states.empty()) return states;
  const AdapterSet::Scope cached_rows(adapters(), step.batch.encoder_adapters.part(0, cached));
  if (outbox_) make_room(step);
  model_->write_cross_kv(tensors, states.rows(0, cached), pools_.device());
  if (draft_model_) draft_model_->prepare(step.scheduled, tensors, states.rows(0, cached));
  if (outbox_) post_encoded(step);
  return states;
}

void StepStages::make_room(const ModelStep& step) {
  int32_t blocks = 0;
  for (const WorkerGroup* group : step.scheduled)
    for (const int32_t block : group->encoder.blocks) blocks = std::max(blocks, block + 1);
  pools_.make_room(ctx_, blocks);
}

void StepStages::post_encoded(const ModelStep& step) {
  std::vector<EncoderOutbox::Source> sources;
  for (const WorkerGroup* group : step.scheduled)
    if (!group->pools()) sources.push_back({group->encoder.seq_id, group->encoder.blocks});
  outbox_->post(cache(), sources);
}

Tensor StepStages::decode(const StepTensors& in, const Layers& layers) {
  if (!pipeline_) return model_->decode(in, cache());
  const auto run = [&](StageState x) { return model_->decode_stage(in, std::move(x), cache()); };
  return pipeline_->decode(layers ? layers : run);
}

// (Every rank has the whole output of the encoder.)
void StepStages::pool_vectors(const Tensor& states, ModelStep& step) {
  if (!makes_lists()) return;
  std::vector<PooledRange> ranges;
  for (const auto& [group, first, end] : step.batch.pooled)
    ranges.push_back({first, end, &group->params.pooling()});
  auto vectors = pool_ranges(ctx_, states, ranges);
  for (size_t i = 0; i < vectors.size(); ++i)
    *output_of(step.out, step.batch.pooled[i].group->request_id)->mutable_embedding() =
        std::move(vectors[i]);
}

void StepStages::run_heads(const Tensor& hidden, ModelStep& step) {
  if (!makes_lists()) return;
  struct Wanted {
    const SampleRow* row;
    int32_t count;  // of its last rows
  };
  std::vector<Wanted> wanted;
  std::vector<int32_t> indices;
  for (const SampleRow& row : step.batch.rows) {
    if (!row.group->has_head()) continue;
    const bool all = wants_all_rows(row.group->params);
    if (!all && !row.seq().samples()) continue;
    const int32_t end = row.first_token + row.num_tokens, count = all ? row.num_tokens : 1;
    for (int32_t i = end - count; i < end; ++i) indices.push_back(i);
    wanted.push_back({&row, count});
  }
  if (wanted.empty()) return;
  const AdapterSet::Scope scope(adapters(), step.batch.decoder_adapters.chosen(indices));
  const Tensor outputs = host_floats(ctx_, model_->run_output_head(rows_of(ctx_, hidden, indices)));
  const int64_t width = outputs.dim(1);
  int64_t at = 0;
  for (const auto& [row, count] : wanted) {
    auto* group = output_of(step.out, row->group->request_id);
    auto& values = *group->mutable_embedding()->mutable_values();
    for (const int64_t end = at + count; at < end; ++at)
      values.Add(outputs.row<float>(at), outputs.row<float>(at) + width);
    if (wants_all_rows(row->group->params))
      group->set_embedding_start(static_cast<int32_t>(row->seq().num_computed * width));
  }
}

CrossWeights StepStages::wanted_weights(const ModelStep& step) {
  CrossWeights out;
  const WorkerGroup* before = nullptr;
  size_t at = 0;  // of its group in the tables of cross-attention
  for (const SampleRow& row : step.batch.rows) {
    if (before != nullptr && row.group != before) ++at;
    before = row.group;
    if (!row.group->has_weights()) continue;
    const proto::Alignment& wanted = row.group->params.pooling().alignment();
    const int32_t skipped = std::max(0, wanted.first_token() - row.seq().num_computed);
    if (skipped >= row.num_tokens) continue;
    const std::vector<int32_t>& pages = step.batch.input.attention.cross_pages.indptr;
    CrossWeights::Rows& rows = out.wanted.emplace_back();
    rows.first_row = row.first_token + skipped;
    rows.end_row = row.first_token + row.num_tokens;
    rows.first_page = pages[at];
    rows.end_page = pages[at + 1];
    rows.keys = row.group->encoder.length;
    rows.positions = wanted.positions();
    for (const proto::AttentionHead& head : wanted.heads())
      rows.heads.push_back({head.layer(), head.head()});
    rows.out = ctx_.make({rows.end_row - rows.first_row, std::ssize(rows.heads) * rows.positions},
                         DType::kF32);
    if (pipeline_) clear(ctx_, rows.out);  // of other stages' layers
  }
  return out;
}

// (A rank's heads are its own; the others' are zeros there, so that the sum is exact.)
void StepStages::add_weights(const CrossWeights& weights, ModelStep& step) {
  for (const CrossWeights::Rows& rows : weights.wanted) {
    const Tensor sums = pipeline_ ? ctx_.on_host(rows.out) : rows.out;
    if (pipeline_) pipeline_->add_up(sums);
    if (!chooses_tokens()) continue;
    if (comm_.size() > 1) comm_.all_reduce(sums);
    if (comm_.rank() != 0) continue;
    const auto row =
        std::find_if(step.batch.rows.begin(), step.batch.rows.end(), [&](const SampleRow& one) {
          return one.first_token <= rows.first_row &&
                 rows.first_row < one.first_token + one.num_tokens;
        });
    auto* group = output_of(step.out, row->group->request_id);
    const Tensor here = ctx_.on_host(sums);
    group->mutable_embedding()->mutable_values()->Add(here.data<float>(),
                                                      here.data<float>() + here.size());
    const int32_t token = row->seq().num_computed + rows.first_row - row->first_token;
    const int64_t before = int64_t{token} - row->group->params.pooling().alignment().first_token();
    group->set_embedding_start(static_cast<int32_t>(before * rows.out.dim(1)));
  }
}

// One group at a time: prompts are short, and the logits of a whole step's prompts could be large.
void StepStages::add_prompt_logprobs(const Tensor& hidden, ModelStep& step) {
  for (const SampleRow& row : step.batch.rows) {
    const proto::SamplingParams& params = row.group->params;
    if (!params.has_prompt_logprobs() || row.seq().index != 0) continue;
    const PromptRows wanted = prompt_rows(row);
    if (wanted.count <= 0) continue;
    std::vector<int32_t> indices;
    for (int32_t i = 0; i < wanted.count; ++i) indices.push_back(row.first_token + i);
    const AdapterSet::Scope scope(adapters(), step.batch.decoder_adapters.chosen(indices));
    const Tensor logits = ctx_.on_host(model_->compute_logits(rows_of(ctx_, hidden, indices)));
    if (comm_.rank() != 0) continue;  // it took part in the gather
    const std::vector<int32_t>& prompt = row.seq().prompt;
    auto* group = output_of(step.out, row.group->request_id);
    group->set_prompt_logprobs_start(wanted.first_position);
    for (int32_t i = 0; i < wanted.count; ++i)
      *group->add_prompt_logprobs() = token_logprobs(
          {logits.row<float>(i), static_cast<size_t>(logits.dim(1))},
          prompt[static_cast<size_t>(wanted.first_position + i)], params.prompt_logprobs());
  }
}

}  // namespace tandem
