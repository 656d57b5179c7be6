// Commands that send requests, as their users meet them: bad parameters, priorities, streams,
// scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/json_lines.h"
#include "tests/support/goldens/goldens.h"
#include "tests/support/processes/process.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ProcessResult;

ProcessResult run(const std::string& command, const std::string& input,
                  const std::vector<std::string>& flags = {}) {
  std::vector<std::string> args{TANDEM_BINARY, command,
                                "--model",     testing::golden_dir("bart-tiny").string(),
                                "--dtype",     "float32"};
  args.insert(args.end(), flags.begin(), flags.end());
  return testing::run_process(args, input);
}

std::string lines(const std::vector<json>& requests) {
  std::string out;
  for (const json& request : requests) out += request.dump() + "\n";
  return out;
}

// In this process, and in a cluster of the command's own.
const std::vector<std::vector<std::string>> kBackends = {
    {"--jsonl"}, {"--jsonl", "--distributed-executor-backend", "threads"}};

// A value that is wrong for every parameter; one bad line for each, good ones between them.
TEST(Requests, ABadValueOfAnyParameterNamesItAndDisturbsNobody) {
  const json good = {{"id", "good"}, {"prompt", "text"}, {"params", {{"max_new_tokens", 4}}}};
  std::vector<std::string> names;
  for (const std::string& name : option_names())
    if (!is_without_effect(name)) names.push_back(name);
  ASSERT_GT(names.size(), 80u);
  std::vector<json> requests = {good};
  for (const std::string& name : names) {
    requests.push_back(
        {{"id", name}, {"prompt", "text"}, {"params", {{name, json_from<json>("[[[]]]")}}}});
    requests.push_back(good);
  }
  for (const auto& flags : kBackends) {
    const ProcessResult r = run("generate", lines(requests), flags);
    EXPECT_EQ(r.status, 1) << r.err;
    const auto rows = test::json_lines(r.out);
    ASSERT_EQ(rows.size(), requests.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const json& row = rows[2 * i + 1];
      ASSERT_TRUE(row.contains("error")) << row;
      EXPECT_EQ(row["id"], names[i]);
      EXPECT_EQ(row["error"]["param"], names[i]);
      EXPECT_NE(row["error"]["message"].get<std::string>().find(names[i]), std::string::npos);
      EXPECT_EQ(rows[2 * i + 2]["outputs"], rows[0]["outputs"]) << names[i];
    }
  }
}

TEST(Requests, Priorities) {
  const json params = {{"max_new_tokens", 3}};
  std::vector<json> requests;
  for (const json& priority : {json(0), json(-5), json(2147483647), json(3.0), json(nullptr)})
    requests.push_back({{"prompt", "text"}, {"params", params}, {"priority", priority}});
  const size_t good = requests.size();
  for (const json& priority : {json("high"), json(1.5), json(2147483648), json(true), json({1})})
    requests.push_back({{"prompt", "text"}, {"params", params}, {"priority", priority}});
  for (const auto& flags : kBackends) {
    const auto rows = test::json_lines(run("generate", lines(requests), flags).out);
    ASSERT_EQ(rows.size(), requests.size());
    for (size_t i = 0; i < good; ++i) EXPECT_EQ(rows[i]["outputs"], rows[0]["outputs"]);
    for (size_t i = good; i < rows.size(); ++i)
      EXPECT_EQ(rows[i].at("error").at("param"), "priority") << rows[i];
  }
}

TEST(Requests, AStreamedRequestShowsTheDeltasOfItsSequences) {
  const json sampled = {{"max_tokens", 12},   {"n", 3},         {"temperature", 2}, {"seed", 5},
                        {"ignore_eos", true}, {"num_beams", 1}, {"logprobs", 0}};
  const std::vector<json> requests = {
      {{"id", "n"}, {"prompt", "a small lighthouse"}, {"params", sampled}},
      {{"id", "bad"}, {"prompt", 5}},
      {{"id", "beams"}, {"prompt", "the rain"}, {"params", {{"num_beams", 3}, {"n", 2}}}}};
  for (auto flags : kBackends) {
    flags.push_back("--stream");
    const ProcessResult r = run("generate", lines(requests), flags);
    EXPECT_EQ(r.status, 1) << r.err;
    std::map<std::string, std::map<int, json>> deltas;
    std::map<std::string, int> num_deltas;
    std::set<std::string> ended;
    for (const json& row : test::json_lines(r.out)) {
      const std::string id = row.at("id");
      ASSERT_EQ(ended.count(id), 0u) << "news behind the result";
      if (row.contains("error") || row.contains("outputs")) {
        ended.insert(id);
        EXPECT_EQ(row.contains("error"), id == "bad");
        for (const json& c : row.value("outputs", json::array())) {
          const json& got = deltas.at(id).at(c.at("index").get<int>());
          EXPECT_EQ(got.at("text"), c.at("text"));
          EXPECT_EQ(got.at("token_ids"), c.at("token_ids"));
          EXPECT_EQ(got.at("finish_reason"), c.at("finish_reason"));
          EXPECT_EQ(got.at("logprobs").size(), id == "n" ? c.at("token_ids").size() : 0);
        }
        continue;
      }
      EXPECT_EQ(row.at("line"), id == "n" ? 1 : 3);
      ++num_deltas[id];
      for (const json& d : row.at("deltas")) {
        json& whole = deltas[id][d.at("index").get<int>()];
        if (whole.is_null())
          whole = {{"text", ""}, {"token_ids", json::array()}, {"logprobs", json::array()}};
        whole["text"] = whole["text"].get<std::string>() + d.at("text").get<std::string>();
        for (const json& t : d.at("token_ids")) whole["token_ids"].push_back(t);
        for (const json& l : d.value("logprobs", json::array())) whole["logprobs"].push_back(l);
        if (d.contains("finish_reason")) whole["finish_reason"] = d["finish_reason"];
      }
    }
    EXPECT_EQ(ended.size(), 3u);
    EXPECT_GT(num_deltas["n"], 3);
    EXPECT_EQ(num_deltas["beams"], 1);  // at the end
  }
  EXPECT_EQ(run("generate", "", {"--stream", "x"}).status, 2);
}

TEST(Score, AgreesWithHuggingFaceWhereverItRuns) {
  const json golden = testing::load_golden("bart-tiny");
  std::vector<json> requests;
  std::vector<std::vector<double>> expected;
  for (const auto& c : golden.at("cases")) {
    if (!c.contains("prompt_logprobs")) continue;
    auto ids = c.at("teacher_forced_decoder_ids").get<std::vector<int>>();
    ids.erase(ids.begin());
    const json source = {{"prompt_token_ids", c.at("encoder_ids")}};
    const json target = {{"prompt_token_ids", ids}};
    requests.push_back({{"id", requests.size()},
                        {requests.size() % 4 == 0 ? "prompt" : "encoder_prompt", source},
                        {"target", target},
                        {"append_eos", false},
                        {"params", {{"logprobs", 2}}}});
    expected.push_back(c.at("prompt_logprobs").get<std::vector<double>>());
    requests.push_back({{"prompt", source}});  // no target
    expected.emplace_back();
  }
  for (const auto& flags : kBackends) {
    const ProcessResult r = run("score", lines(requests), flags);
    EXPECT_EQ(r.status, 1) << r.err;
    const auto rows = test::json_lines(r.out);
    ASSERT_EQ(rows.size(), requests.size());
    for (size_t i = 0; i < rows.size(); i += 2) {
      const auto got = rows[i].at("token_logprobs").get<std::vector<double>>();
      ASSERT_EQ(got.size(), expected[i].size());
      double sum = 0;
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(got[k], expected[i][k], 3e-4);
        sum += got[k];
      }
      EXPECT_NEAR(rows[i].at("cumulative_logprob").get<double>(), sum, 1e-6);
      EXPECT_NEAR(rows[i].at("mean_logprob").get<double>(), sum / double(got.size()), 1e-6);
      EXPECT_EQ(rows[i].at("logprobs").size(), got.size());
      EXPECT_EQ(rows[i].at("logprobs")[0].size() >= 2, true);
      EXPECT_EQ(rows[i + 1].at("error").at("param"), "target");
    }
  }
}

TEST(Score, ATableForPeople) {
  const ProcessResult r = run("score", "", {"a small lighthouse", "stood there"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("logprob"), std::string::npos);
  EXPECT_NE(r.out.find("perplexity"), std::string::npos);
  const auto rows = std::count(r.out.begin(), r.out.end(), '\n');
  const ProcessResult without = run("score", "", {"a small lighthouse", "stood there", "--no-eos"});
  EXPECT_EQ(std::count(without.out.begin(), without.out.end(), '\n'), rows - 1);
}

TEST(Score, BadUsage) {
  EXPECT_EQ(run("score", "").status, 2);
  EXPECT_EQ(run("score", "", {"only a source"}).status, 2);
  EXPECT_EQ(run("score", "", {"--logprobs", "many", "a", "b"}).status, 2);
  EXPECT_EQ(run("score", "", {"--temperature", "1", "a", "b"}).status, 2);
  const json base = {{"prompt", "x"}, {"target", "y"}};
  const std::vector<std::pair<std::string, json>> bad = {
      {"target", {{"target", nullptr}}},
      {"append_eos", {{"append_eos", "no"}}},
      {"prompt", {{"encoder_prompt", "x"}}},
      {"traget", {{"traget", "x"}}},
      {"temperature", {{"params", {{"temperature", 1}}}}},
      {"logprobs", {{"params", {{"logprobs", -1}}}}},
      {"priority", {{"priority", "x"}}},
  };
  std::vector<json> requests = {base};
  for (const auto& [param, more] : bad) {
    requests.push_back(base);
    requests.back().update(more);
  }
  const auto rows = test::json_lines(run("score", lines(requests), {"--jsonl"}).out);
  ASSERT_EQ(rows.size(), requests.size());
  EXPECT_TRUE(rows[0].contains("perplexity")) << rows[0];
  EXPECT_EQ(rows[0].at("target"), "y");
  for (size_t i = 0; i < bad.size(); ++i)
    EXPECT_EQ(rows[i + 1].at("error").at("param"), bad[i].first) << rows[i + 1];
}

}  // namespace
}  // namespace tandem
