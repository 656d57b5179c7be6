// GBNF: what it means, and random grammars against a parser that tries everything.
#include "text/grammar/gbnf_parser.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>
#include <utility>

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

// What rules make of a text's parts: by trying all ways to cut it, until nothing changes.
class NaiveParser {
 public:
  NaiveParser(const Rules& rules, std::string text)
      : rules_(rules), text_(std::move(text)), makes_any_(rules.size()) {
    const size_t n = text_.size();
    until_nothing_changes([&](size_t rule, const std::string& symbols) {
      if (makes_any_[rule] || !all_make_any(symbols, 0)) return false;
      makes_any_[rule] = true;
      return true;
    });
    until_nothing_changes([&](size_t rule, const std::string& symbols) {
      bool changed = false;
      for (size_t from = 0; from <= n; ++from)
        for (size_t to = from; to <= n; ++to)
          if (!made_.contains({rule, from, to}) && fits(symbols, 0, from, to))
            changed = made_.insert({rule, from, to}).second;
      return changed;
    });
    until_nothing_changes([&](size_t rule, const std::string& symbols) {
      bool changed = false;
      for (size_t from = 0; from <= n; ++from)
        if (!begun_.contains({rule, from}) && begins(symbols, 0, from))
          changed = begun_.insert({rule, from}).second;
      return changed;
    });
  }

  bool matches() const { return made_.contains({0, 0, text_.size()}); }
  // Whether some text that matches begins so.
  bool begins() const { return begun_.contains({0, 0}); }

 private:
  void until_nothing_changes(const std::function<bool(size_t, const std::string&)>& look) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t rule = 0; rule < rules_.size(); ++rule)
        for (const std::string& symbols : rules_[rule]) changed = look(rule, symbols) || changed;
    }
  }
  static size_t rule_of(char symbol) { return static_cast<size_t>(symbol - 'A'); }
  bool all_make_any(const std::string& symbols, size_t at) const {
    for (; at < symbols.size(); ++at)
      if (symbols[at] < 'a' && !makes_any_[rule_of(symbols[at])]) return false;
    return true;
  }
  bool fits(const std::string& symbols, size_t at, size_t from, size_t to) const {
    if (at == symbols.size()) return from == to;
    const char c = symbols[at];
    if (c >= 'a') return from < to && text_[from] == c && fits(symbols, at + 1, from + 1, to);
    for (size_t cut = from; cut <= to; ++cut)
      if (made_.contains({rule_of(c), from, cut}) && fits(symbols, at + 1, cut, to)) return true;
    return false;
  }
  bool begins(const std::string& symbols, size_t at, size_t from) const {
    if (from == text_.size()) return all_make_any(symbols, at);
    if (at == symbols.size()) return false;
    const char c = symbols[at];
    if (c >= 'a') return text_[from] == c && begins(symbols, at + 1, from + 1);
    if (begun_.contains({rule_of(c), from}) && all_make_any(symbols, at + 1)) return true;
    for (size_t cut = from; cut <= text_.size(); ++cut)
      if (made_.contains({rule_of(c), from, cut}) && begins(symbols, at + 1, cut)) return true;
    return false;
  }

  const Rules& rules_;
  const std::string text_;
  std::vector<bool> makes_any_;            // by rule
  std::set<std::array<size_t, 3>> made_;   // rule, from, to
  std::set<std::array<size_t, 2>> begun_;  // rule, from: it makes a text that begins with the rest
};

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
      const NaiveParser naive(rules, text);
      ASSERT_EQ(matcher.matches(text), naive.matches()) << gbnf << "\n\"" << text << '"';
      ASSERT_EQ(matcher.begins(text), naive.begins()) << gbnf << "\n\"" << text << '"';
    }
  }
  EXPECT_GT(with_text, trials / 3);
}

}  // namespace
}  // namespace tandem::grammar_test
