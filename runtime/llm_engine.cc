#include "runtime/llm_engine.h"

#include <algorithm>
#include <random>
#include <utility>

namespace tandem {
namespace {

constexpr size_t kMaxDefaultCacheBytes = size_t{4} << 30;

// As many bytes as requests of maximal length could use, but no more than half of what is free, and
// 4 GiB.
size_t default_cache_bytes() { return std::min(kMaxDefaultCacheBytes, available_memory() / 2); }

// SplitMix64 (Steele et al. 2014): seeds of requests from the engine's.
uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

LLMEngine::LLMEngine(const EngineConfig& config, const LoadProgress& progress)
    : engine_config_(config),
      config_(ModelConfig::load(config.model)),
      dtype_(resolve_dtype(config, config_.checkpoint_dtype)),
      ctx_(std::make_unique<Context>(config.threads ? config.threads : default_threads())),
      comm_(make_local_communicator()),
      tokenizer_(Tokenizer::load(config.model)),
      resolver_(std::make_unique<ParamsResolver>(config_, config_.vocab_size)),
      next_seed_(config.seed.value_or(random_seed())) {
  config.check();
  Checkpoint checkpoint = Checkpoint::open(config.model);
  auto model = load_model(config_, checkpoint, {*ctx_, *comm_, dtype_}, progress);
  const SchedulerConfig limits = scheduler_config(model->kv_cache_spec());
  scheduler_ = std::make_unique<Scheduler>(limits);
  runner_ = std::make_unique<EncoderDecoderModelRunner>(*ctx_, *comm_, std::move(model),
                                                        limits.block_size, limits.num_device_blocks,
                                                        limits.num_host_blocks);
}

LLMEngine::~LLMEngine() = default;

SchedulerConfig LLMEngine::scheduler_config(const KvCacheSpec& spec) const {
  const EngineConfig& c = engine_config_;
  SchedulerConfig out;
  out.max_num_seqs = c.max_num_seqs;
  out.max_num_batched_tokens = c.max_num_batched_tokens;
  out.block_size = c.block_size;
  out.preemption = c.preemption;
  const size_t bytes = c.kv_cache_memory.value_or(default_cache_bytes());
  out.num_device_blocks = c.num_gpu_blocks_override.value_or(device_blocks_for(
      spec, c.block_size, bytes, c.max_num_seqs, config_.max_position_embeddings));
  if (out.num_device_blocks < 1)
    throw InputError(ErrorKind::kResource,
                     "--kv-cache-memory: " + std::to_string(bytes) + " bytes hold no block of " +
                         std::to_string(spec.block_bytes(c.block_size)) + " bytes",
                     "--kv-cache-memory");
  out.num_host_blocks = device_blocks_for(spec, c.block_size, c.swap_space, c.max_num_seqs,
                                          config_.max_position_embeddings);
  return out;
}

double LLMEngine::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void LLMEngine::add_request(const std::string& request_id, const nlohmann::json& prompt,
                            const nlohmann::json& params) {
  if (requests_.count(request_id)) throw invalid_request("request_id", request_id + " is in use");
  Request request;
  request.arrival = now();
  PreparedPrompt prepared =
      preprocess(parse_prompt(prompt), params, tokenizer_.get(), config_, *resolver_);
  request.params = resolver_->resolve(params, prepared.lengths);
  if (!request.params.has_seed()) request.params.set_seed(next_random(next_seed_));
  request.inputs = std::move(prepared.inputs);

  std::vector<std::unique_ptr<Sequence>> seqs;
  int64_t seq_id = next_seq_id_;
  for (int i = 0; i < request.params.n(); ++i)
    seqs.push_back(std::make_unique<Sequence>(seq_id++, request.inputs));
  auto encoder =
      std::make_unique<Sequence>(seq_id++, request.inputs, /*from_decoder_prompt=*/false);
  auto group = std::make_unique<SequenceGroup>(request_id, std::move(seqs), std::move(encoder),
                                               request.params, request.arrival);
  scheduler_->check_admissible(*group);

  auto& kept = requests_[request_id] = std::move(request);
  for (int i = 0; i < kept.params.n(); ++i)
    kept.seqs.emplace_back(next_seq_id_ + i, i, *tokenizer_, kept.params);
  next_seq_id_ = seq_id;
  scheduler_->add_seq_group(std::move(group));
}

bool LLMEngine::abort_request(const std::string& request_id) {
  requests_.erase(request_id);
  return scheduler_->abort_seq_group(request_id);
}

std::vector<proto::RequestOutput> LLMEngine::step() {
  const double scheduled_at = now();
  const proto::StepInput input = scheduler_->schedule(scheduled_at);
  if (!has_work(input)) return {};
  const proto::StepOutput result = runner_->execute(input);

  std::vector<SampledToken> sampled;
  for (const auto& group : result.outputs())
    for (const auto& s : group.samples())
      sampled.push_back({group.request_id(), s.seq_id(), s.token_id()});
  scheduler_->complete_step(sampled);

  std::vector<proto::RequestOutput> outputs;
  for (const auto& group : result.outputs()) {
    const auto it = requests_.find(group.request_id());
    if (it == requests_.end()) continue;
    Request& request = it->second;
    if (request.first_scheduled < 0) request.first_scheduled = scheduled_at;
    add_prompt_logprobs(request, group);
    if (group.samples().empty()) continue;
    if (request.first_token < 0) request.first_token = now();
    for (const auto& s : group.samples()) process_sample(group.request_id(), request, s);
    outputs.push_back(output_of(group.request_id(), request));
    if (outputs.back().finished()) requests_.erase(it);
  }
  scheduler_->free_finished_seq_groups();
  return outputs;
}

// A recomputed prompt reports its log-probabilities again; only those behind what is known are new.
void LLMEngine::add_prompt_logprobs(Request& request, const proto::SequenceGroupOutput& group) {
  const int first = group.prompt_logprobs_start();
  for (int i = 0; i < group.prompt_logprobs_size(); ++i)
    if (first + i == static_cast<int>(request.prompt_logprobs.size()) + 1)
      request.prompt_logprobs.push_back(group.prompt_logprobs(i));
}

void LLMEngine::process_sample(const std::string& request_id, Request& request,
                               const proto::SequenceOutput& sample) {
  for (SequenceOutputState& seq : request.seqs) {
    if (seq.seq_id() != sample.seq_id()) continue;
    const SequenceStatus status = seq.append(sample);
    if (is_finished(status)) scheduler_->finish_sequence(request_id, seq.seq_id(), status);
    return;
  }
}

proto::RequestOutput LLMEngine::output_of(const std::string& request_id,
                                          const Request& request) const {
  proto::RequestOutput out;
  out.set_request_id(request_id);
  *out.mutable_inputs() = request.inputs;
  bool finished = true;
  for (const SequenceOutputState& seq : request.seqs) {
    *out.add_outputs() = seq.output();
    finished = finished && seq.finished();
  }
  out.set_finished(finished);
  for (const auto& l : request.prompt_logprobs) *out.add_prompt_logprobs() = l;
  auto& metrics = *out.mutable_metrics();
  metrics.set_queue_time(request.first_scheduled - request.arrival);
  metrics.set_time_to_first_token(request.first_token - request.arrival);
  metrics.set_total_time(now() - request.arrival);
  if (const SequenceGroup* group = const_cast<Scheduler&>(*scheduler_).find(request_id))
    metrics.set_num_preemptions(group->num_preemptions);
  return out;
}

void LLMEngine::check_integrity() const { scheduler_->check_integrity(); }

}  // namespace tandem
