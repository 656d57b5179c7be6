#include "runtime/engine/states/document_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tandem {
namespace {

PreparedDocument document_of(const std::vector<DocumentPart>& parts, const std::string& after) {
  PreparedDocument out;
  out.prompt.mutable_encoder()->set_field("prompt");
  out.options.set_tgt_lang("de");
  for (const DocumentPart& part : parts) {
    out.prompt.mutable_encoder()->mutable_text()->append(part.before + part.text);
    out.document.parts.push_back(part);
  }
  out.document.after = after;
  return out;
}

// The answer to a text: the text in brackets, a token for each of its characters.
proto::RequestOutput answer_to(const std::string& text, const std::string& reason = "stop") {
  proto::RequestOutput out;
  for (const char c : text) out.mutable_inputs()->add_encoder_prompt_token_ids(c);
  proto::CompletionOutput& sequence = *out.add_outputs();
  sequence.set_text("<" + text + ">");
  for (const char c : text) sequence.add_token_ids(c);
  sequence.set_cumulative_logprob(-1);
  sequence.set_score(static_cast<double>(text.size()));
  sequence.set_finish_reason(reason);
  out.mutable_metrics()->set_queue_time(0.5);
  out.mutable_metrics()->set_num_preemptions(1);
  return out;
}

const std::string& text_of(const PartRequest& part) { return part.prompt.encoder().text(); }

TEST(DocumentState, TextComesInTheOrderOfTheDocument) {
  DocumentState state("r", document_of({{"  ", "ab"}, {" ", "c"}, {"\n\n", "d"}}, "\n"), 1);
  const auto parts = state.next();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(text_of(parts[1]), "c");
  EXPECT_EQ(parts[1].options.tgt_lang(), "de");
  state.check_integrity();
  EXPECT_TRUE(state.next().empty());

  state.take(parts[1].number, answer_to("c"), 2);
  state.check_integrity();
  EXPECT_EQ(state.output().outputs_size(), 0);
  state.take(parts[0].number, answer_to("ab", "length"), 3);
  state.check_integrity();
  EXPECT_EQ(state.output().outputs(0).text(), "  <ab> <c>");
  EXPECT_FALSE(state.finished());
  state.take(parts[2].number, answer_to("d"), 4);
  state.check_integrity();

  const proto::RequestOutput& output = state.output();
  ASSERT_TRUE(state.finished());
  EXPECT_EQ(output.outputs(0).text(), "  <ab> <c>\n\n<d>\n");
  EXPECT_EQ(output.outputs(0).token_ids_size(), 4);
  EXPECT_EQ(output.outputs(0).cumulative_logprob(), -3);
  EXPECT_DOUBLE_EQ(output.outputs(0).score(), (2 * 2 + 1 + 1) / 4.0);
  EXPECT_EQ(output.outputs(0).finish_reason(), "length");  // of one part is of the whole
  EXPECT_EQ(output.inputs().encoder_prompt(), "  ab c\n\nd");
  EXPECT_EQ(output.inputs().encoder_prompt_token_ids_size(), 4);
  EXPECT_EQ(output.metrics().total_time(), 3);
  EXPECT_EQ(output.metrics().time_to_first_token(), 2);
  EXPECT_EQ(output.metrics().num_preemptions(), 3);
}

TEST(DocumentState, MorePartsThanAreSentAtOnce) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<DocumentPart> texts;
  std::string expected;
  for (int i = 0; i < 700; ++i) {
    texts.push_back({i == 0 ? "" : "\n", std::to_string(i)});
    expected += texts.back().before + "<" + texts.back().text + ">";
  }
  DocumentState state("r", document_of(texts, ""), 0);
  std::vector<PartRequest> open;
  std::string before;
  while (!state.finished()) {
    for (PartRequest& part : state.next()) open.push_back(std::move(part));
    ASSERT_FALSE(open.empty());
    ASSERT_LE(open.size(), DocumentState::kMostUnanswered);
    std::swap(open[random() % open.size()], open.back());
    state.take(open.back().number, answer_to(text_of(open.back())), 1);
    open.pop_back();
    state.check_integrity();
    if (state.output().outputs_size() == 0) continue;
    ASSERT_TRUE(state.output().outputs(0).text().starts_with(before));
    before = state.output().outputs(0).text();
  }
  EXPECT_EQ(before, expected);
}

TEST(DocumentState, ASummaryOfSummaries) {
  PreparedDocument document = document_of({{"", "aaaa"}, {"", "bbbb"}, {"", "cc"}}, "");
  document.merge = Merge::kSummary;
  std::vector<std::string> asked;
  document.chunks = [&](const std::string& text) {
    asked.push_back(text);
    return asked.size() == 1 ? std::vector<std::string>{"x", "y"} : std::vector<std::string>{"z"};
  };
  DocumentState state("r", std::move(document), 0);
  const auto run = [&] {
    const auto parts = state.next();
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
      EXPECT_TRUE(state.output().outputs().empty());
      state.take(it->number, answer_to(text_of(*it)), 1);
      state.check_integrity();
    }
    return parts.size();
  };
  EXPECT_EQ(run(), 3u);
  EXPECT_EQ(run(), 2u);
  EXPECT_EQ(run(), 1u);
  EXPECT_EQ(asked, (std::vector<std::string>{"<aaaa>\n<bbbb>\n<cc>", "<x>\n<y>"}));
  ASSERT_TRUE(state.finished());
  EXPECT_EQ(state.output().outputs(0).text(), "<z>");
  EXPECT_EQ(state.output().inputs().encoder_prompt_token_ids_size(), 13);
  ASSERT_EQ(state.output().warnings_size(), 1);
  EXPECT_NE(state.output().warnings(0).find("3 parts"), std::string::npos);
}

// Where summaries are as long as what they are of.
TEST(DocumentState, SummariesThatDoNotGetShorterEnd) {
  PreparedDocument document = document_of({{"", "a"}, {"", "b"}}, "");
  document.merge = Merge::kSummary;
  document.chunks = [](const std::string&) { return std::vector<std::string>{"a", "b"}; };
  DocumentState state("r", std::move(document), 0);
  for (const PartRequest& part : state.next()) state.take(part.number, answer_to(text_of(part)), 1);
  state.check_integrity();
  ASSERT_TRUE(state.finished());
  EXPECT_EQ(state.output().outputs(0).text(), "<a>\n<b>");
}

TEST(DocumentState, StopsAnywhere) {
  DocumentState state("r", document_of({{"", "a"}, {" ", "b"}}, ""), 0);
  const auto parts = state.next();
  state.take(parts[0].number, answer_to("a"), 1);
  state.stop();
  state.check_integrity();
  EXPECT_TRUE(state.next().empty());
  EXPECT_FALSE(state.finished());
}

}  // namespace
}  // namespace tandem
