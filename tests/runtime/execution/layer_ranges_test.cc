// A model whose layers lie on several ranks, one after the other: each hands its state to the next.
// The bits are those of the whole model, and no rank reads the layers of another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/family.h"
#include "models/load_model.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/execution/kv_cache.h"
#include "tests/kernels/kernels_test_util.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/goldens.h"
#include "tests/support/goldens/random_speech.h"

namespace tandem {
namespace {

using testing::Random;

constexpr int kPageSize = 4, kNumPages = 64;

// The tensors that a model asks for.
class NotedSource final : public WeightSource {
 public:
  explicit NotedSource(Checkpoint& checkpoint) : checkpoint_(checkpoint) {}
  const HostTensor* find(const std::string& name) override {
    const HostTensor* tensor = checkpoint_.find(name);
    if (tensor != nullptr) found.insert(name);
    return tensor;
  }
  std::string location() const override { return checkpoint_.location(); }
  std::set<std::string> found;

 private:
  Checkpoint& checkpoint_;
};

// One rank: its layers, its pages.
struct RangeStage {
  RangeStage(const ModelConfig& config, Checkpoint& checkpoint, Context& ctx, Communicator& comm,
             LayerRange encoder, LayerRange decoder, bool writes_cross = false)
      : build{ctx, comm, DType::kF32},
        source((build.encoder_layers = encoder, build.decoder_layers = decoder,
                build.writes_cross = writes_cross, checkpoint)),
        model(find_family(config).make(config, Weights(source), build)),
        pools(ctx, model->kv_cache_spec(), kPageSize, kNumPages, 0) {}

  Build build;
  NotedSource source;
  std::unique_ptr<Model> model;
  KvCachePools pools;
};

// Groups of one sequence, at random.
std::vector<WorkerGroup> random_groups(Random& random, const ModelConfig& config,
                                       const ModelLimits& limits) {
  std::vector<WorkerGroup> groups(3);
  int block = 0;
  const auto ids = [&](int count) {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i)
      out.push_back(static_cast<int32_t>(random.integer(4, config.vocab_size - 1)));
    return out;
  };
  for (WorkerGroup& group : groups) {
    WorkerEncoder& encoder = group.encoder;
    group.compute_encoder = true;
    if (limits.frames && !limits.frames->beside_ids) {
      encoder.frames.width = limits.frames->width;
      encoder.frames.count = limits.frames->image ? static_cast<int>(limits.frames->image->count())
                                                  : static_cast<int>(random.integer(2, 20));
      for (int i = 0; i < encoder.frames.count * encoder.frames.width; ++i)
        encoder.frames.values.push_back(random.normal());
      encoder.length = static_cast<int>(limits.frames->length_of(encoder.frames.count));
    } else {
      encoder.length = static_cast<int>(random.integer(1, 15));
      encoder.tokens = ids(encoder.length);
    }
    for (int i = 0; i < 5; ++i) encoder.blocks.push_back(block++);
    WorkerSequence& seq = group.seqs.emplace_back();
    seq.prompt = ids(static_cast<int>(random.integer(1, 6)));
    seq.chunk = seq.length();
    for (int i = 0; i < 5; ++i) seq.blocks.push_back(block++);
  }
  return groups;
}

void expect_same(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(got.data<float>()[i], want.data<float>()[i]) << i;
}

// No weight of a layer that is another rank's. (A norm may be looked at for the layout of the file,
// and a table of distances may lie in the first layer and be used by all.)
bool may_have(const std::string& name, const Build& build) {
  static const std::regex layer(
      R"(^(?:\w+\.)??(encoder|decoder)\.(?:\w+\.)*?(?:layers?|block|h)\.(\d+)\.(.*))");
  std::smatch match;
  if (!std::regex_search(name, match, layer)) return true;
  const std::string part = match[3];
  if (part.find("norm") != std::string::npos || part.find("relative_") != std::string::npos)
    return true;
  const LayerRange& own = match[1] == "encoder" ? build.encoder_layers : build.decoder_layers;
  const int i = std::stoi(match[2]);
  return i >= own.begin && i < own.end;
}

// Where ranks' ranges end.
std::vector<int> random_ends(Random& random, int layers, int ranks) {
  std::vector<int> ends;
  for (int i = 0; i + 1 < ranks; ++i) ends.push_back(static_cast<int>(random.integer(0, layers)));
  std::sort(ends.begin(), ends.end());
  ends.push_back(layers);
  return ends;
}

// By name: of HuggingFace's goldens, one of images, one of sound.
class Checkpoints {
 public:
  std::filesystem::path directory(const std::string& name) const {
    if (name == "images") return test::test_root() / "tests/data/vision-tiny";
    return name == "sound" ? speech_.path() : testing::golden_dir(name);
  }

 private:
  testing::RandomSpeech speech_;
};

class LayerRanges : public ::testing::TestWithParam<const char*> {};

TEST_P(LayerRanges, HandOnTheBitsOfTheWholeModel) {
  Random random;
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Checkpoints checkpoints;
  const auto directory = checkpoints.directory(GetParam());
  const ModelConfig config = ModelConfig::load(directory);
  const ModelLimits limits = find_family(config).limits(config);
  Checkpoint checkpoint = Checkpoint::open(directory);
  RangeStage whole(config, checkpoint, ctx, *comm, {}, {});
  for (const int ranks : {2, 3}) {
    const auto encoder_ends = random_ends(random, config.encoder_layers, ranks),
               decoder_ends = random_ends(random, config.decoder_layers, ranks);
    std::string about = std::to_string(ranks) + " ranks, layers";
    std::vector<std::unique_ptr<RangeStage>> stages;
    int cached_layers = 0;
    for (int r = 0, e = 0, d = 0; r < ranks; ++r) {
      const auto at = static_cast<size_t>(r);
      stages.push_back(std::make_unique<RangeStage>(config, checkpoint, ctx, *comm,
                                                    LayerRange{e, encoder_ends[at]},
                                                    LayerRange{d, decoder_ends[at]}));
      e = encoder_ends[at], d = decoder_ends[at];
      about += " " + std::to_string(e) + "/" + std::to_string(d);
      cached_layers += stages.back()->model->kv_cache_spec().num_layers;
    }
    SCOPED_TRACE(about);
    EXPECT_EQ(cached_layers, config.decoder_layers);

    std::vector<WorkerGroup> groups = random_groups(random, config, limits);
    std::vector<WorkerGroup*> scheduled;
    for (WorkerGroup& group : groups) scheduled.push_back(&group);
    for (int step = 0; step < 3; ++step) {
      const Batch batch = build_batch(scheduled, kPageSize, limits.position_padding);
      const StepTensors in(batch.input);
      if (step == 0) {
        const Tensor want = whole.model->encode(in);
        StageState state;
        for (const auto& stage : stages)
          if (!stage->build.encoder_layers.empty())
            state = stage->model->encode_stage(in, std::move(state));
        expect_same(state.sum, want);
        EXPECT_TRUE(state.update.empty());
        whole.model->write_cross_kv(in, want, whole.pools.device());
        for (const auto& stage : stages)
          stage->model->write_cross_kv(in, state.sum, stage->pools.device());
      }
      const Tensor want = whole.model->decode(in, whole.pools.device());
      StageState state;
      for (const auto& stage : stages)
        if (!stage->build.decoder_layers.empty())
          state = stage->model->decode_stage(in, std::move(state), stage->pools.device());
      expect_same(state.sum, want);
      for (const auto& stage : stages)
        if (stage->build.decoder_layers.has_last(config.decoder_layers))
          expect_same(stage->model->compute_logits(state.sum), whole.model->compute_logits(want));
        else
          EXPECT_FALSE(stage->model->has_language_head());
      for (WorkerGroup& group : groups) {
        group.compute_encoder = false;
        WorkerSequence& seq = group.seqs[0];
        seq.num_computed += seq.chunk;
        seq.output.push_back(static_cast<int32_t>(random.integer(4, config.vocab_size - 1)));
        seq.chunk = 1;
      }
    }

    std::set<std::string> all;
    for (const auto& stage : stages) {
      all.insert(stage->source.found.begin(), stage->source.found.end());
      for (const std::string& name : stage->source.found)
        EXPECT_TRUE(may_have(name, stage->build)) << name;
    }
    EXPECT_EQ(all, whole.source.found);
  }
}

// An encoder on a rank of its own: the pages that it writes are the whole model's, and a rank of
// the decoder alone goes on with them.
TEST_P(LayerRanges, AnEncodersRankWritesThePagesOfTheWholeModel) {
  Random random;
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Checkpoints checkpoints;
  const auto directory = checkpoints.directory(GetParam());
  const ModelConfig config = ModelConfig::load(directory);
  const ModelLimits limits = find_family(config).limits(config);
  Checkpoint checkpoint = Checkpoint::open(directory);
  RangeStage whole(config, checkpoint, ctx, *comm, {}, {});
  RangeStage encoder(config, checkpoint, ctx, *comm, {}, LayerRange::none(), /*writes_cross=*/true);
  RangeStage decoder(config, checkpoint, ctx, *comm, LayerRange::none(), {});
  EXPECT_EQ(encoder.model->kv_cache_spec().num_layers, config.decoder_layers);
  EXPECT_EQ(decoder.model->kv_cache_spec().num_layers, config.decoder_layers);
  EXPECT_FALSE(encoder.model->has_language_head());

  std::vector<WorkerGroup> groups = random_groups(random, config, limits);
  std::vector<WorkerGroup*> scheduled;
  for (WorkerGroup& group : groups) scheduled.push_back(&group);
  const Batch batch = build_batch(scheduled, kPageSize, limits.position_padding);
  const StepTensors in(batch.input);
  const Tensor states = encoder.model->encode(in);
  expect_same(states, whole.model->encode(in));
  whole.model->write_cross_kv(in, states, whole.pools.device());
  encoder.model->write_cross_kv(in, states, encoder.pools.device());
  for (size_t i = 0; i < encoder.pools.device().layers.size(); ++i) {
    const Tensor& from = encoder.pools.device().layers[i].data;
    const Tensor& to = decoder.pools.device().layers[i].data;
    ASSERT_EQ(from.shape(), to.shape());
    std::memcpy(to.raw(), from.raw(), from.bytes());
  }
  expect_same(decoder.model->decode(in, decoder.pools.device()),
              whole.model->decode(in, whole.pools.device()));

  std::set<std::string> all = encoder.source.found;
  EXPECT_LT(all.size(), whole.source.found.size());
  EXPECT_LT(decoder.source.found.size(), whole.source.found.size());
  all.insert(decoder.source.found.begin(), decoder.source.found.end());
  EXPECT_EQ(all, whole.source.found);
}

INSTANTIATE_TEST_SUITE_P(Families, LayerRanges,
                         ::testing::Values("bart-tiny", "blenderbot-tiny", "blenderbot-small-tiny",
                                           "marian-tiny", "m2m100-ids", "mbart50-tiny", "t5-tiny",
                                           "umt5-tiny", "t5gemma-ids", "t5gemma2-ids", "led-ids",
                                           "fsmt-ids", "roberta2bert-ids", "roberta2gpt2-ids",
                                           "longt5-ids", "longt5-global-ids", "pegasus-x-ids",
                                           "bigbird-ids", "switch-ids", "nllb-moe-ids",
                                           "prophetnet-ids", "seamless-ids", "images", "sound"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem
