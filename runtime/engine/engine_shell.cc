#include "runtime/engine/engine_shell.h"

#include <limits>
#include <utility>

#include "base/check.h"
#include "base/seconds_since.h"
#include "runtime/execution/worker_setup.h"
#include "runtime/protocol/version.h"
#include "runtime/request/adapter_names.h"
#include "runtime/version.h"

namespace tandem {
namespace {

constexpr ClientId kCaller = 1;
constexpr uint64_t kGeneration = 1;  // of the only replica, which is up all the time

// Whoever is in this process knows how much it asks for.
EngineCoreConfig core_config() {
  EngineCoreConfig config;
  config.max_requests = std::numeric_limits<int>::max();
  config.max_sound_bytes = std::numeric_limits<size_t>::max();
  return config;
}

}  // namespace

EngineShell::EngineShell(const EngineConfig& config, const LoadProgress& progress, OnChunk on_chunk)
    : model_(config.loading().model()),
      processor_(config),
      dtype_(resolve_dtype(config, processor_.model_config().checkpoint_dtype)),
      worker_(make_model_worker([](const proto::WorkerSetup&) {
        return std::shared_ptr<Communicator>(make_local_communicator());
      })),
      on_chunk_(std::move(on_chunk)) {
  check_config(config);
  proto::WorkerSetup setup = setup_for(config, dtype_);
  setup.set_size(1);
  const proto::WorkerLoaded loaded = worker_->load(setup, progress);
  processor_.adapters().worker_loaded(loaded);
  proto::WorkerStart start;
  start.set_num_device_blocks(loaded.num_device_blocks());
  start.set_num_host_blocks(loaded.num_host_blocks());
  worker_->start(start);
  SchedulerConfig scheduling =
      scheduler_config(config, cache_of(loaded), processor_.model_config());
  // A device, which searches beams itself, computes a step while the host reads the one before.
  scheduling.max_steps_in_flight = loaded.beam_vocabulary() > 0 ? 2 : 1;
  loop_.emplace(scheduling, processor_.model_config().vocab_size);
  core_.emplace(core_config(), processor_.tokenizer(), static_cast<EngineOutbox&>(*this));
  core_->client_connected(kCaller, ClientKind::kDirect);
  proto::SchedulerEvent up;
  up.mutable_up();
  up.set_generation(kGeneration);
  core_->replica_event(up, now());
}

EngineShell::~EngineShell() = default;

double EngineShell::now() const { return seconds_since(start_); }

void EngineShell::reserve(const proto::SubmitRequest& submit) {
  core_->reserve(kCaller, submit, now());
}

void EngineShell::prepared(const std::string& request_id, PreparedRequest request) {
  core_->prepared(request_id, std::move(request), now());
  answer_core();
}

void EngineShell::failed(const std::string& request_id, const InputError& error) {
  core_->failed(request_id, error, now());
  answer_core();
}

void EngineShell::cancel(const std::string& request_id) {
  core_->cancel(request_id, now());
  answer_core();
}

bool EngineShell::step() {
  const auto output = loop_->turn(*worker_, [this] { return now(); });
  if (!output) return false;
  proto::SchedulerEvent event = loop_->step_event();
  event.set_generation(kGeneration);
  core_->replica_step(event, *output, now());
  answer_core();
  return true;
}

void EngineShell::tick() {
  core_->tick(now());
  answer_core();
}

void EngineShell::give_up(const std::string& reason) { core_->give_up(reason, now()); }

proto::ServerInfo EngineShell::info() {
  proto::ServerInfo info;
  info.set_protocol_version(kProtocolVersion);
  info.set_version(kVersion);
  info.set_model(model_);
  info.set_dtype(name_of(dtype_));
  info.set_tensor_parallel_size(1);
  for (proto::Adapter& adapter : processor_.adapters().list())
    *info.add_adapters() = std::move(adapter);
  core_->fill_info(info, now());
  return info;
}

// --- What the core says --------------------------------------------------------------------------

void EngineShell::to_scheduler(int, proto::SchedulerCommand command) {
  if (auto rejection = loop_->on_command(command)) rejections_.push_back(std::move(*rejection));
}

void EngineShell::to_preparer(proto::SubmitRequest request) {
  to_prepare_.push_back(std::move(request));
}

// The core is answered when it has said all that it had to say.
void EngineShell::answer_core() {
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

void EngineShell::to_client(ClientId, proto::ServerMessage message) {
  for (proto::RequestChunk& chunk : *message.mutable_chunks()) on_chunk_(std::move(chunk));
}

void EngineShell::check_integrity() const {
  loop_->check_integrity();
  core_->check_integrity();
}

}  // namespace tandem
