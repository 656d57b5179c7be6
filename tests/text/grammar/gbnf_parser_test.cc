// GBNF: what it means, and random grammars against a parser that tries everything.
#include "text/grammar/gbnf_parser.h"

#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <set>

#include "tests/text/grammar/grammar_fixture.h"

namespace tandem::grammar_test {
namespace {

Matcher gbnf_matcher(const std::string& text) {
  return Matcher([&](Grammar& grammar) { return parse_gbnf(text, grammar); });
}

TEST(GbnfParser, Texts) {
  Matcher arithmetic = gbnf_matcher(R"gbnf(# sums
root ::= expr "\n"
expr ::= expr [-+] term | term   # left recursion
term ::= num | "(" expr ")"
num  ::= [0-9]+ ("." [0-9]{1,2})?
)gbnf");
  EXPECT_TRUE(arithmetic.matches("1+(2-3.25)\n"));
  EXPECT_FALSE(arithmetic.matches("1+(2-3.255)\n"));
  EXPECT_FALSE(arithmetic.matches("1+\n"));
  EXPECT_TRUE(arithmetic.begins("((((1"));
  EXPECT_FALSE(arithmetic.begins("())"));

  Matcher list =
      gbnf_matcher("root ::=\n  \"a\" root\n  | [^\\x61-\\u0062\\]]{2}\n  | (\n . \"é\" )");
  EXPECT_TRUE(list.matches("aaac-"));
  EXPECT_TRUE(list.matches("xé"));
  EXPECT_FALSE(list.matches("aab]"));
  EXPECT_LE(list.recogniser().num_states(), 12u);  // a list that calls itself is a loop
  for (int i = 0; i < 100; ++i) list.begins(std::string(static_cast<size_t>(i), 'a'));
  EXPECT_LE(list.recogniser().num_states(), 12u);
}

TEST(GbnfParser, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"start: \"a\"", "Lark is not supported"},
      {"a ::= \"x\"", "there is no rule \"root\""},
      {"root ::= \"a\"\nb ::= c", "line 2: there is no rule \"c\""},
      {"root ::= \"a", "line 1: a text in quotes has no end"},
      {"root ::= (\"a\"", "a bracket is not closed"},
      {"root ::= [a", "a class of characters is not closed"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule \"root\" is there twice"},
      {"root ::= \"\\y\"", "there is no escape"},
      {"root ::= \"a\" )", "expected the end of the rule \"root\""},
      {"root ::= \"a\"{3,1}", "the count falls"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_THAT(error_of([&] { gbnf_matcher(text); }), ::testing::HasSubstr(message)) << text;
  EXPECT_FALSE(gbnf_matcher("root ::= \"a\" root").has_text());
}

// A grammar of rules A, B, …, each a list of alternatives, each a list of small letters, which
// stand for themselves, and capital ones, which stand for rules.
using Rules = std::vector<std::vector<std::string>>;

Rules random_rules(std::mt19937_64& rng) {
  Rules rules(1 + rng() % 4);
  for (auto& alternatives : rules) {
    alternatives.resize(1 + rng() % 3);
    for (std::string& symbols : alternatives)
      for (size_t n = rng() % 4; n > 0; --n)
        symbols += static_cast<char>(rng() % 2 == 0 ? 'a' + rng() % 2 : 'A' + rng() % rules.size());
  }
  return rules;
}

std::string gbnf_of(const Rules& rules) {
  std::string out = "root ::= rA\n";
  for (size_t i = 0; i < rules.size(); ++i) {
    out += std::string("r") + static_cast<char>('A' + i) + " ::= ";
    for (size_t k = 0; k < rules[i].size(); ++k) {
      if (k > 0) out += " | ";
      if (rules[i][k].empty()) out += "\"\"";
      for (const char c : rules[i][k])
        out += c < 'a' ? std::string("r") + c + " " : std::string("\"") + c + "\" ";
    }
    out += "\n";
  }
  return out;
}

// Whether each rule makes each part of a text: by trying all ways to cut it, until nothing changes.
bool naively_matches(const Rules& rules, const std::string& text) {
  const size_t n = text.size();
  std::set<std::array<size_t, 3>> made;  // rule, from, to
  const std::function<bool(const std::string&, size_t, size_t, size_t)> fits =
      [&](const std::string& symbols, size_t at, size_t from, size_t to) {
        if (at == symbols.size()) return from == to;
        const char c = symbols[at];
        if (c >= 'a') return from < to && text[from] == c && fits(symbols, at + 1, from + 1, to);
        for (size_t cut = from; cut <= to; ++cut)
          if (made.contains({static_cast<size_t>(c - 'A'), from, cut}) &&
              fits(symbols, at + 1, cut, to))
            return true;
        return false;
      };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < rules.size(); ++rule)
      for (size_t from = 0; from <= n; ++from)
        for (size_t to = from; to <= n; ++to)
          for (const std::string& symbols : rules[rule])
            if (!made.contains({rule, from, to}) && fits(symbols, 0, from, to))
              changed = made.insert({rule, from, to}).second || changed;
  }
  return made.contains({0, 0, n});
}

// A text that begins so; nothing: none was found.
std::optional<std::string> completed(Matcher& matcher, const std::string& begin) {
  std::deque<std::string> waiting{begin};
  std::set<Recogniser::State> seen;
  for (int i = 0; i < 3000 && !waiting.empty(); ++i) {
    const std::string text = waiting.front();
    waiting.pop_front();
    const auto state = matcher.behind(text);
    if (matcher.recogniser().accepts(state)) return text;
    for (const char c : {'a', 'b'})
      if (const auto next = matcher.behind(text + c);
          next != Recogniser::kDead && seen.insert(next).second)
        waiting.push_back(text + c);
  }
  return std::nullopt;
}

// TANDEM_RANDOM_GRAMMARS: how many.
TEST(GbnfParser, RandomGrammars) {
  const char* given = std::getenv("TANDEM_RANDOM_GRAMMARS");
  const int trials = given != nullptr ? std::atoi(given) : 300;
  std::vector<std::string> texts{""};
  for (size_t i = 0; texts[i].size() < 4; ++i)
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  std::mt19937_64 rng(34);
  int with_text = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Rules rules = random_rules(rng);
    const std::string gbnf = gbnf_of(rules);
    Matcher matcher = gbnf_matcher(gbnf);
    with_text += matcher.has_text() ? 1 : 0;
    for (const std::string& text : texts) {
      const bool expected = naively_matches(rules, text);
      ASSERT_EQ(matcher.matches(text), expected) << gbnf << "\n\"" << text << '"';
      for (size_t n = 0; expected && n < text.size(); ++n)
        ASSERT_TRUE(matcher.begins(text.substr(0, n))) << gbnf << "\n\"" << text << '"';
      if (!matcher.begins(text)) continue;
      const auto whole = completed(matcher, text);
      ASSERT_TRUE(whole) << gbnf << "\nnothing begins with \"" << text << '"';
      if (whole->size() > 8) continue;
      ASSERT_TRUE(naively_matches(rules, *whole)) << gbnf << *whole;
    }
  }
  EXPECT_GT(with_text, trials / 3);
}

}  // namespace
}  // namespace tandem::grammar_test
