// Token tables that config.json ties, in files that have other values or fewer tables: the scores
// of HuggingFace (tests/data/tied_scores.json, made by scripts/goldens/make_tied_scores.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/draft_checkpoint.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::tied_tables_test {
namespace {

using nlohmann::json;
constexpr double kTolerance = 3e-4;

// The golden checkpoint with the tables of the case.
void write(const json& c, const test::TempDir& dir) {
  testing::DraftCheckpoint changed;
  const json drop = c.value("drop", json::array());
  changed.drops = [&](const std::string& name) {
    return std::find(drop.begin(), drop.end(), name) != drop.end();
  };
  const json copies = c.value("copy", json::object());
  for (const auto& [name, of] : copies.items())
    changed.copies[name] = {of[0].get<std::string>(), of[1] == -1};
  changed.config = c.value("config", json::object());
  changed.write(c.at("base"), dir);
}

std::vector<double> scores(const std::string& model, const json& source, const json& target) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_model(model);
  LLMEngine engine(config);
  engine.add_request(
      "x",
      {{"encoder_prompt", {{"prompt_token_ids", source}}},
       {"decoder_prompt", {{"prompt_token_ids", {engine.model_config().decoder_start_token_id}}}},
       {"target", {{"prompt_token_ids", target}}},
       {"append_eos", false}},
      json::object());
  std::vector<double> out;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      for (const auto& position : output.prompt_logprobs())
        out.push_back(position.top(0).logprob());
      out.push_back(output.outputs(0).logprobs(0).top(0).logprob());
    }
  return out;
}

TEST(TiedTables, ScoresAreHuggingFaces) {
  const json file = json_from<json>(
      test::read_file(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/tied_scores.json"));
  ASSERT_EQ(file.at("cases").size(), 37U);
  for (const json& c : file.at("cases")) {
    SCOPED_TRACE(c.dump());
    test::TempDir dir;
    write(c, dir);
    const auto got = scores(dir.path().string(), file.at("source"), file.at("target"));
    const auto want = c.at("logprobs").get<std::vector<double>>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kTolerance) << i;
  }
}

}  // namespace
}  // namespace tandem::tied_tables_test
