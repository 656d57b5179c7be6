// Adapters change layers of several ranks, which have some of them each: stages, and encoders on
// ranks of their own.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "actors/cluster.h"
#include "tests/support/engine/cluster_client.h"
#include "tests/support/goldens/golden_cluster_config.h"
#include "tests/support/goldens/lora_goldens.h"

namespace tandem::adapters_over_ranks_test {
namespace {

using nlohmann::json;

client::Request request_of(const json& one) {
  client::Request out;
  out.prompt = client::Prompt::raw_json(
      json{{"encoder_prompt", {{"prompt_token_ids", one["encoder_ids"]}}},
           {"decoder_prompt", {{"prompt_token_ids", one["decoder_prompt_ids"]}}}}
          .dump());
  out.params_json = one["generation"].dump();
  if (one["adapter"].is_string()) out.options.set_lora(one["adapter"].get<std::string>());
  return out;
}

// Without the decoder's prompt.
std::vector<int> expected_of(const json& one) {
  const auto all = one["output_ids"].get<std::vector<int>>();
  return {all.begin() + std::ssize(one["decoder_prompt_ids"]), all.end()};
}

class AdaptersOverRanks : public ::testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(AdaptersOverRanks, HuggingFacesTokens) {
  const auto& [tp, stages, encoders] = GetParam();
  actors::ClusterConfig config = testing::golden_cluster_config("bart-tiny");
  *config.engine.mutable_adapters() = testing::lora_config("bart-tiny").adapters();
  config.engine.mutable_parallel()->set_pipeline_parallel_size(stages);
  config.engine.mutable_parallel()->set_encoder_ranks(encoders);
  config.tensor_parallel_size = tp;
  actors::Cluster cluster(config, std::unique_ptr<actors::GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  std::vector<std::pair<json, client::RequestHandle>> handles;
  for (const json& one : testing::lora_cases("bart-tiny"))
    if (!one.contains("sequences")) handles.emplace_back(one, client.submit(request_of(one)));
  EXPECT_GE(handles.size(), 8U);
  for (const auto& [one, handle] : handles) {
    const proto::RequestOutput output = handle.get();
    ASSERT_EQ(output.outputs_size(), 1);
    const auto& ids = output.outputs(0).token_ids();
    EXPECT_EQ(std::vector<int>(ids.begin(), ids.end()), expected_of(one)) << one["name"];
  }
  cluster.stop();
  EXPECT_EQ(cluster.status().restarts, 0);
}

// Ranks of a stage, stages, ranks of encoders.
INSTANTIATE_TEST_SUITE_P(Layouts, AdaptersOverRanks,
                         ::testing::Values(std::tuple{1, 2, 0}, std::tuple{2, 2, 0},
                                           std::tuple{1, 1, 1}, std::tuple{1, 2, 1}));

}  // namespace
}  // namespace tandem::adapters_over_ranks_test
