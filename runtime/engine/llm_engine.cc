#include "runtime/engine/llm_engine.h"

#include <utility>

#include "runtime/execution/kv_cache.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"

namespace tandem {

LLMEngine::LLMEngine(const EngineConfig& config, const LoadProgress& progress)
    : engine_config_(config),
      processor_(config.model, config.seed),
      dtype_(resolve_dtype(config, model_config().checkpoint_dtype)),
      ctx_(make_context(config, dtype_, config.threads ? config.threads : default_threads())),
      comm_(make_local_communicator()) {
  config.check();
  Checkpoint checkpoint = Checkpoint::open(config.model);
  auto model = load_model(
      model_config(), checkpoint,
      {*ctx_, *comm_, dtype_, config.quantization, config.kv_cache_dtype.has_value()}, progress);
  CacheSize cache = cache_size_for(config, *ctx_, model_config(), model->kv_cache_spec());
  if (!ctx_->on_cpu()) cache.beam_vocabulary = model_config().vocab_size;
  SchedulerConfig scheduling = scheduler_config(config, cache);
  // A device computes a step while the host reads the one before.
  scheduling.max_steps_in_flight = steps_in_flight_ = ctx_->on_cpu() ? 1 : 2;
  scheduler_ = std::make_unique<Scheduler>(scheduling);
  runner_ = std::make_unique<EncoderDecoderModelRunner>(
      *ctx_, *comm_, std::move(model), config.block_size, cache.num_device_blocks,
      cache.num_host_blocks, !config.enforce_eager);
}

LLMEngine::~LLMEngine() = default;

double LLMEngine::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void LLMEngine::add_request(const std::string& request_id, const nlohmann::json& prompt,
                            const nlohmann::json& params, int priority) {
  add_request(request_id, read_prompt(prompt), read_options(params), priority);
}

void LLMEngine::add_request(const std::string& request_id, const proto::Prompt& prompt,
                            const proto::GenerationOptions& options, int priority) {
  if (requests_.count(request_id)) throw invalid_request("request_id", request_id + " is in use");
  auto request = std::make_unique<RequestState>(request_id, processor_.prepare(prompt, options),
                                                tokenizer(), now(), priority);
  request->set_first_seq_id(next_seq_id_);
  scheduler_->add_seq_group(make_sequence_group(request->add_request()));
  next_seq_id_ += request->num_seq_ids();
  requests_.emplace(request_id, std::move(request));
}

bool LLMEngine::abort_request(const std::string& request_id) {
  requests_.erase(request_id);
  return scheduler_->abort_seq_group(request_id);
}

std::vector<proto::RequestOutput> LLMEngine::step() {
  while (scheduled_at_.size() < steps_in_flight_) {
    const double time = now();
    const proto::StepInput input = scheduler_->schedule(time);
    if (!has_work(input)) break;
    runner_->launch(input);
    scheduled_at_.push_back(time);
  }
  if (scheduled_at_.empty()) return {};
  const double scheduled_at = scheduled_at_.front();
  scheduled_at_.pop_front();
  const proto::StepOutput result = runner_->finish();
  scheduler_->complete_step(result);

  for (const auto& preempted : scheduler_->take_preempted())
    if (const auto it = requests_.find(preempted.request_id()); it != requests_.end())
      it->second->add_preemption();

  std::vector<proto::RequestOutput> outputs;
  const auto put_out = [&](auto it) {
    RequestState& request = *it->second;
    outputs.push_back(request.output(now()));
    if (outputs.back().finished()) requests_.erase(it);
  };
  for (const auto& group : result.outputs()) {
    const auto it = requests_.find(group.request_id());
    if (it == requests_.end()) continue;
    RequestState& request = *it->second;
    for (const auto& [seq_id, status] : request.apply(group, scheduled_at, now()))
      scheduler_->finish_sequence(group.request_id(), seq_id, status);
    if (group.has_embedding() || (!group.samples().empty() && !uses_beams(request.params())))
      put_out(it);
  }
  for (const auto& beams : scheduler_->take_beam_results()) {
    const auto it = requests_.find(beams.request_id());
    if (it == requests_.end()) continue;
    it->second->finish_beams(beams, now());
    put_out(it);
  }
  scheduler_->free_finished_seq_groups();
  return outputs;
}

void LLMEngine::check_integrity() const { scheduler_->check_integrity(); }

}  // namespace tandem
