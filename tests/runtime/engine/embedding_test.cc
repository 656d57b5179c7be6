// Embeddings: HuggingFace's encoder states, pooled; whatever shares the batch; without blocks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/execution/encoder_runner.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/golden_embeddings.h"

namespace tandem::embedding_test {
namespace {

using nlohmann::json;
constexpr double kTolerance = 1e-4;  // of the states; values of normalised vectors are smaller

json ids(const json& list) { return {{"prompt_token_ids", list}}; }
json pooled(const json& source, const std::string& pooling = "mean", bool normalize = true) {
  return {{"encoder_prompt", source}, {"pooling", pooling}, {"normalize", normalize}};
}

std::map<std::string, proto::RequestOutput> run_all(LLMEngine& engine) {
  std::map<std::string, proto::RequestOutput> out;
  while (engine.has_unfinished_requests())
    for (auto& o : engine.step()) {
      engine.check_integrity();
      if (o.finished()) out[o.request_id()] = o;
    }
  return out;
}

void expect_near(const proto::RequestOutput& output, const std::vector<double>& want) {
  EXPECT_EQ(output.outputs_size(), 0);
  const auto& got = output.embedding().values();
  ASSERT_EQ(static_cast<size_t>(got.size()), want.size());
  for (int i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[static_cast<size_t>(i)], kTolerance) << "value " << i;
}

class EmbeddingGoldens : public ::testing::TestWithParam<const char*> {};

// All ways to pool, beside requests that generate; a budget of 5 gives each input its own step.
TEST_P(EmbeddingGoldens, AgreeWithHuggingFace) {
  const auto cases = testing::golden_embeddings(GetParam());
  const auto generated = testing::generated_cases(GetParam());
  for (const int budget : {2048, 5}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_scheduling()->set_max_num_batched_tokens(budget);
    config.mutable_cache()->set_block_size(budget == 5 ? 2 : 16);
    LLMEngine engine(config);
    std::map<std::string, std::vector<double>> expected;
    std::map<std::string, json> tokens;
    for (size_t i = 0; i < cases.size() * 6; ++i) {
      const testing::GoldenEmbedding& c = cases[i / 6];
      const char* pooling = std::vector{"mean", "cls", "last"}[i % 3];
      const bool normalize = i % 6 < 3;
      const std::string id = c.name + "/" + pooling + (normalize ? "/1" : "/0");
      engine.add_request(id, pooled(ids(c.ids), pooling, normalize), json::object());
      expected[id] = c.pooled(pooling, normalize);
      const json& other = generated[i % generated.size()];
      if (tokens.count(other.at("name"))) continue;
      engine.add_request(other.at("name"),
                         {{"encoder_prompt", ids(other.at("encoder_ids"))},
                          {"decoder_prompt", ids(other.at("decoder_prompt_ids"))}},
                         other.at("generation"));
      tokens[other.at("name")] = other;
    }
    const auto results = run_all(engine);
    for (const auto& [id, want] : expected) {
      SCOPED_TRACE(id);
      expect_near(results.at(id), want);
    }
    for (const auto& [id, c] : tokens) {
      const auto& output = results.at(id);
      std::vector<int> all(output.inputs().prompt_token_ids().begin(),
                           output.inputs().prompt_token_ids().end());
      all.insert(all.end(), output.outputs(0).token_ids().begin(),
                 output.outputs(0).token_ids().end());
      const json& first = c.contains("sequences") ? c["sequences"][0] : c["output_ids"];
      EXPECT_EQ(json(all), first) << id;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bart, EmbeddingGoldens,
                         ::testing::Values("bart-tiny", "bart-base-shape", "bart-odd-heads",
                                           "bart-model-only"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Bit for bit what it is alone, in random company.
TEST(Embeddings, DoNotDependOnTheBatch) {
  const auto cases = testing::golden_embeddings("bart-tiny");
  std::map<std::string, std::string> alone;
  {
    LLMEngine engine(testing::golden_config("bart-tiny"));
    for (const auto& c : cases) {
      engine.add_request(c.name, pooled(ids(c.ids)), json::object());
      alone[c.name] = run_all(engine).at(c.name).embedding().SerializeAsString();
    }
  }
  std::mt19937 rng(7);
  SCOPED_TRACE("seed 7");
  const auto one_in = [&](int n) { return std::uniform_int_distribution(1, n)(rng) == 1; };
  for (int trial = 0; trial < 10; ++trial) {
    EngineConfig config = testing::golden_config("bart-tiny");
    config.mutable_cache()->set_block_size(4);
    config.mutable_cache()->set_num_gpu_blocks_override(60);
    config.mutable_scheduling()->set_max_num_batched_tokens(one_in(2) ? 64 : 200);
    LLMEngine engine(config);
    std::map<std::string, std::string> expected;
    int steps = 0, next = 0;
    while (next < 30 || engine.has_unfinished_requests()) {
      const auto& c = cases[static_cast<size_t>(next) % cases.size()];
      const std::string id = std::to_string(next);
      if (next < 30 && one_in(2)) {
        engine.add_request("text " + id, {{"encoder_prompt", ids(c.ids)}},
                           {{"max_tokens", 20}, {"num_beams", one_in(3) ? 2 : 1}});
      } else if (next < 30) {
        engine.add_request(id, pooled(ids(c.ids)), json::object());
        expected[id] = alone.at(c.name);
      }
      ++next;
      for (const auto& output : engine.step()) {
        if (output.has_embedding()) {
          EXPECT_EQ(output.embedding().SerializeAsString(), expected.at(output.request_id()));
          expected.erase(output.request_id());
        }
      }
      engine.check_integrity();
      ASSERT_LT(++steps, 5000);
    }
    EXPECT_TRUE(expected.empty());
  }
}

// A source that the cache could never hold.
TEST(Embeddings, NeedNoBlocks) {
  const auto cases = testing::golden_embeddings("bart-tiny");
  const auto longest =
      std::max_element(cases.begin(), cases.end(),
                       [](const auto& a, const auto& b) { return a.ids.size() < b.ids.size(); });
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_block_size(4);
  config.mutable_cache()->set_num_gpu_blocks_override(2);
  LLMEngine engine(config);
  EXPECT_THROW(engine.add_request("text", {{"encoder_prompt", ids(longest->ids)}}, json::object()),
               InputError);
  engine.add_request("x", pooled(ids(longest->ids)), json::object());
  engine.add_request("y", pooled(ids(longest->ids)), json::object());
  EXPECT_TRUE(engine.abort_request("y"));
  const auto outputs = engine.step();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(outputs[0].finished());
  expect_near(outputs[0], longest->pooled("mean", true));
  EXPECT_EQ(engine.scheduler().block_manager().device().num_free(), 2);
  EXPECT_FALSE(engine.has_unfinished_requests());
}

TEST(Embeddings, Pooling) {
  Tensor states({2, 3}, DType::kF32);
  const float values[] = {3, 0, 0, 1, 0, 2};
  std::copy(std::begin(values), std::end(values), states.data<float>());
  proto::Pooling pooling;
  const auto result = [&] {
    const proto::Embedding out = pool(states, pooling);
    return std::vector<float>(out.values().begin(), out.values().end());
  };
  EXPECT_EQ(result(), (std::vector<float>{2, 0, 1}));
  pooling.set_kind(proto::Pooling::LAST);
  EXPECT_EQ(result(), (std::vector<float>{1, 0, 2}));
  pooling.set_kind(proto::Pooling::CLS);
  pooling.set_normalize(true);
  EXPECT_EQ(result(), (std::vector<float>{1, 0, 0}));
  std::fill(states.data<float>(), states.data<float>() + 6, 0.0f);
  EXPECT_EQ(result(), (std::vector<float>{0, 0, 0})) << "there is no direction";
}

TEST(Embeddings, BadRequests) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const auto param_of = [&](json more, const json& params = json::object()) -> std::string {
    json prompt = {{"encoder_prompt", "x"}, {"pooling", "mean"}};
    prompt.update(more);
    try {
      engine.add_request("x", prompt, params);
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(error.param()), std::string::npos);
      return error.param();
    }
    ADD_FAILURE() << prompt << " is accepted";
    return "";
  };
  for (const json& pooling : {json(1), json("max"), json::array({"mean"})})
    EXPECT_EQ(param_of({{"pooling", pooling}}), "pooling");
  EXPECT_EQ(param_of({{"decoder_prompt", "y"}}), "pooling");
  EXPECT_EQ(param_of({{"target", "y"}}), "pooling");
  EXPECT_EQ(param_of({{"normalize", 1}}), "normalize");
  EXPECT_EQ(param_of({{"normalize", true}, {"pooling", nullptr}}), "normalize");
  EXPECT_EQ(param_of({{"encoder_prompt", ids(json::array())}}),
            "prompt.encoder_prompt.prompt_token_ids");
  EXPECT_EQ(param_of({{"encoder_prompt", ids(std::vector<int>(200, 5))}}),
            "prompt.encoder_prompt.prompt_token_ids");
  EXPECT_EQ(param_of(json::object(), {{"max_tokens", 5}}), "max_tokens");
  EXPECT_EQ(param_of(json::object(), {{"truncate_prompt_tokens", 0}}), "truncate_prompt_tokens");
  EXPECT_EQ(param_of(json::object(), {{"nonsense", 0}}), "nonsense");
  EXPECT_FALSE(engine.has_unfinished_requests());
  engine.add_request("x", pooled("some words of a text"), {{"truncate_prompt_tokens", 4}});
  const auto outputs = engine.step();
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].inputs().encoder_prompt_token_ids_size(), 4);
}

}  // namespace
}  // namespace tandem::embedding_test
