// What is made of the events of a stream, and when: bytes and times as the test says.
#include "launcher/bench/answer.h"

#include <gtest/gtest.h>

#include "tests/support/network/timed_server.h"

namespace tandem::bench {
namespace {

using test::chat_event;
using test::completion_event;
using test::kDone;
using test::usage_event;

// Each piece comes a second after the one before.
BenchRequest read(Api api, const std::vector<std::string>& pieces) {
  Answer answer(api);
  BenchRequest request;
  double time = 0;
  for (const std::string& piece : pieces) answer.take(piece, ++time, request);
  answer.end(time, request);
  return request;
}

TEST(BenchAnswer, EachEventHasItsTime) {
  const BenchRequest r =
      read(Api::kCompletions, {completion_event("a"), completion_event("b"),
                               completion_event("c", "\"length\""), usage_event(5, 3) + kDone});
  EXPECT_FALSE(r.failed()) << r.message;
  EXPECT_EQ(r.first, 1);
  EXPECT_EQ(r.last, 3) << "neither the usage nor [DONE] is a token";
  EXPECT_EQ(r.gaps, (std::vector<double>{1, 1}));
  EXPECT_EQ(r.input_tokens, 5);
  EXPECT_EQ(r.output_tokens, 3);
  EXPECT_FALSE(r.is_counted);
}

TEST(BenchAnswer, SeveralEventsInOneReadAndOneInSeveral) {
  const std::string b = completion_event("b");
  const BenchRequest r = read(
      Api::kCompletions, {completion_event("a") + b.substr(0, 9), b.substr(9, 20), b.substr(29),
                          completion_event("c") + completion_event("d"), std::string(kDone)});
  EXPECT_FALSE(r.failed()) << r.message;
  EXPECT_EQ(r.first, 1);
  EXPECT_EQ(r.gaps, (std::vector<double>{2, 1, 0})) << "the second came with its last byte";
  EXPECT_EQ(r.output_tokens, 4) << "counted";
  EXPECT_TRUE(r.is_counted);
}

TEST(BenchAnswer, LinesMayEndAsOnOtherSystemsAndBeComments) {
  const BenchRequest r =
      read(Api::kCompletions, {": ping\n\n",
                               "event: x\r\ndata: {\"choices\": [{\"text\": \"a\",\r\n"
                               "data: \"finish_reason\": \"stop\"}]}\r\n\r\n"});
  EXPECT_FALSE(r.failed()) << r.message;
  EXPECT_EQ(r.first, 2);
  EXPECT_EQ(r.events, 1);
}

TEST(BenchAnswer, TheRoleOfAChatIsNoToken) {
  const BenchRequest r =
      read(Api::kChat, {chat_event(R"({"role": "assistant", "content": ""})"),
                        chat_event(R"({"content": "a"})"), chat_event(R"({"reasoning": "b"})"),
                        chat_event("{}", "\"stop\""), usage_event(4, 2), kDone});
  EXPECT_FALSE(r.failed()) << r.message;
  EXPECT_EQ(r.first, 2);
  EXPECT_EQ(r.last, 3) << "two tokens: the bare end is none";
  EXPECT_EQ(r.gaps, (std::vector<double>{1}));
}

TEST(BenchAnswer, ABareEndIsATokenIfItIsCounted) {
  const BenchRequest r =
      read(Api::kCompletions, {completion_event("a"), completion_event(""),
                               completion_event("", "\"stop\""), usage_event(4, 3), kDone});
  EXPECT_EQ(r.last, 3);
  EXPECT_EQ(r.gaps, (std::vector<double>{1, 1})) << "a token may have no text";
  const BenchRequest only = read(Api::kCompletions, {completion_event("", "\"stop\""), kDone});
  EXPECT_FALSE(only.failed()) << only.message;
  EXPECT_EQ(only.first, 1);
}

TEST(BenchAnswer, ChunksOfSeveralTokens) {
  BenchRequest r =
      read(Api::kCompletions, {completion_event("a b c"), completion_event("d e f", "\"length\""),
                               usage_event(4, 6), kDone});
  EXPECT_EQ(r.output_tokens, 6);
  EXPECT_EQ(r.events, 2);
  EXPECT_EQ(r.gaps, (std::vector<double>{1}));
  EXPECT_DOUBLE_EQ(r.tpot(), 0.2) << "by tokens";
  const auto summary = summarize({r}, 1, {});
  EXPECT_NE(summary["notes"].dump().find("6 tokens came in 2 events"), std::string::npos)
      << summary["notes"];
}

TEST(BenchAnswer, Transcriptions) {
  const BenchRequest openai =
      read(Api::kAudio, {R"(data: {"type": "transcript.text.delta", "delta": "a"})"
                         "\n\n",
                         R"(data: {"type": "transcript.text.delta", "delta": "b"})"
                         "\n\n",
                         R"(data: {"type": "transcript.text.done", "text": "ab", "usage": )"
                         R"({"type": "tokens", "input_tokens": 14, "output_tokens": 2}})"
                         "\n\n"});
  EXPECT_FALSE(openai.failed()) << openai.message;
  EXPECT_EQ(openai.first, 1);
  EXPECT_EQ(openai.last, 2);
  EXPECT_EQ(openai.input_tokens, 14);
  EXPECT_EQ(openai.output_tokens, 2);
  const BenchRequest vllm = read(
      Api::kAudio, {chat_event(R"({"content": "a"})"),
                    chat_event(R"({"content": "b"})", "\"stop\""), usage_event(100, 2), kDone});
  EXPECT_EQ(vllm.gaps, (std::vector<double>{1}));
}

TEST(BenchAnswer, WholeAnswersHaveNoFirstToken) {
  const BenchRequest r =
      read(Api::kCompletions, {R"({"choices": [{"text": "a b)", R"("}], "usage": )",
                               R"({"prompt_tokens": 3, "completion_tokens": 2}})"});
  EXPECT_FALSE(r.failed()) << r.message;
  EXPECT_LT(r.first, 0);
  EXPECT_EQ(r.last, 3);
  const auto summary = summarize({r}, 1, {});
  EXPECT_FALSE(summary.contains("mean_ttft_ms"));
  EXPECT_FALSE(summary.contains("mean_itl_ms"));
  EXPECT_DOUBLE_EQ(summary["mean_e2el_ms"], 3000);
  EXPECT_NE(summary["notes"].dump().find("came whole"), std::string::npos);
  const BenchRequest vectors =
      read(Api::kEmbeddings, {R"({"data": [], "usage": {"prompt_tokens": 3}})"});
  EXPECT_FALSE(vectors.failed()) << vectors.message;
  EXPECT_EQ(vectors.input_tokens, 3);
}

TEST(BenchAnswer, WhatGoesWrong) {
  const auto failure = [](const std::vector<std::string>& pieces) {
    const BenchRequest r = read(Api::kCompletions, pieces);
    return r.failure + ": " + r.message;
  };
  EXPECT_EQ(failure({completion_event("a")}),
            "stream: it broke off, with neither a finish_reason nor [DONE]");
  EXPECT_EQ(failure({completion_event("a"),
                     R"(data: {"error": {"message": "no more memory", "type": "x"}})"
                     "\n\n"
                     "data: [DONE]\n\n"}),
            "error event: no more memory");
  EXPECT_EQ(failure({"data: what\n\n"}), "stream: an event is not a JSON object: what");
  EXPECT_EQ(failure({kDone}), "stream: it had no token");
  EXPECT_EQ(failure({}), "stream: it ended without a token");
  EXPECT_EQ(failure({"{\"choices\": "}), "stream: the answer is not a JSON object: {\"choices\": ");
}

TEST(BenchAnswer, ErrorMessages) {
  EXPECT_EQ(error_message(R"({"error": {"message": "the queue is full", "code": 429}})"),
            "the queue is full");
  EXPECT_EQ(error_message(R"({"object": "error", "message": "no such model"})"), "no such model");
  EXPECT_EQ(error_message(R"({"detail": "Not Found"})"), "Not Found");
  EXPECT_EQ(error_message(R"({"error": "plain"})"), "plain");
  EXPECT_EQ(error_message("Bad Gateway\r\n"), "Bad Gateway");
  EXPECT_EQ(error_message("\x1b[2J"), "\\x1b[2J") << "terminals do not see what a server sends";
  EXPECT_LT(error_message(std::string(100000, 'x')).size(), 400u);
}

}  // namespace
}  // namespace tandem::bench
