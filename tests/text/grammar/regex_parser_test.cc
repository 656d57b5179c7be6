#include "text/grammar/regex_parser.h"

#include "tests/text/grammar/grammar_fixture.h"

namespace tandem::grammar_test {
namespace {

Matcher matcher_of(const std::string& expression) {
  return Matcher([&](Grammar& grammar) { return parse_regex(expression, grammar); });
}

struct Case {
  const char* expression;
  std::vector<std::string> yes, no;
};

TEST(RegexParser, WholeTexts) {
  const std::vector<Case> cases = {
      {"", {""}, {"a"}},
      {"()", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"abcd"}},
      {"(?i)^abc$", {"aBc"}, {"abcd", "xabc"}},
      {"(^a$)|(?:^b+$)|^(c|d)$", {"a", "bb", "d"}, {"ab", "cd", ""}},
      {"((^a|b$))", {"a", "b"}, {"ab"}},
      {"(a|b)", {"a", "b"}, {"ab"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"(a|b)*c", {"c", "abbac"}, {"ab", "abcc"}},
      {"a{3}b{2,5}c?(de)*f", {"aaabbf", "aaabbbbbcdedef"}, {"aabbf", "aaabf", "aaabbbbbbf"}},
      {"a{,2}", {"", "aa"}, {"aaa"}},
      {"a{2,}", {"aa", "aaaaaa"}, {"a"}},
      {"a{b}", {"a{b}"}, {"ab"}},
      {"(a*)*b", {"b", "aab"}, {"a"}},
      {"a+?b*?", {"a", "aab"}, {"b"}},
      {"[]a-]+", {"]", "a-]"}, {"b"}},
      {"[^\\W\\d_]{2}", {"ab", "éß"}, {"a1", "a_"}},
      {"\\d\\D\\s\\S\\w\\W", {"1a bc."}, {"aa bc.", "1a bcd"}},
      {"\\p{Lu}\\p{Ll}{2}\\PL", {"Éab1", "Жда."}, {"éab1", "Éabc"}},
      {"\\x41\\u00e9\\u{1F642}\\U0001F680", {"Aé🙂🚀"}, {"Aé🙂"}},
      {".{2}", {"é🙂", "\r "}, {"a\n", "a", "\xff\xff"}},
      {"(?s).", {"\n", "a"}, {""}},
      {"(?:.|\\n)", {"\n", "a"}, {"ab"}},
      {"(?i)straSSe", {"Strasse", "STRASSE"}, {"strase"}},
      {"(?i:a)b", {"ab", "Ab"}, {"aB"}},
      {"(?P<x>a)(?<y>b)", {"ab"}, {"a"}},
      {"[ぁ-ん]{2}[🙂-🚀]", {"はわ🙃"}, {"はワ🙃", "はわ"}},
      {"\\(\\d\\)\\.\\*\\?\\[x\\]", {"(2).*?[x]"}, {"(2).*?x"}},
  };
  for (const Case& c : cases) {
    Matcher matcher = matcher_of(c.expression);
    for (const std::string& text : c.yes) {
      EXPECT_TRUE(matcher.matches(text)) << c.expression << " " << text;
      for (size_t n = 0; n <= text.size(); ++n)
        EXPECT_TRUE(matcher.begins(text.substr(0, n))) << c.expression << " " << text << " " << n;
    }
    for (const std::string& text : c.no)
      EXPECT_FALSE(matcher.matches(text)) << c.expression << " " << text;
  }
}

TEST(RegexParser, NoTextBeginsWhereNoneCanEnd) {
  Matcher matcher = matcher_of("a([^\\s\\S]|b)c|x[^\\x00-\\U0010ffff]");
  EXPECT_TRUE(matcher.begins("ab"));
  EXPECT_FALSE(matcher.begins("x"));
  EXPECT_FALSE(matcher_of("[^\\s\\S]").has_text());
  EXPECT_FALSE(matcher_of("a{2}b[^\\s\\S]+").has_text());
}

TEST(RegexParser, ErrorsNameTheCharacter) {
  const std::pair<const char*, const char*> cases[] = {
      {"([a-z]+", "at character 1: a bracket is not closed"},
      {"a)", "at character 2: a bracket is closed that was not opened"},
      {"*a", "at character 1: there is nothing to repeat"},
      {"a|{2}", "at character 3: there is nothing to repeat"},
      {"[z-a]", "the range falls"},
      {"([", "at character 2: a class of characters is not closed"},
      {"([\\", "at character 3: nothing behind a backslash"},
      {"[a", "at character 1: a class of characters is not closed"},
      {"[\\d-z]", "a range between classes"},
      {"\\p{Nonsense}", "there is no property of characters \"Nonsense\""},
      {"a{3,2}", "the count falls"},
      {"\\", "at character 1: nothing behind a backslash"},
      {"a\\y", "at character 2: there is no escape"},
      {"\\ud800", "there is no character of that number"},
      {"\\x4", "expected a character's number in hexadecimal"},
      {"(?=a)b", "look-around is not supported"},
      {"(?<!a)b", "look-around is not supported"},
      {"(ab)\\1", "a reference to a group is not supported"},
      {"a\\b", "a word boundary is not supported"},
      {"a++", "possessive repetition is not supported"},
      {"a^b", "^ inside the expression is not supported"},
      {"(a$)b", "$ inside the expression is not supported"},
      {"a{1,100000000}", "too large"},
      {"((a{0,200}){0,200}){0,200}", "too large"},
  };
  for (const auto& [expression, message] : cases)
    EXPECT_THAT(error_of([&] { matcher_of(expression); }), ::testing::HasSubstr(message))
        << expression;
  const std::string deep = std::string(20000, '(') + "a" + std::string(20000, ')');
  EXPECT_THAT(error_of([&] { matcher_of(deep); }), ::testing::HasSubstr("too large"));
}

TEST(RegexParser, ASearchMayStandAnywhere) {
  const auto anywhere = [](const char* expression) {
    return Matcher([=](Grammar& grammar) {
      const auto around = grammar.repeat(grammar.characters(all_characters()), 0, std::nullopt);
      return parse_regex(expression, grammar, {.write = {}, .around = around});
    });
  };
  EXPECT_TRUE(anywhere("b+").matches("abba"));
  EXPECT_FALSE(anywhere("b+").matches("aa"));
  EXPECT_TRUE(anywhere("^b|c$").matches("bxx"));
  EXPECT_TRUE(anywhere("^b|c$").matches("xxc"));
  EXPECT_FALSE(anywhere("^b|c$").matches("xbcx"));
  EXPECT_FALSE(anywhere("^b$").matches("xb"));
}

// Where more may stand around, each alternative says whether it does.
TEST(RegexParser, SearchesWithAnchors) {
  const std::vector<Case> cases = {
      {"(^a+$)|(^b$)", {"aa", "b"}, {"xa", "ab", "bb"}},
      {"(^[])(a]+$)|(^[^])]$)", {"]a)(", "x"}, {"xa", "xx"}},
      {"^a|b$", {"ax", "xb", "a"}, {"xa", "bx"}},
      {"(^a|b$)", {"ax", "xb", "a"}, {"xa", "bx"}},
      {"(a)", {"xax", "a"}, {"b"}},
      {"(a)|^b", {"xax", "bx"}, {"xb"}},
      {"^(a)", {"ax"}, {"xa"}},
      {"(a)$", {"xa"}, {"ax"}},
      {"(?i)^a", {"Ax"}, {"xA"}},
      {"(?i)a", {"xAx"}, {"b"}},
      {"(a)(b)", {"xabx"}, {"axb"}},
  };
  for (const Case& c : cases) {
    Matcher matcher([&](Grammar& grammar) {
      const auto any = grammar.repeat(grammar.characters(all_characters()), 0, std::nullopt);
      return parse_regex(c.expression, grammar, {{}, any});
    });
    for (const std::string& text : c.yes)
      EXPECT_TRUE(matcher.matches(text)) << c.expression << " " << text;
    for (const std::string& text : c.no)
      EXPECT_FALSE(matcher.matches(text)) << c.expression << " " << text;
  }
}

}  // namespace
}  // namespace tandem::grammar_test
