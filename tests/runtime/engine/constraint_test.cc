// Constrained output end to end: the text is what it has to be, however it is decoded and whoever
// shares the batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kPrompt = "Run with \"5\" of them & <a>: key=value, twice.";

EngineConfig constraint_config(int drafts = 0) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_drafting()->set_num_speculative_tokens(drafts);
  return config;
}

struct ConstraintResult {
  std::vector<std::string> texts, reasons;
  std::vector<std::vector<int>> ids;
  std::string error, param;
};

std::map<std::string, ConstraintResult> run_constrained(LLMEngine& engine,
                                                        const std::map<std::string, json>& all) {
  std::map<std::string, ConstraintResult> out;
  for (const auto& [id, params] : all) {
    try {
      engine.add_request(id, json(kPrompt), params);
    } catch (const InputError& error) {
      out[id].error = error.what();
      out[id].param = error.param();
    }
  }
  for (int i = 0; i < 5000 && engine.has_unfinished_requests(); ++i) {
    for (const auto& answer : engine.step())
      for (const auto& output : answer.outputs()) {
        ConstraintResult& result = out[answer.request_id()];
        result.texts.push_back(output.text());
        result.reasons.push_back(output.finish_reason());
        result.ids.emplace_back(output.token_ids().begin(), output.token_ids().end());
      }
    for (const auto& [id, error] : engine.take_failures()) {
      out[id].error = error.what();
      out[id].param = error.param();
    }
    engine.check_integrity();
  }
  EXPECT_FALSE(engine.has_unfinished_requests());
  return out;
}

// With every way of decoding.
std::map<std::string, json> in_every_way(const json& constraint) {
  const std::pair<const char*, json> ways[] = {
      {"greedy", {{"num_beams", 1}}},
      {"sampled",
       {{"do_sample", true},
        {"temperature", 1.5},
        {"top_k", 0},
        {"n", 3},
        {"num_beams", 1},
        {"seed", 7}}},
      {"beams", {{"num_beams", 4}, {"n", 3}}},
      {"sampled_beams", {{"num_beams", 3}, {"do_sample", true}, {"seed", 5}}},
      {"bos", {{"num_beams", 1}, {"forced_bos_token_id", 0}}},
      {"penalised", {{"num_beams", 1}, {"repetition_penalty", 1.3}}},
  };
  std::map<std::string, json> all;
  for (const auto& [name, way] : ways) {
    json params = constraint;
    params.update(way);
    params["max_tokens"] = 60;
    all[name] = params;
  }
  return all;
}

void expect_texts(const std::map<std::string, ConstraintResult>& results, const std::regex& whole) {
  for (const auto& [name, result] : results) {
    EXPECT_EQ(result.error, "") << name;
    EXPECT_FALSE(result.texts.empty()) << name;
    for (size_t i = 0; i < result.texts.size(); ++i) {
      EXPECT_EQ(result.reasons[i], "stop") << name;
      EXPECT_TRUE(std::regex_match(result.texts[i], whole)) << name << ": " << result.texts[i];
    }
  }
}

TEST(Constraint, EveryWayOfDecodingWritesSuchTexts) {
  LLMEngine engine(constraint_config());
  expect_texts(run_constrained(engine, in_every_way({{"guided_regex", "[0-9]{3}-[A-F]{2,5}x?"}})),
               std::regex("[0-9]{3}-[A-F]{2,5}x?"));
  expect_texts(
      run_constrained(engine, in_every_way({{"guided_choice", {"positive", "negative", "posit"}}})),
      std::regex("positive|negative|posit"));
  const json schema = {{"type", "object"},
                       {"properties", {{"a", {{"enum", {"x", 1}}}}, {"b", {{"type", "boolean"}}}}},
                       {"required", {"b"}}};
  expect_texts(run_constrained(engine, in_every_way({{"guided_json", schema}})),
               std::regex(R"(\{("a":("x"|1),)?"b":(true|false)\})"));
  const char* grammar = "root ::= \"(\" root \")\" | [a-c]{1,3}";
  for (const auto& [name, result] :
       run_constrained(engine, in_every_way({{"guided_grammar", grammar}})))
    for (const std::string& text : result.texts) {
      const size_t depth = text.find_first_not_of('(');
      if (depth == std::string::npos || result.reasons[0] != "stop") continue;  // cut at its limit
      EXPECT_TRUE(std::regex_match(text.substr(depth), std::regex("[a-c]{1,3}\\)*"))) << text;
      EXPECT_EQ(text.size() - 1 - text.find_last_not_of(')'), depth) << name << text;
    }
}

TEST(Constraint, DraftsAndNeighboursChangeNothing) {
  const json params = {
      {"guided_regex", "(key=value, ){3,9}twice"}, {"max_tokens", 60}, {"num_beams", 1}};
  const json free = {{"max_tokens", 30}, {"num_beams", 1}};
  LLMEngine plain(constraint_config()), drafting(constraint_config(8));
  const auto alone = run_constrained(plain, {{"free", free}});
  const auto without = run_constrained(plain, {{"one", params}, {"free", free}});
  const auto with = run_constrained(drafting, {{"one", params}, {"free", free}, {"two", params}});
  expect_texts({{"one", without.at("one")}}, std::regex("(key=value, ){3,9}twice"));
  EXPECT_EQ(without.at("one").ids, with.at("one").ids);
  EXPECT_EQ(without.at("one").ids, with.at("two").ids);
  EXPECT_EQ(alone.at("free").ids, without.at("free").ids);
  EXPECT_EQ(alone.at("free").ids, with.at("free").ids);
}

TEST(Constraint, WhatCannotBeIsAnErrorOfItsRequestAlone) {
  LLMEngine engine(constraint_config());
  const json free = {{"max_tokens", 20}, {"num_beams", 1}};
  const auto alone = run_constrained(engine, {{"free", free}});
  const auto results = run_constrained(
      engine,
      {{"free", free},
       {"syntax", {{"guided_regex", "(a"}}},
       {"none", {{"guided_choice", json::array()}}},
       {"large", {{"guided_regex", "((a{0,200}){0,200}){0,200}"}}},
       {"no_end", {{"guided_regex", "a"}, {"eos_token_id", nullptr}}},
       {"schema", {{"response_format", {{"type", "json_schema"}, {"schema", {{"type", "x"}}}}}}},
       {"stuck", {{"guided_choice", {"ab"}}, {"min_tokens", 5}, {"num_beams", 1}}},
       {"stuck_beams", {{"guided_choice", {"ab"}}, {"min_tokens", 5}, {"num_beams", 3}}}});
  EXPECT_EQ(results.at("free").ids, alone.at("free").ids);
  const std::pair<const char*, const char*> errors[] = {
      {"syntax", "guided_regex: at character 1: a bracket is not closed"},
      {"none", "guided_choice: no text matches it"},
      {"large", "guided_regex: too large"},
      {"no_end", "guided_regex: needs an end token"},
      {"schema", "response_format: at #/type: there is no such type"},
      {"stuck", "guided_choice: no token can follow behind "},
      {"stuck_beams", "guided_choice: no token can follow in any beam"}};
  for (const auto& [name, message] : errors) {
    EXPECT_THAT(results.at(name).error, ::testing::HasSubstr(message)) << name;
    EXPECT_TRUE(results.at(name).texts.empty()) << name;
  }
}

}  // namespace
}  // namespace tandem
