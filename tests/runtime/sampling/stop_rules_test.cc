// Ends of sequences: token rules by table, stop strings against a search in the whole text.
#include "runtime/sampling/stop_rules.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace tandem::stop_rules_test {
namespace {

using enum SequenceStatus;

proto::SamplingParams params() {
  proto::SamplingParams p;
  p.set_max_tokens(5);
  p.add_eos_token_id(2);
  p.add_eos_token_id(3);
  p.add_stop_token_ids(7);
  return p;
}

TEST(CheckStop, EosStopTokensAndLength) {
  const proto::SamplingParams p = params();
  EXPECT_EQ(check_stop(p, 9, 1).status, kRunning);
  EXPECT_EQ(check_stop(p, 2, 1).status, kFinishedStopped);
  EXPECT_EQ(check_stop(p, 3, 5).status, kFinishedStopped);  // EOS on the last token is a stop
  EXPECT_EQ(check_stop(p, 3, 5).reason, "");
  EXPECT_EQ(check_stop(p, 7, 1).status, kFinishedStopped);
  EXPECT_EQ(check_stop(p, 7, 1).reason, "7");
  EXPECT_EQ(check_stop(p, 9, 4).status, kRunning);
  EXPECT_EQ(check_stop(p, 9, 5).status, kFinishedLength);
  EXPECT_EQ(check_stop(p, 9, 6).status, kFinishedLength);
}

TEST(CheckStop, IgnoreEosAndMinTokens) {
  proto::SamplingParams p = params();
  p.set_ignore_eos(true);
  EXPECT_EQ(check_stop(p, 2, 1).status, kRunning);
  EXPECT_EQ(check_stop(p, 2, 5).status, kFinishedLength);
  EXPECT_EQ(check_stop(p, 7, 1).status, kFinishedStopped);
  p.set_min_tokens_stop(3);
  EXPECT_EQ(check_stop(p, 7, 2).status, kRunning);
  EXPECT_EQ(check_stop(p, 7, 3).status, kFinishedStopped);
}

// Whatever the unforced choice would have been.
TEST(CheckStop, AForcedEndIsTheLengths) {
  proto::SamplingParams p = params();
  p.add_forced_eos_token_id(2);
  p.add_forced_eos_token_id(7);
  EXPECT_EQ(check_stop(p, 2, 4).status, kFinishedStopped);
  EXPECT_EQ(check_stop(p, 7, 4).reason, "7");
  EXPECT_EQ(check_stop(p, 2, 5).status, kFinishedLength);
  EXPECT_EQ(check_stop(p, 7, 5).status, kFinishedLength);
  EXPECT_EQ(check_stop(p, 7, 5).reason, "");
  EXPECT_FALSE(eos_is_forced(p, 4));
  EXPECT_TRUE(eos_is_forced(p, 5));
  EXPECT_FALSE(eos_is_forced(params(), 5));
}

TEST(StopStrings, HoldBackWhatMayBeginOne) {
  StopStringMatcher m({"</s>", "END"}, false);
  EXPECT_EQ(m.append("one <"), "one ");
  EXPECT_EQ(m.append("/b>"), "</b>");
  EXPECT_EQ(m.append("EN"), "");
  EXPECT_EQ(m.append("EN"), "EN");
  EXPECT_FALSE(m.stopped());
  EXPECT_EQ(m.append("D and more"), "");
  EXPECT_TRUE(m.stopped());
  EXPECT_EQ(m.stop_string(), "END");
  EXPECT_EQ(m.append("later"), "");
  EXPECT_EQ(m.finish(), "");
  EXPECT_EQ(m.emitted(), std::string("one </b>EN").size());
}

TEST(StopStrings, IncludedAtRequest) {
  StopStringMatcher m({"."}, true);
  EXPECT_EQ(m.append("A. B."), "A.");
  EXPECT_TRUE(m.stopped());
}

TEST(StopStrings, EndsFirstThenLongest) {
  StopStringMatcher first({"abcd", "bc"}, false);
  EXPECT_EQ(first.append("xabcd"), "xa");
  EXPECT_EQ(first.stop_string(), "bc");
  StopStringMatcher longest({"bc", "abc"}, false);
  EXPECT_EQ(longest.append("xabc"), "x");
  EXPECT_EQ(longest.stop_string(), "abc");
}

TEST(StopStrings, FinishReleasesTheRest) {
  StopStringMatcher m({"abc"}, false);
  EXPECT_EQ(m.append("xab"), "x");
  EXPECT_EQ(m.finish(), "ab");
  StopStringMatcher none({}, false);
  EXPECT_EQ(none.append("abc"), "abc");
  EXPECT_EQ(none.finish(), "");
  EXPECT_EQ(none.emitted(), 3u);
}

TEST(StopStrings, NotBeforeMinTokens) {
  StopStringMatcher m({"ab"}, false);
  EXPECT_EQ(m.append("ab", false), "ab");
  EXPECT_EQ(m.append("xa", false), "x");  // may begin before, ends behind
  EXPECT_EQ(m.append("b"), "");
  EXPECT_TRUE(m.stopped());
}

TEST(StopStrings, LongRepetitiveOnesAreLinear) {
  StopStringMatcher m(std::vector<std::string>(64, std::string(1000, 'a') + "b"), false);
  std::string out;
  for (int i = 0; i < 200; ++i) out += m.append(std::string(100, 'a'));
  out += m.append("b");
  EXPECT_TRUE(m.stopped());
  EXPECT_EQ(out, std::string(19000, 'a'));
}

// What the text should become, searched for at once. Matches that end at or before `from` do not
// count.
struct Whole {
  std::string text;
  bool stopped = false;
};
Whole naive(const std::string& text, const std::vector<std::string>& stops, bool include,
            size_t from) {
  for (size_t end = from + 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest > 0) return {text.substr(0, include ? end : end - longest), true};
  }
  return {text, false};
}

TEST(StopStrings, AgreeWithASearchInTheWholeText) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  const auto word = [&](size_t least, size_t most) {
    std::string s(least + rng() % (most - least + 1), 'a');
    for (char& c : s) c = static_cast<char>('a' + rng() % 2);
    return s;
  };
  int stops_seen = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::vector<std::string> stops(rng() % 4);
    for (std::string& stop : stops) stop = word(1, 7);
    const bool include = rng() % 2;
    StopStringMatcher matcher(stops, include);
    std::string text, out;
    size_t from = 0;
    const size_t pieces = rng() % 8, forbidden = rng() % 3;
    for (size_t i = 0; i < pieces; ++i) {
      const std::string piece = word(0, 5);
      text += piece;
      if (i < forbidden) from = text.size();
      out += matcher.append(piece, i >= forbidden);
      // Nothing has been given out that the match takes back.
      const Whole so_far = naive(text, stops, include, from);
      if (so_far.stopped) {
        ASSERT_EQ(out, so_far.text);
      }
      ASSERT_EQ(matcher.emitted(), out.size());
    }
    out += matcher.finish();
    const Whole expected = naive(text, stops, include, from);
    ASSERT_EQ(out, expected.text) << text;
    ASSERT_EQ(matcher.stopped(), expected.stopped) << text;
    stops_seen += expected.stopped ? 1 : 0;
  }
  EXPECT_GT(stops_seen, 1000);
}

bool token_stop(const std::vector<std::string>& stops, const std::vector<std::string>& tokens) {
  TokenStopMatcher matcher(stops);
  for (size_t i = 0; i < tokens.size(); ++i) {
    matcher.append(tokens[i]);
    if (i + 1 < tokens.size()) {
      EXPECT_EQ(matcher.match(), nullptr) << tokens[i];
    }
  }
  return matcher.match() != nullptr;
}

// What transformers 5.24's StopStringCriteria says of tokens with these texts.
TEST(TokenStopMatcher, AStringEndsWithTheTokenThatCompletesIt) {
  using Tokens = std::vector<std::string>;
  for (const Tokens& tokens :
       {Tokens{"st", "op"}, Tokens{"stop"}, Tokens{"st", "opera"}, Tokens{"sto", "pper"},
        Tokens{"las", "topper"}, Tokens{"s", "to", "pped"}, Tokens{"a stop b"},
        Tokens{"x", "st", "", "op"}, Tokens{"</stop>"}, Tokens{" s", "t", "o", "p"}})
    EXPECT_TRUE(token_stop({"stop"}, tokens)) << tokens.front();
  for (const Tokens& tokens : {Tokens{"st", "x", "op"}, Tokens{"sto"}, Tokens{"top"}, Tokens{""},
                               Tokens{"s", " ", "top"}, Tokens{"st", "<pad>", "op"}})
    EXPECT_FALSE(token_stop({"stop"}, tokens)) << tokens.front();
  EXPECT_TRUE(token_stop({" th"}, {" th"}));         // a first token with its space
  EXPECT_TRUE(token_stop({"i"}, {"<extra_id_9>"}));  // the text of a special token
  EXPECT_TRUE(token_stop({"aa"}, {"a", "a"}));
  EXPECT_TRUE(token_stop({"aba"}, {"ab", "ab"}));
  TokenStopMatcher gone({"stop"});
  for (const char* token : {"st", "op", "x"}) gone.append(token);
  EXPECT_EQ(gone.match(), nullptr);
}

TEST(TokenStopMatcher, TheFirstOfTheListCounts) {
  TokenStopMatcher matcher({"xx", "b", "ab"});
  matcher.append("a");
  EXPECT_EQ(matcher.match(), nullptr);
  matcher.append("b");
  ASSERT_NE(matcher.match(), nullptr);
  EXPECT_EQ(*matcher.match(), "b");
}

}  // namespace
}  // namespace tandem::stop_rules_test
