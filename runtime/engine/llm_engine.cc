#include "runtime/engine/llm_engine.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "base/seconds_since.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"
#include "runtime/request/request_error.h"

namespace tandem {
namespace {

constexpr ClientId kCaller = 1;
constexpr uint64_t kGeneration = 1;  // of the only replica, which is up all the time

EngineCoreConfig core_config() {
  EngineCoreConfig config;
  config.max_requests = std::numeric_limits<int>::max();
  return config;
}

}  // namespace

LLMEngine::LLMEngine(const EngineConfig& config, const LoadProgress& progress)
    : processor_(config.model, config.seed),
      dtype_(resolve_dtype(config, model_config().checkpoint_dtype)),
      worker_(make_model_worker([](const proto::WorkerSetup&) {
        return std::shared_ptr<Communicator>(make_local_communicator());
      })) {
  config.check();
  proto::WorkerSetup setup = setup_for(config, dtype_);
  setup.set_size(1);
  const proto::WorkerLoaded loaded = worker_->load(setup, progress);
  proto::WorkerStart start;
  start.set_num_device_blocks(loaded.num_device_blocks());
  start.set_num_host_blocks(loaded.num_host_blocks());
  worker_->start(start);
  SchedulerConfig scheduling = scheduler_config(config, cache_of(loaded), dtype_);
  // A device, which searches beams itself, computes a step while the host reads the one before.
  scheduling.max_steps_in_flight = loaded.beam_vocabulary() > 0 ? 2 : 1;
  loop_.emplace(scheduling, model_config().vocab_size);
  core_.emplace(core_config(), tokenizer(), static_cast<EngineOutbox&>(*this));
  core_->client_connected(kCaller, ClientKind::kDirect);
  proto::SchedulerEvent up;
  up.mutable_up();
  up.set_generation(kGeneration);
  core_->replica_event(up, now());
}

LLMEngine::~LLMEngine() = default;

double LLMEngine::now() const { return seconds_since(start_); }

void LLMEngine::add_request(const std::string& request_id, const nlohmann::json& prompt,
                            const nlohmann::json& params, int priority) {
  add_request(request_id, read_prompt(prompt), read_options(params), priority);
}

void LLMEngine::add_request(const std::string& request_id, const proto::Prompt& prompt,
                            const proto::GenerationOptions& options, int priority) {
  add_request(request_id, processor_.prepare(prompt, options), priority);
}

void LLMEngine::add_request(const std::string& request_id, PreparedRequest request, int priority) {
  proto::SubmitRequest submit;
  submit.set_request_id(request_id);
  submit.set_priority(priority);
  core_->reserve(kCaller, submit, now());
  unfinished_[request_id].set_request_id(request_id);
  adding_ = request_id;
  core_->prepared(request_id, std::move(request), now());
  answer_core();
  adding_.clear();
  if (const auto refused = std::exchange(refused_, std::nullopt)) throw to_input_error(*refused);
}

bool LLMEngine::abort_request(const std::string& request_id) {
  if (unfinished_.erase(request_id) == 0) return false;
  core_->cancel(request_id, now());
  return true;
}

std::vector<proto::RequestOutput> LLMEngine::step() {
  const auto output = loop_->turn(*worker_, [this] { return now(); });
  if (!output) return {};
  proto::SchedulerEvent event = loop_->step_event();
  event.set_generation(kGeneration);
  core_->replica_step(event, *output, now());
  answer_core();
  return std::exchange(finished_, {});
}

// --- What the core says --------------------------------------------------------------------------

void LLMEngine::to_scheduler(int, proto::SchedulerCommand command) {
  if (auto rejection = loop_->on_command(command)) rejections_.push_back(std::move(*rejection));
}

void LLMEngine::to_preparer(proto::SubmitRequest request) {
  to_prepare_.push_back(std::move(request));
}

// The core is answered when it has said all that it had to say.
void LLMEngine::answer_core() {
  while (!rejections_.empty() || !to_prepare_.empty()) {
    for (proto::SchedulerEvent& rejection : std::exchange(rejections_, {})) {
      rejection.set_generation(kGeneration);
      core_->replica_event(rejection, now());
    }
    for (const proto::SubmitRequest& part : std::exchange(to_prepare_, {})) {
      try {
        core_->prepared(part.request_id(), processor_.prepare(part.prompt(), part.options()),
                        now());
      } catch (const InputError& error) {
        core_->failed(part.request_id(), error, now());
      }
    }
  }
}

void LLMEngine::to_client(ClientId, proto::ServerMessage message) {
  for (const proto::RequestChunk& chunk : message.chunks()) {
    const auto it = unfinished_.find(chunk.request_id());
    TANDEM_CHECK(it != unfinished_.end());
    if (chunk.has_error()) {
      if (chunk.request_id() == adding_)
        refused_ = chunk.error();
      else
        failures_.emplace_back(chunk.request_id(), to_input_error(chunk.error()));
      unfinished_.erase(it);
      continue;
    }
    append_chunk(it->second, chunk);
    if (sink_) sink_(chunk);
    if (!chunk.finished()) continue;
    finished_.push_back(std::move(it->second));
    unfinished_.erase(it);
  }
}

void LLMEngine::check_integrity() const {
  loop_->check_integrity();
  core_->check_integrity();
  TANDEM_CHECK_EQ(core_->num_requests(), unfinished_.size());
}

}  // namespace tandem
