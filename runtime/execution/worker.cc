#include "runtime/execution/worker.h"

#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/profile/profile.h"
#include "kernels/core/plugin.h"
#include "models/adapters/adapter_store.h"
#include "models/family.h"
#include "models/inspect.h"
#include "parallel/communicators/device_communicator.h"
#include "parallel/communicators/subgroup.h"
#include "runtime/execution/attention_choice.h"
#include "runtime/execution/compute_type.h"
#include "runtime/execution/device/recording_cost.h"
#include "runtime/execution/drafts/load_draft_model.h"
#include "runtime/execution/engine_config.h"
#include "runtime/execution/kv_cache.h"
#include "runtime/execution/model_runner.h"
#include "runtime/execution/ranks/encoder_exchange.h"
#include "runtime/execution/ranks/pipeline.h"
#include "runtime/execution/ranks/rank_device.h"
#include "runtime/execution/ranks/rank_plan.h"
#include "runtime/execution/ranks/shared_modules.h"
#include "runtime/execution/worker_setup.h"
#include "runtime/request/adapter_names.h"
#include "runtime/request/constraint_store.h"
#include "runtime/scheduling/steps/encoder_steps.h"

namespace tandem {
namespace {

constexpr int64_t kFirstSum = 1 << 19;  // floats; more than goes without the library
constexpr double kSecondsBetweenNews = 5;
constexpr size_t kCommittedScratch = size_t{8} << 20;  // of a step with some hundred tokens

// Null: no profile is wanted.
ProfileGroup* profile_of_rank(const proto::WorkerSetup& setup, int threads) {
  constexpr int kReplica = 1000;  // numbers of a replica's ranks follow one another
  Profile* const profile = process_profile();
  if (profile == nullptr) return nullptr;
  std::string name = "rank " + std::to_string(setup.rank());
  if (setup.replica() > 0) name = "replica " + std::to_string(setup.replica()) + " " + name;
  std::vector<std::string> names{"thread 0 (runs the steps)"};
  for (int i = 1; i < threads; ++i) names.push_back("thread " + std::to_string(i));
  return profile->add_group(name, kReplica * (setup.replica() + 1) + setup.rank(), names);
}

class ModelWorker final : public Worker {
 public:
  ModelWorker(CommunicatorFactory make_communicator, bool has_own_cores)
      : make_communicator_(std::move(make_communicator)), has_own_cores_(has_own_cores) {}

  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    TANDEM_CHECK(model_ == nullptr && runner_ == nullptr, "a worker loads once");
    check_setup(setup);
    config_ = setup.config();
    const proto::LoadingConfig& loading = config_.loading();
    const DType dtype = *asked_dtype(config_);
    join_group(setup);
    const int ranks_here = std::max(setup.size(), setup.num_ranks());
    const int threads =
        loading.threads() > 0
            ? loading.threads()
            : threads_of_rank(default_threads(), ranks_that_share_cores(setup), has_own_cores_);
    const RankDevice device = rank_device(setup, devices_for(loading.device()));
    ctx_ = make_context(config_, dtype, threads, device.index);
    place_ =
        device_place(ctx_->on_cpu() ? -1 : choose_device(loading.device(), device.index).index);
    if (device.encoders > 0)
      log_info("rank {} shares its device with {} that run{} encoders", setup.rank(),
               device.encoders == 1 ? "one rank" : std::to_string(device.encoders) + " ranks",
               device.encoders == 1 ? "s" : "");
    attention_ = make_attention(loading, *ctx_);
    const AttentionScope attention(*ctx_, attention_.get());
    profile_ = profile_of_rank(setup, threads);
    join_device_group(setup);
    warm_up_group();
    const ModelConfig model_config = ModelConfig::load(loading.model());
    Checkpoint checkpoint = Checkpoint::open(loading.model());
    Build build{*ctx_, *comm_, dtype, quantization_of(config_), kv_cache_dtype_of(config_)};
    const std::optional<Stage> stage = make_plan(setup, model_config, checkpoint, build);
    if (ctx_->on_cpu())
      check_weights_fit(model_config, checkpoint, dtype, comm_->size(), available_memory(),
                        stage ? &*stage : nullptr);
    check_sums_of_ranks(config_, *ctx_, comm_->size());
    make_adapters(model_config, build);
    model_ = load_model(model_config, checkpoint, build, progress);
    if (pipeline_) check_layers(model_config);
    first_layer_ = build.decoder_layers.begin;
    if (adapters_ && (pipeline_ || encoder_ranks_.count > 0)) share_modules(*group_, *adapters_);
    load_adapters();
    if (setup.rank() == 0 && setup.replica() == 0)
      for (const std::string& line : load_warnings(model_config, checkpoint))
        log_warning("{}", line);
    size_t draft_block = 0;
    if (const std::string& draft = config_.drafting().draft_model(); !draft.empty()) {
      Build of_draft = build.without_adapters();
      const StoredType type =
          draft_type_of(config_, {build.dtype, build.quantization}, ctx_->on_cpu());
      of_draft.dtype = type.dtype;
      of_draft.quantization = type.quantization;
      draft_model_ = load_draft_model(model_config, checkpoint, draft, of_draft,
                                      /*tokenizers=*/setup.rank() == 0);
      draft_model_->rows_of_a_target_step = rows_of_a_step(*ctx_, dtype);
      draft_block = draft_model_->model->kv_cache_spec().block_bytes(config_.cache().block_size());
    }
    // A stage's steps are recorded when they recur.
    if (pipeline_)
      kept_ = cost_of_recordings(*ctx_, *model_, config_, {}, comm_->size());
    else if (!ctx_->on_cpu()) {
      if (model_->has_language_head()) sizes_ = recorded_sizes(config_);
      kept_ = cost_of_recordings(*ctx_, *model_, config_, sizes_, comm_->size());
    }
    const KvCacheSpec pages = model_->kv_cache_spec();
    size_t of_others = kept_.all();
    if (device.encoders > 0)
      of_others +=
          static_cast<size_t>(device.encoders) *
          bytes_of_encoder_rank(config_, *ctx_, model_config, *encoder_, pages, comm_->size());
    const CacheSize cache = runs_encoders_ ? any_cache_size()
                                           : cache_size_for(config_, *ctx_, model_config, pages,
                                                            ranks_here, draft_block, of_others);
    if (ctx_->on_cpu() && setup.rank() == 0 && config_.cache().has_kv_cache_memory())
      warn_of_cache(cache, draft_block, ranks_here);
    proto::WorkerLoaded out;
    out.set_num_device_blocks(cache.num_device_blocks);
    out.set_num_host_blocks(cache.num_host_blocks);
    if (!ctx_->on_cpu() && !pipeline_) out.set_beam_vocabulary(model_config.vocab_size);
    out.set_max_drafts(max_drafts());
    out.set_rows_of_a_step(rows_of_a_step(*ctx_, dtype));
    if (adapters_ && setup.rank() == 0) tell_modules(adapters_->modules(), out);
    return out;
  }

  void start(const proto::WorkerStart& start) override {
    TANDEM_CHECK(model_ != nullptr, "a worker starts once, after loading");
    const int vocabulary = model_->config().vocab_size;
    const KvCacheSpec pages = model_->kv_cache_spec();
    RankModel rank{*ctx_,
                   *comm_,
                   std::move(model_),
                   std::exchange(draft_model_, std::nullopt),
                   ConstraintStore::of(config_.loading().model(), vocabulary),
                   adapters_,
                   pipeline_};
    if (runs_encoders_)
      rank.outbox = std::make_shared<EncoderOutbox>(*ctx_, group_, encoder_ranks_, pages, place_);
    else if (encoder_ranks_.count > 0)
      rank.inbox = std::make_shared<EncoderInbox>(*ctx_, group_, encoder_ranks_, pages,
                                                  first_layer_, place_);
    // An encoder's rank numbers the blocks of one step, which may have an input for each token.
    const int least = runs_encoders_ ? EncoderSteps::kTokensOfStep : 0;
    runner_ = make_model_runner(std::move(rank),
                                {.block_size = config_.cache().block_size(),
                                 .num_device_blocks = std::max(least, start.num_device_blocks()),
                                 .num_host_blocks = runs_encoders_ ? 0 : start.num_host_blocks(),
                                 .max_drafts = max_drafts(),
                                 .record_steps = !config_.loading().enforce_eager(),
                                 .max_sequences = config_.scheduling().max_num_seqs()});
    const AttentionScope attention(*ctx_, attention_.get());
    if (ctx_->on_cpu()) ctx_->commit_scratch(kCommittedScratch);
    if (!sizes_.empty()) prepare_decoding();
  }

  proto::StepOutput execute(const proto::StepInput& step) override {
    launch(step);
    return finish();
  }
  void launch(const proto::StepInput& step) override {
    if (!runner_) throw std::runtime_error("a step before the start");
    const ProfiledScope scope(profile_);
    const AttentionScope attention(*ctx_, attention_.get());
    runner_->launch(step);
    if (profile_ != nullptr) profile_->count_step();
  }
  int steps_launched() const override { return runner_ ? runner_->steps_launched() : 0; }
  bool ready() override { return runner_ && runner_->ready(); }
  proto::StepOutput finish() override {
    TANDEM_CHECK(runner_ != nullptr, "a step before the start");
    const ProfiledScope scope(profile_);
    const AttentionScope attention(*ctx_, attention_.get());
    return runner_->finish();
  }

  DecoderStats decoder_stats() const override {
    return runner_ ? runner_->decoder_stats() : DecoderStats();
  }
  void time_decoder() override {
    TANDEM_CHECK(runner_ != nullptr, "timed before the start");
    const AttentionScope attention(*ctx_, attention_.get());
    runner_->time_decoder();
  }

  void abort() override {
    const MutexLock lock(mutex_);
    aborted_ = true;
    if (group_) group_->abort();
    if (comm_ && comm_ != group_) comm_->abort();  // of the stage's devices
    if (between_stages_) between_stages_->abort();
  }

 private:
  void warn_of_cache(const CacheSize& cache, size_t draft_block, int ranks_here) const {
    const size_t block = model_->kv_cache_spec().block_bytes(config_.cache().block_size());
    const auto blocks =
        static_cast<size_t>(cache.num_device_blocks) * static_cast<size_t>(std::max(1, ranks_here));
    if (const std::string warning =
            cache_warning(blocks * (block + draft_block), available_memory());
        !warning.empty())
      log_warning("{}", warning);
  }

  // Ranks that run encoders share the cores with those that run decoders: whoever has work
  // computes.
  int ranks_that_share_cores(const proto::WorkerSetup& setup) const {
    const int here = std::max(setup.size(), setup.num_ranks());
    const int of_kind = runs_encoders_ ? encoder_ranks_.count : encoder_ranks_.first;
    return here / setup.size() * of_kind;
  }
  void join_group(const proto::WorkerSetup& setup) {
    encoder_ranks_ = encoder_ranks_of(setup);
    runs_encoders_ = setup.rank() >= encoder_ranks_.first;
    const int ranks = encoder_ranks_.first / stages_of(config_);
    const MutexLock lock(mutex_);
    group_ = make_communicator_(setup);
    if (aborted_) group_->abort();
    if (runs_encoders_)
      comm_ = make_local_communicator();
    else if (ranks == setup.size())
      comm_ = group_;
    else
      comm_ = make_subgroup(group_, setup.rank() / ranks * ranks, ranks);
  }
  // The layers of this rank, where the model is split by layers.
  std::optional<Stage> make_plan(const proto::WorkerSetup& setup, const ModelConfig& model,
                                 const Checkpoint& checkpoint, Build& build) {
    const std::optional<RankPlan> plan = plan_rank(setup, model, checkpoint);
    if (!plan) return std::nullopt;
    if (setup.rank() == 0 && setup.replica() == 0) tell_plan(setup, *plan, build.dtype);
    encoder_ = plan->encoders;
    build.encoder_layers = plan->encoder;
    build.decoder_layers = plan->decoder;
    build.writes_cross = runs_encoders_;
    if (stages_of(config_) == 1 || runs_encoders_) return plan->own;
    std::shared_ptr<Communicator> decoders = group_;
    if (encoder_ranks_.count > 0) decoders = make_subgroup(group_, 0, encoder_ranks_.first);
    const bool by_device = join_between_stages(setup, decoders);
    pipeline_ = std::make_shared<Pipeline>(*ctx_, by_device ? between_stages_ : decoders, by_device,
                                           stages_of(config_), plan->own);
    return plan->own;
  }
  // States go from device to device, unless there is no library for it, or one device is all that
  // there is. (All ranks of a model have the same plugin and configuration.)
  bool join_between_stages(const proto::WorkerSetup& setup,
                           const std::shared_ptr<Communicator>& decoders) {
    if (ctx_->on_cpu() || !stages_use_devices(config_)) return false;
    auto joined = make_device_group(*ctx_, decoders, communicator_options(setup).timeout,
                                    DeviceGroupUse::kMessages);
    const MutexLock lock(mutex_);
    between_stages_ = std::move(joined);
    if (aborted_ && between_stages_) between_stages_->abort();
    return between_stages_ != nullptr;
  }
  // A side that the model does not count as the configuration does is not split where we think.
  void check_layers(const ModelConfig& model) const {
    const LayerCounts counts = model_->layer_counts();
    if (counts.encoder != model.encoder_layers || counts.decoder != model.decoder_layers)
      throw not_supported("--pipeline-parallel-size",
                          "the layers of " + model.architecture + " cannot be split into stages");
  }
  // The model's layers can be changed if requests may ask for it.
  void make_adapters(const ModelConfig& model, Build& build) {
    const proto::AdapterConfig& adapters = config_.adapters();
    if (adapters.modules().empty() && !adapters.allow_runtime_lora_updating()) return;
    adapters_ = std::make_shared<AdapterStore>(
        find_family(model).base,
        AdapterStore::Limits{adapters.max_loras(), adapters.max_lora_rank()});
    build.adapters = &adapters_->set();
  }
  void load_adapters() {
    uint64_t id = 0;
    for (const proto::AdapterModule& module : config_.adapters().modules())
      adapters_->load({++id, module.name(), module.path()}, /*stays=*/true);
    ctx_->end_loading();
  }
  // On a device a row's last bits depend on the rows beside it: there drafts are asked for.
  int max_drafts() const {
    const proto::DraftingConfig& drafting = config_.drafting();
    return ctx_->on_cpu() || !drafting.if_possible() ? drafting.num_speculative_tokens() : 0;
  }
  // On devices the data of a stage's ranks goes from device to device. The host's group carries
  // what stages and encoders hand to others, and how ranks find each other.
  void join_device_group(const proto::WorkerSetup& setup) {
    if (ctx_->on_cpu()) return;
    if (comm_->size() == 1) return;
    auto joined = make_device_group(*ctx_, comm_, communicator_options(setup).timeout);
    if (joined == nullptr)
      throw InputError(ErrorKind::kUnavailable,
                       "--tensor-parallel-size: the CUDA plugin was built without NCCL",
                       "--tensor-parallel-size");
    const MutexLock lock(mutex_);
    comm_ = std::move(joined);
    if (stages_of(config_) == 1 && encoder_ranks_.count == 0) group_ = comm_;
    if (aborted_) comm_->abort();
  }
  void prepare_decoding() {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(Clock::now() - begun).count();
    };
    double told = 0;
    const auto prepared = runner_->prepare_decoding(sizes_, [&](size_t done) {
      if (comm_->rank() != 0 || seconds() < told + kSecondsBetweenNews) return;
      told = seconds();
      log_info("steps of decoding are recorded: {} of {} sizes, {:.0f} s", done, sizes_.size(),
               told);
    });
    constexpr double kMebibyte = 1 << 20;
    if (comm_->rank() == 0)
      log_info("recorded {} steps of decoding, of {} to {} sequences, in {:.1f} s: {:.1f} MiB",
               prepared.count, sizes_.back(), sizes_.front(), seconds(),
               static_cast<double>(prepared.bytes) / kMebibyte);
    if (prepared.bytes > kept_.all())
      log_warning(
          "recorded steps take {:.1f} MiB of the device, {:.1f} were kept for them: "
          "--gpu-memory-utilization is passed by the rest",
          static_cast<double>(prepared.bytes) / kMebibyte,
          static_cast<double>(kept_.all()) / kMebibyte);
  }
  // What a group takes of the device with its first sum is taken before the cache is measured.
  void warm_up_group() {
    if (ctx_->on_cpu() || comm_->size() == 1) return;
    const Tensor x = ctx_->backend().allocate({kFirstSum}, DType::kF32);
    comm_->all_reduce(x);
    ctx_->backend().synchronize();
  }

  CommunicatorFactory make_communicator_;
  bool has_own_cores_;
  ProfileGroup* profile_ = nullptr;
  EngineConfig config_;
  std::unique_ptr<Context> ctx_;               // outlives the group, which may be one of devices
  std::unique_ptr<AttentionTable> attention_;  // of ctx_; null: the device's own functions
  // Of group_ too, which only the worker's own thread changes, and so may read without it.
  Mutex mutex_;
  std::shared_ptr<Communicator> group_;
  std::shared_ptr<Communicator> comm_;  // the ranks of this one's stage; without stages the group
  // Of devices, for what stages hand to each other; null: they do so by the host.
  std::shared_ptr<Communicator> between_stages_;
  std::shared_ptr<Pipeline> pipeline_;  // null: there are no stages
  EncoderRanks encoder_ranks_;
  bool runs_encoders_ = false;  // this one is one of them
  int first_layer_ = 0;         // of its decoder layers
  DevicePlace place_;
  std::optional<Stage> encoder_;  // that other ranks run; nothing: this one does
  bool aborted_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<AdapterStore> adapters_;  // outlives the model
  std::unique_ptr<Model> model_;
  std::optional<LoadedDraftModel> draft_model_;
  std::unique_ptr<ModelRunner> runner_;
  std::vector<int> sizes_;  // for which steps are recorded at start
  RecordingCost kept_;
};

}  // namespace

std::unique_ptr<Worker> make_model_worker(CommunicatorFactory make_communicator,
                                          bool has_own_cores) {
  return std::make_unique<ModelWorker>(std::move(make_communicator), has_own_cores);
}

}  // namespace tandem
