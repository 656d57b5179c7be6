// What clients of a cluster see of requests with several sequences, preempted ones and scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/cluster.h"
#include "tests/support/engine/cluster_client.h"
#include "tests/support/goldens/golden_cluster_config.h"

namespace tandem::actors {
namespace {

using nlohmann::json;

// What a client has put together from chunks.
struct Collected {
  std::map<int, std::string> text;
  std::map<int, std::vector<int>> tokens;
  int chunks_with_output = 0;

  void add(const proto::RequestChunk& chunk) {
    chunks_with_output += chunk.outputs_size() > 0;
    for (const auto& news : chunk.outputs()) {
      std::string& t = text[news.index()];
      std::vector<int>& ids = tokens[news.index()];
      EXPECT_EQ(static_cast<size_t>(news.text_offset()), t.size());
      EXPECT_EQ(static_cast<size_t>(news.token_offset()), ids.size());
      t += news.text();
      ids.insert(ids.end(), news.token_ids().begin(), news.token_ids().end());
    }
  }
  void expect(const proto::RequestOutput& whole) const {
    ASSERT_EQ(text.size(), static_cast<size_t>(whole.outputs_size()));
    for (const auto& c : whole.outputs()) {
      EXPECT_EQ(text.at(c.index()), c.text());
      EXPECT_EQ(tokens.at(c.index()), std::vector<int>(c.token_ids().begin(), c.token_ids().end()));
    }
  }
};

struct Streamed {
  proto::RequestOutput output;
  Collected called, pulled;  // by a callback, and by next_chunk()
};

Streamed stream(client::Client& client, const json& params) {
  client::Request request;
  request.prompt = "a small lighthouse on the coast";
  request.params_json = params.dump();
  Streamed out;
  auto handle = client.submit(
      request, [&called = out.called](const proto::RequestChunk& chunk) { called.add(chunk); });
  while (const auto chunk = handle.next_chunk()) out.pulled.add(*chunk);
  out.output = handle.get();
  out.called.expect(out.output);
  out.pulled.expect(out.output);
  return out;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

TEST(Streams, DeltasOfEverySequenceMakeItsOutput) {
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  bool multi_byte = false;
  int stopped = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    json params = {{"n", 3},           {"seed", seed},   {"temperature", 3.0}, {"top_k", 0},
                   {"max_tokens", 40}, {"num_beams", 1}, {"ignore_eos", true}};
    const Streamed whole = stream(client, params);
    ASSERT_EQ(whole.output.outputs_size(), 3);
    EXPECT_GT(whole.called.chunks_with_output, 3);  // as it comes, not at the end
    for (const auto& c : whole.output.outputs()) multi_byte |= !is_ascii(c.text());
    // Strings of two letters of one sequence's text stop it, and perhaps the others.
    const std::string& text = whole.output.outputs(1).text();
    for (size_t at = text.size() / 2; at + 2 <= text.size(); ++at)
      if (is_ascii(text.substr(at, 2))) {
        params["stop"] = text.substr(at, 2);
        break;
      }
    ASSERT_TRUE(params.contains("stop"));
    for (const bool included : {false, true}) {
      params["include_stop_str_in_output"] = included;
      const Streamed cut = stream(client, params);
      for (int i = 0; i < 3; ++i) {
        const auto& c = cut.output.outputs(i);
        EXPECT_EQ(whole.output.outputs(i).text().compare(0, c.text().size(), c.text()), 0);
        stopped += c.finish_reason() == "stop";
      }
      EXPECT_EQ(cut.output.outputs(1).finish_reason(), "stop");
    }
  }
  EXPECT_TRUE(multi_byte);
  EXPECT_GE(stopped, 8);
}

TEST(Streams, BestOfAndBeamsComeAtTheEnd) {
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  const json sampled = {{"n", 2},           {"best_of", 5},  {"seed", 4}, {"temperature", 1.5},
                        {"max_tokens", 12}, {"num_beams", 1}};
  const Streamed best = stream(client, sampled);
  EXPECT_EQ(best.called.chunks_with_output, 1);
  ASSERT_EQ(best.output.outputs_size(), 2);
  EXPECT_GE(best.output.outputs(0).cumulative_logprob(),
            best.output.outputs(1).cumulative_logprob());
  const Streamed beams = stream(client, {{"num_beams", 3}, {"n", 3}, {"logprobs", 0}});
  EXPECT_EQ(beams.called.chunks_with_output, 1);
  ASSERT_EQ(beams.output.outputs_size(), 3);
  for (const auto& c : beams.output.outputs()) EXPECT_EQ(c.logprobs_size(), c.token_ids_size());
}

TEST(Streams, MetricsTellPreemptions) {
  ClusterConfig config = testing::golden_cluster_config("bart-tiny");
  config.engine.mutable_cache()->set_block_size(2);
  config.engine.mutable_cache()->set_num_gpu_blocks_override(80);
  Cluster cluster(config, std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  std::vector<client::RequestHandle> handles;
  client::Request request;
  request.prompt = "a small lighthouse on the coast";
  request.params_json = R"({"max_tokens": 60, "ignore_eos": true, "num_beams": 1})";
  for (int i = 0; i < 6; ++i) handles.push_back(client.submit(request));
  int preemptions = 0;
  for (const auto& handle : handles) preemptions += handle.get().metrics().num_preemptions();
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(preemptions, client.server_info().replicas(0).stats().num_preemptions());
}

TEST(Streams, ScoresOfTargets) {
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  const json golden = testing::load_golden("bart-tiny");
  int compared = 0;
  for (const auto& c : golden.at("cases")) {
    if (!c.contains("prompt_logprobs")) continue;
    auto ids = c.at("teacher_forced_decoder_ids").get<std::vector<int32_t>>();
    ids.erase(ids.begin());
    const auto want = c.at("prompt_logprobs").get<std::vector<double>>();
    const client::Score score =
        client.score(client::Prompt::token_ids(c.at("encoder_ids").get<std::vector<int32_t>>()),
                     client::Prompt::token_ids(ids), /*append_eos=*/false);
    EXPECT_EQ(score.token_ids, ids);
    ASSERT_EQ(score.logprobs.size(), want.size());
    double sum = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(score.logprobs[i], want[i], 3e-4);
      EXPECT_EQ(score.top[i].top(0).token_id(), ids[i]);
      sum += want[i];
    }
    EXPECT_NEAR(score.sum, sum, 3e-3);
    EXPECT_NEAR(score.mean, sum / static_cast<double>(want.size()), 3e-4);
    EXPECT_NEAR(score.perplexity, std::exp(-score.mean), 1e-9 * score.perplexity);
    ++compared;
  }
  EXPECT_GT(compared, 0);
  EXPECT_EQ(client.score("a lighthouse", "stood there").token_ids.back(), 2);
  const auto pair = client::Prompt::pair("a lighthouse", client::Prompt::token_ids({2, 0}));
  EXPECT_EQ(client.score(pair, client::Prompt::token_ids({7, 8})).token_ids,
            (std::vector<int32_t>{7, 8, 2}));
  try {
    client.score("a lighthouse", client::Prompt::token_ids({-1}));
    ADD_FAILURE() << "accepted";
  } catch (const client::ClientError& error) {
    EXPECT_EQ(error.param().substr(0, 6), "target");
  }
  EXPECT_THROW(client::score_of(client.submit({.prompt = "no target"}).get()), client::ClientError);
}

}  // namespace
}  // namespace tandem::actors
