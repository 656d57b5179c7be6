// Whole steps on groups of ranks: the steps of a run on one rank, executed again by N ranks as
// threads, give the same tokens on every rank, and the first rank of each stage the same
// log-probabilities. Stages of one rank give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "models/stage_plan.h"
#include "parallel/communicators/subgroup.h"
#include "runtime/execution/model_runner.h"
#include "runtime/execution/ranks/pipeline.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/prompt.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/goldens/golden_families.h"
#include "tests/support/goldens/goldens.h"
#include "tests/support/ranks/rank_threads.h"
#include "tests/support/scheduling/sampled_tokens.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kBlockSize = 4, kDeviceBlocks = 110, kHostBlocks = 60, kMostDrafts = 3;

// Owns what a runner needs.
struct Rank {
  // A rank of one of so many stages, which have `layers` each; none: by size.
  Rank(const std::string& checkpoint_name, Communicator& comm, int stages = 1,
       const std::vector<int32_t>& layers = {})
      : ctx(1), group(&comm, [](Communicator*) {}) {
    const auto config = ModelConfig::load(testing::golden_dir(checkpoint_name));
    Checkpoint checkpoint = Checkpoint::open(testing::golden_dir(checkpoint_name));
    const int ranks = comm.size() / stages, stage = comm.rank() / ranks;
    own = stages == 1 ? group : make_subgroup(group, stage * ranks, ranks);
    Build build{ctx, *own, DType::kF32};
    std::shared_ptr<Pipeline> pipeline;
    if (stages > 1) {
      const Stage plan =
          plan_stages(layer_sizes(config, checkpoint),
                      {.stages = stages, .layers = layers})[static_cast<size_t>(stage)];
      build.encoder_layers = plan.encoder;
      build.decoder_layers = plan.decoder;
      pipeline = std::make_shared<Pipeline>(ctx, group, /*by_device=*/false, stages, plan);
    }
    auto model = load_model(config, checkpoint, build);
    EXPECT_EQ(model->layer_counts().encoder, config.encoder_layers);
    EXPECT_EQ(model->layer_counts().decoder, config.decoder_layers);
    runner = make_model_runner(
        {.ctx = ctx, .comm = *own, .model = std::move(model), .pipeline = std::move(pipeline)},
        {.block_size = kBlockSize,
         .num_device_blocks = kDeviceBlocks,
         .num_host_blocks = kHostBlocks,
         .max_drafts = kMostDrafts});
  }
  Context ctx;
  std::shared_ptr<Communicator> group, own;
  std::unique_ptr<ModelRunner> runner;
};

struct Recording {
  std::vector<proto::StepInput> steps;
  std::vector<proto::StepOutput> outputs;
  int preemptions = 0, most_in_flight = 0;
  int64_t right_drafts = 0;
};

// Runs requests to their end on one rank, with steps as that many stages get them: of different
// groups, ahead of answers, and with drafts.
class Recorder {
 public:
  Recorder(const std::string& checkpoint, int stages)
      : config_(ModelConfig::load(testing::golden_dir(checkpoint))),
        resolver_(config_, config_.vocab_size),
        comm_(make_local_communicator()),
        rank_(checkpoint, *comm_),
        scheduling_({.max_num_seqs = 24,
                     .max_num_batched_tokens = 110,
                     .block_size = kBlockSize,
                     .num_device_blocks = kDeviceBlocks,
                     .num_host_blocks = kHostBlocks,
                     .max_steps_in_flight = stages > 1 ? 2 : 1,
                     .stages = stages,
                     .whole_prompts = limits_of(config_).whole_prompts,
                     .speculation = {.num_tokens = stages > 1 ? kMostDrafts : 0,
                                     .vocabulary = config_.vocab_size}}),
        scheduler_(scheduling_) {}

  void add(const json& prompt, const json& params) {
    const proto::GenerationOptions options = read_options(params);
    const auto prepared = preprocess(read_prompt(prompt), options, nullptr, config_, resolver_);
    auto resolved = prepared.pooling ? resolver_.resolve_pooling(options, *prepared.pooling)
                                     : resolver_.resolve(options, prepared.lengths);
    if (!resolved.has_seed()) resolved.set_seed(next_id_);
    std::vector<std::unique_ptr<Sequence>> seqs;
    for (int i = 0; i < num_sequences(resolved); ++i)
      seqs.push_back(std::make_unique<Sequence>(next_id_++, prepared.inputs, true, i));
    auto encoder = std::make_unique<Sequence>(next_id_++, prepared.inputs, false);
    const std::string id = "r" + std::to_string(next_id_);
    params_[id] = resolved;
    scheduler_.add_seq_group(std::make_unique<SequenceGroup>(
        id, std::move(seqs), std::move(encoder), resolved, static_cast<double>(next_id_)));
  }

  Recording run() {
    Recording out;
    size_t completed = 0;
    while ((scheduler_.has_unfinished() || completed < out.steps.size()) &&
           out.steps.size() < 5000) {
      while (scheduler_.steps_in_flight().size() < scheduling_.most_in_flight()) {
        proto::StepInput step = scheduler_.schedule(static_cast<double>(out.steps.size()));
        if (!has_work(step)) break;
        out.steps.push_back(std::move(step));
        out.outputs.push_back(rank_.runner->execute(out.steps.back()));
      }
      out.most_in_flight =
          std::max(out.most_in_flight, static_cast<int>(out.steps.size() - completed));
      complete(out.outputs.at(completed++));
    }
    EXPECT_FALSE(scheduler_.has_unfinished());
    out.preemptions = scheduler_.num_preemptions();
    out.right_drafts = scheduler_.speculation_stats().accepted_tokens;
    return out;
  }

 private:
  void complete(const proto::StepOutput& output) {
    std::vector<testing_support::SampledToken> sampled;
    for (const auto& group : output.outputs())
      for (const auto& s : group.samples())
        if (!s.has_candidates()) sampled.push_back({group.request_id(), s.seq_id(), s.token_id()});
    scheduler_.complete_step(output);
    for (const auto& s : sampled) {
      const proto::SamplingParams& params = params_.at(s.request_id);
      const auto& eos = params.eos_token_id();
      const bool ends = std::find(eos.begin(), eos.end(), s.token) != eos.end();
      if (++lengths_[s.seq_id] == params.max_tokens() || ends)
        scheduler_.finish_sequence(s.request_id, s.seq_id, SequenceStatus::kFinishedLength);
    }
    scheduler_.free_finished_seq_groups();
  }

  ModelConfig config_;
  ParamsResolver resolver_;
  std::unique_ptr<Communicator> comm_;
  Rank rank_;
  SchedulerConfig scheduling_;
  Scheduler scheduler_;
  std::map<std::string, proto::SamplingParams> params_;
  std::map<int64_t, int> lengths_;
  int64_t next_id_ = 1;
};

// Greedy goldens, each again with another way to choose tokens.
Recording record(const std::string& checkpoint, int stages = 1) {
  Recorder recorder(checkpoint, stages);
  const json variants[] = {
      {{"do_sample", true}, {"temperature", 0.8}, {"seed", 3}},
      {{"repetition_penalty", 1.4}, {"logprobs", 3}},
      {{"no_repeat_ngram_size", 2}, {"prompt_logprobs", 1}},
      {{"do_sample", true}, {"top_k", 20}, {"n", 3}, {"seed", 5}},
      {{"logprobs", 0}},
      {{"do_sample", true}, {"top_p", 0.8}, {"logprobs", 2}, {"seed", 9}},
      {{"presence_penalty", 0.5}, {"prompt_logprobs", 2}, {"logprobs", 1}},
      {{"num_beams", 3}, {"no_repeat_ngram_size", 2}},
      {{"num_beams", 2}, {"do_sample", true}, {"top_k", 20}, {"seed", 4}},
      {{"allowed_token_ids", {3, 40, 41, 42, 99, 100, 101, 102, 103}}, {"logprobs", 1}},
      {{"bad_words_ids", {{41}, {50, 51}}}, {"logit_bias", {{"42", 100}, {"43", -100}}}},
      {{"num_beams", 3}, {"allowed_token_ids", {3, 40, 41, 42, 99, 100, 101, 102, 103}}},
  };
  size_t i = 0;
  const json golden = testing::load_golden(checkpoint);
  for (const auto& c : golden.at("cases")) {
    if (!c.contains("output_ids") || c.contains("sequences") || i == 14) continue;
    const json encoder = {{"prompt_token_ids", c.at("encoder_ids")}};
    recorder.add({{"encoder_prompt", encoder},
                  {"decoder_prompt", {{"prompt_token_ids", c.at("decoder_prompt_ids")}}}},
                 c.at("generation"));
    recorder.add({{"encoder_prompt", encoder}, {"pooling", "mean"}, {"normalize", i % 2 == 0}},
                 json::object());
    json params = variants[i++ % std::size(variants)];
    params["max_new_tokens"] = 12;
    if (!params.contains("num_beams")) params["num_beams"] = 1;
    std::vector<int> decoder = c.at("output_ids").get<std::vector<int>>();
    decoder.resize(std::min<size_t>(decoder.size(), 1 + i));
    recorder.add({{"encoder_prompt", encoder}, {"decoder_prompt", {{"prompt_token_ids", decoder}}}},
                 params);
  }
  return recorder.run();
}

void expect_near(const google::protobuf::RepeatedPtrField<proto::TokenLogprob>& got,
                 const google::protobuf::RepeatedPtrField<proto::TokenLogprob>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (int i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i].logprob(), want[i].logprob(), 1e-3);
  if (got.size() > 0) {
    EXPECT_EQ(got[0].token_id(), want[0].token_id());
  }
}

// Neighbours in the list may be closer to each other than the ranks' sums are exact.
void expect_near(const proto::BeamCandidates& got, const proto::BeamCandidates& want) {
  ASSERT_EQ(got.token_ids_size(), want.token_ids_size());
  ASSERT_EQ(got.logprobs_size(), want.logprobs_size());
  ASSERT_EQ(got.perturbed_size(), want.perturbed_size());
  const auto& keys = want.perturbed_size() > 0 ? want.perturbed() : want.logprobs();
  const auto& got_keys = want.perturbed_size() > 0 ? got.perturbed() : got.logprobs();
  for (int i = 0; i < keys.size(); ++i)
    if (std::isfinite(keys[i])) {
      EXPECT_NEAR(got_keys[i], keys[i], 1e-3);
    }
}

void expect_same_group(const proto::SequenceGroupOutput& got,
                       const proto::SequenceGroupOutput& want, bool leader) {
  ASSERT_EQ(got.request_id(), want.request_id());
  ASSERT_EQ(got.samples_size(), want.samples_size());
  for (int i = 0; i < got.samples_size(); ++i) {
    ASSERT_EQ(got.samples(i).seq_id(), want.samples(i).seq_id());
    ASSERT_EQ(got.samples(i).token_id(), want.samples(i).token_id());
    EXPECT_NEAR(got.samples(i).logprob(), want.samples(i).logprob(), 1e-3);
    ASSERT_EQ(got.samples(i).has_logprobs(), leader && want.samples(i).has_logprobs());
    ASSERT_EQ(got.samples(i).has_candidates(), leader && want.samples(i).has_candidates());
    if (leader) expect_near(got.samples(i).candidates(), want.samples(i).candidates());
    if (leader) expect_near(got.samples(i).logprobs().top(), want.samples(i).logprobs().top());
  }
  ASSERT_EQ(got.has_embedding(), leader && want.has_embedding());
  ASSERT_EQ(got.embedding().values_size(), leader ? want.embedding().values_size() : 0);
  for (int i = 0; i < got.embedding().values_size(); ++i)
    EXPECT_NEAR(got.embedding().values(i), want.embedding().values(i), 1e-4);
  ASSERT_EQ(got.prompt_logprobs_size(), leader ? want.prompt_logprobs_size() : 0);
  for (int i = 0; i < got.prompt_logprobs_size(); ++i)
    expect_near(got.prompt_logprobs(i).top(), want.prompt_logprobs(i).top());
}

// A message that is refused, by all ranks alike.
bool refuses_unknown_group(ModelRunner& runner) {
  proto::StepInput step;
  step.add_deltas()->set_request_id("nobody");
  try {
    runner.execute(step);
  } catch (const CommunicatorError&) {
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

// The recorded steps, on so many stages of that many ranks. The last stage's answers count.
void expect_same_on(const std::string& checkpoint, const Recording& recording, int of_stage,
                    int stages = 1, const std::vector<int32_t>& layers = {}) {
  const int ranks = of_stage * stages;
  std::vector<std::vector<proto::StepOutput>> results(static_cast<size_t>(ranks));
  const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
    Rank rank(checkpoint, comm, stages, layers);
    for (size_t i = 0; i < recording.steps.size(); ++i) {
      if (i == 5 && !refuses_unknown_group(*rank.runner)) throw std::runtime_error("accepted");
      results[static_cast<size_t>(comm.rank())].push_back(rank.runner->execute(recording.steps[i]));
    }
  });
  for (const auto& e : errors) ASSERT_EQ(e, "");
  for (size_t r = results.size() - static_cast<size_t>(of_stage); r < results.size(); ++r) {
    for (size_t i = 0; i < recording.steps.size() && !::testing::Test::HasFatalFailure(); ++i) {
      SCOPED_TRACE(::testing::Message() << "rank " << r << " of " << stages << " stages of "
                                        << of_stage << ", step " << i);
      const auto& got = results[r][i].outputs();
      const auto& want = recording.outputs[i].outputs();
      ASSERT_EQ(got.size(), want.size());
      for (int g = 0; g < got.size(); ++g) {
        expect_same_group(got[g], want[g], r % static_cast<size_t>(of_stage) == 0);
        ASSERT_EQ(results[r][i].stage_seconds_size(), stages > 1 ? stages : 0);
        if (of_stage == 1) {
          EXPECT_EQ(got[g].SerializeAsString(), want[g].SerializeAsString());
        }
      }
    }
  }
}

class TensorParallel : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorParallel, SameTokensOnEveryNumberOfRanks) {
  const Recording recording = record(GetParam());
  EXPECT_GT(recording.preemptions, 0);
  for (const int ranks : {2, 3, 4, 7})  // 7: more than heads
    expect_same_on(GetParam(), recording, ranks);
}

INSTANTIATE_TEST_SUITE_P(Bart, TensorParallel,
                         ::testing::Values("bart-tiny", "bart-odd-heads", "bart-base-shape"),
                         testing::checkpoint_test_name);

// Some have fewer heads, of keys or at all, than there are ranks.
class TensorParallelFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorParallelFamilies, SameTokens) {
  const Recording recording = record(GetParam());
  for (const int ranks : {2, 4}) expect_same_on(GetParam(), recording, ranks);
}

INSTANTIATE_TEST_SUITE_P(Families, TensorParallelFamilies,
                         ::testing::ValuesIn(testing::text_goldens()),
                         testing::checkpoint_test_name);

// Stages of one or two ranks; by size, or as they are told.
class Stages : public ::testing::TestWithParam<const char*> {};

TEST_P(Stages, SameTokens) {
  const Recording recording = record(GetParam(), 2);
  EXPECT_EQ(recording.most_in_flight, 3);
  EXPECT_GT(recording.preemptions, 0);
  const ModelConfig config = ModelConfig::load(testing::golden_dir(GetParam()));
  const int layers = config.encoder_layers + config.decoder_layers;
  expect_same_on(GetParam(), recording, 1, 2);
  expect_same_on(GetParam(), recording, 2, 2, {1, layers - 1});
  if (layers < 4) return;
  const Recording deeper = record(GetParam(), 3);
  EXPECT_EQ(deeper.most_in_flight, 4);
  expect_same_on(GetParam(), deeper, 1, 3, {layers - 2, 1, 1});
}

INSTANTIATE_TEST_SUITE_P(Families, Stages, ::testing::ValuesIn(testing::text_goldens()),
                         testing::checkpoint_test_name);

}  // namespace
}  // namespace tandem
