// Classifications, answers and encoders alone: HuggingFace's logits, whatever shares the batch, in
// chunks, with few blocks, in every type of weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/request/heads/head_json.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::heads_test {
namespace {

using nlohmann::json;

constexpr double kTolerance = 2e-4;

json prompt_of(const json& golden) {
  json prompt = {{"encoder_prompt", {{"prompt_token_ids", golden.at("encoder_ids")}}}};
  if (golden.at("kind") == "embed") {
    prompt["pooling"] = "mean";
    prompt["normalize"] = false;
  } else {
    prompt["task"] = golden.at("kind");
  }
  return prompt;
}

std::vector<double> expected(const json& golden) {
  if (golden.at("kind") == "classify") return golden.at("logits").get<std::vector<double>>();
  if (golden.at("kind") == "embed") return golden.at("embedding").get<std::vector<double>>();
  std::vector<double> out;
  for (size_t i = 0; i < golden.at("start_logits").size(); ++i)
    for (const char* side : {"start_logits", "end_logits"}) out.push_back(golden.at(side)[i]);
  return out;
}

using Results = std::map<std::string, proto::RequestOutput>;

Results run_all(LLMEngine& engine) {
  Results out;
  int steps = 0;
  while (engine.has_unfinished_requests()) {
    for (auto& output : engine.step()) out[output.request_id()] = output;
    engine.check_integrity();
    if (++steps > 5000) break;
  }
  return out;
}

void add(LLMEngine& engine, const std::string& id, const json& golden) {
  engine.add_request(id, prompt_of(golden), json::object());
}

void expect_near(const proto::RequestOutput& output, const json& golden, double tolerance) {
  const auto& got = output.embedding().values();
  const std::vector<double> want = expected(golden);
  EXPECT_EQ(output.outputs_size(), 0);
  ASSERT_EQ(static_cast<size_t>(got.size()), want.size());
  for (int i = 0; i < got.size(); ++i) {
    const double value = want[static_cast<size_t>(i)];
    ASSERT_NEAR(got[i], value, tolerance * std::max(1.0, std::abs(value))) << "value " << i;
  }
}

struct Shape {
  int budget, block_size, blocks;
};

class HeadGoldens : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<json> cases() const {
    return testing::load_golden(GetParam()).at("cases").get<std::vector<json>>();
  }
};

TEST_P(HeadGoldens, AgreeWithHuggingFace) {
  const std::vector<json> all = cases();
  ASSERT_GE(all.size(), 7u);
  for (const auto [budget, block_size, blocks] :
       {Shape{2048, 16, 400}, Shape{5, 4, 100}, Shape{7, 1, 230}}) {
    SCOPED_TRACE("budget " + std::to_string(budget));
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_scheduling()->set_max_num_batched_tokens(budget);
    config.mutable_cache()->set_block_size(block_size);
    config.mutable_cache()->set_num_gpu_blocks_override(blocks);
    LLMEngine engine(config);
    for (const json& golden : all) add(engine, golden.at("name"), golden);
    const Results results = run_all(engine);
    for (const json& golden : all) {
      SCOPED_TRACE(golden.at("name").get<std::string>());
      expect_near(results.at(golden.at("name")), golden, kTolerance);
    }
  }
}

// Of weights in other types: not far off.
TEST_P(HeadGoldens, OtherTypes) {
  for (const auto& [dtype, tolerance] : {std::pair("bfloat16", 0.1), std::pair("int8", 0.25)}) {
    SCOPED_TRACE(dtype);
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_loading()->set_dtype(dtype);
    LLMEngine engine(config);
    for (const json& golden : cases()) add(engine, golden.at("name"), golden);
    const Results results = run_all(engine);
    double sum = 0, count = 0;
    for (const json& golden : cases()) {
      const auto& got = results.at(golden.at("name")).embedding().values();
      const std::vector<double> want = expected(golden);
      ASSERT_EQ(static_cast<size_t>(got.size()), want.size());
      for (int i = 0; i < got.size(); ++i, ++count)
        sum += std::abs(got[i] - want[static_cast<size_t>(i)]);
    }
    EXPECT_LT(sum / count, tolerance);
    EXPECT_GT(sum, 0) << "the type makes no difference";
  }
}

// Bit for bit what each is alone, with preemption by both ways, in random company, and again from
// what is cached.
TEST_P(HeadGoldens, DoNotDependOnTheBatch) {
  const std::vector<json> all = cases();
  std::map<std::string, std::string> alone;
  for (const json& golden : all) {
    LLMEngine engine(testing::golden_config(GetParam()));
    add(engine, "x", golden);
    alone[golden.at("name")] = run_all(engine).at("x").embedding().SerializeAsString();
  }
  std::mt19937 rng(11);
  SCOPED_TRACE("seed 11");
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_cache()->set_block_size(4);
    config.mutable_cache()->set_num_gpu_blocks_override(60);
    config.mutable_scheduling()->set_max_num_batched_tokens(13);
    config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
    LLMEngine engine(config);
    std::map<std::string, std::string> names;
    Results results;
    for (int i = 0; i < 40; ++i) {
      const json& golden = all[std::uniform_int_distribution<size_t>(0, all.size() - 1)(rng)];
      const std::string id = std::to_string(i);
      names[id] = golden.at("name");
      add(engine, id, golden);
      if (i % 3 > 0) continue;
      for (auto& output : engine.step()) results[output.request_id()] = output;
      engine.check_integrity();
    }
    results.merge(run_all(engine));
    ASSERT_EQ(results.size(), names.size());
    for (const auto& [id, name] : names) {
      EXPECT_EQ(results.at(id).embedding().SerializeAsString(), alone.at(name)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, HeadGoldens,
                         ::testing::Values("bart-labels", "mbart-labels", "t5-labels", "bart-spans",
                                           "t5-states"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Texts and pairs, as HuggingFace tokenizes and cuts them.
TEST(Heads, Texts) {
  LLMEngine engine(testing::golden_config("bart-labels"));
  std::map<std::string, json> goldens;
  const json file = testing::load_golden("bart-labels");
  for (const json& golden : file.at("cases")) {
    json line = {{"id", golden["name"]}, {"text", golden["text"]}};
    if (golden.contains("text_pair")) line["text_pair"] = golden["text_pair"];
    if (golden.contains("truncated_to"))
      line["params"] = {{"truncate_prompt_tokens", golden["truncated_to"]}};
    proto::Pooling pooling;
    pooling.set_kind(proto::Pooling::LABELS);
    const JsonRequest request = head_request_from_json(line, pooling);
    engine.add_request(golden["name"], request.prompt, request.options);
    goldens[golden["name"]] = golden;
  }
  const Results results = run_all(engine);
  ASSERT_EQ(results.size(), goldens.size());
  for (const auto& [name, golden] : goldens) {
    SCOPED_TRACE(name);
    const proto::RequestOutput& output = results.at(name);
    EXPECT_EQ(json(output.inputs().encoder_prompt_token_ids()), golden["encoder_ids"]);
    expect_near(output, golden, kTolerance);
    const json line = classification_to_json(output, name);
    EXPECT_EQ(line["id"], name);
    EXPECT_EQ(line["label"], golden["label"]);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(line["probs"][i].get<double>(), golden["probs"][i].get<double>(), kTolerance);
  }
}

TEST(Heads, SpansAreTheBest) {
  LLMEngine engine(testing::golden_config("bart-spans"));
  const json goldens = testing::load_golden("bart-spans").at("cases");
  for (const json& golden : goldens) add(engine, golden["name"], golden);
  const Results results = run_all(engine);
  for (const json& golden : goldens)
    EXPECT_EQ(answer_to_json(results.at(golden["name"]), 1)["best_span"], golden["best_span"]);
}

std::string error_of(LLMEngine& engine, const json& prompt, const json& params = json::object()) {
  try {
    engine.add_request("x", prompt, params);
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << prompt << " is accepted";
  return "";
}

TEST(Heads, OtherTasksAreRefused) {
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  LLMEngine labels(testing::golden_config("bart-labels"));
  const std::string text = error_of(labels, "a text");
  contains(text, "BartForSequenceClassification");
  contains(text, "`tandem classify`");
  contains(error_of(labels, {{"encoder_prompt", "a"}, {"task", "answer"}}), "classifies texts");
  contains(error_of(labels, {{"encoder_prompt", "a"}, {"target", "b"}}), "scores targets");
  LLMEngine spans(testing::golden_config("bart-spans"));
  contains(error_of(spans, "a text"), "`tandem answer`");
  LLMEngine states(testing::golden_config("t5-states"));
  contains(error_of(states, "a text"), "`tandem embed`");
  LLMEngine bart(testing::golden_config("bart-tiny"));
  contains(error_of(bart, {{"encoder_prompt", "a"}, {"task", "classify"}}), "`tandem generate`");
}

TEST(Heads, BadRequests) {
  LLMEngine engine(testing::golden_config("bart-labels"));
  const json ids = {{"prompt_token_ids", {5, 6}}};
  const std::pair<json, const char*> cases[] = {
      {{{"encoder_prompt", ids}, {"task", "classify"}}, "has no end token (1)"},
      {{{"encoder_prompt", "a"}, {"task", "sing"}}, "is not one of classify, answer"},
      {{{"encoder_prompt", "a"}, {"task", "classify"}, {"pooling", "mean"}}, "pooling"},
      {{{"encoder_prompt", "a"}, {"task", "classify"}, {"decoder_prompt", "b"}}, "decoder_prompt"},
      {{{"encoder_prompt", {{"prompt_token_ids", {5, 1}}, {"text_pair", "b"}}},
        {"task", "classify"}},
       "text_pair"},
      {{{"encoder_prompt", {{"prompt", "a"}, {"truncation", "only_first"}}}, {"task", "classify"}},
       "truncation"},
      {{{"encoder_prompt", std::string(200, 'a')}, {"task", "classify"}}, "96"},
  };
  for (const auto& [prompt, part] : cases) {
    const std::string error = error_of(engine, prompt);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  const json good = {{"encoder_prompt", "a"}, {"task", "classify"}};
  EXPECT_NE(error_of(engine, good, {{"max_tokens", 3}}).find("max_tokens"), std::string::npos);
  EXPECT_FALSE(engine.has_unfinished_requests());
  engine.add_request("x", good, json::object());
  EXPECT_EQ(run_all(engine).at("x").embedding().values_size(), 3);
}

}  // namespace
}  // namespace tandem::heads_test
