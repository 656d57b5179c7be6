// Masks of tokens: against a walk of each token by itself, over vocabularies of every kind.
#include "text/grammar/token_constraint.h"

#include <gmock/gmock.h>

#include <chrono>
#include <random>

#include "tests/text/grammar/grammar_fixture.h"
#include "text/grammar/json/json_schema.h"
#include "text/grammar/regex_parser.h"

namespace tandem::grammar_test {
namespace {

std::shared_ptr<const TokenVocabulary> vocabulary_of(std::vector<std::string> pieces,
                                                     int32_t more = 0) {
  const auto size = static_cast<int32_t>(pieces.size()) + more;
  return std::make_shared<const TokenVocabulary>(PieceTokenizer(std::move(pieces)), size);
}

// All bytes, and random joins of pieces that are there.
std::vector<std::string> byte_pieces(std::mt19937_64& rng, size_t count) {
  std::vector<std::string> pieces{"", ""};
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"é", "日", "🙂", "ab", " a", "-1", "00", "\":", "{\""})
    pieces.emplace_back(text);
  while (pieces.size() < count)
    pieces.push_back(pieces[2 + rng() % (pieces.size() - 2)] +
                     pieces[34 + rng() % (pieces.size() - 34)]);
  return pieces;
}

TokenConstraint constraint_of(const std::string& regex, std::shared_ptr<const TokenVocabulary> v) {
  Grammar grammar;
  grammar.set_root(parse_regex(regex, grammar));
  return {grammar, std::move(v)};
}

std::vector<int32_t> ids_of(const TokenConstraint::Allowed& allowed) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < allowed.tokens->size() * 64; ++i)
    if (((*allowed.tokens)[i / 64] >> (i % 64) & 1) != 0) out.push_back(static_cast<int32_t>(i));
  return out;
}

TEST(TokenConstraint, MasksAreThoseOfEachTokenByItself) {
  std::mt19937_64 rng(1);
  const auto pieces = byte_pieces(rng, 900);
  const auto vocabulary = vocabulary_of(pieces);
  for (const char* regex :
       {".{5,12}", "[^\\x00-\\x7f]{3,4}", "[ -~]{3}", "(yes|no|maybe)", "[0-9]{3}-[0-9]{2}",
        "[🙂-🚀]{1,3}", "\\w{1,7} \\w{1,7}", "(a|ab|abc)!?"}) {
    const TokenConstraint constraint = constraint_of(regex, vocabulary);
    Matcher matcher([&](Grammar& grammar) { return parse_regex(regex, grammar); });
    for (int walk = 0; walk < 5; ++walk) {
      std::vector<int32_t> output;
      std::string text;
      while (true) {
        const auto allowed = constraint.allowed(output);
        ASSERT_NE(allowed.tokens, nullptr);
        ASSERT_EQ(allowed.ends, matcher.matches(text)) << regex << text;
        std::vector<int32_t> expected;
        for (size_t id = 2; id < pieces.size(); ++id)
          if (matcher.begins(text + pieces[id])) expected.push_back(static_cast<int32_t>(id));
        ASSERT_EQ(ids_of(allowed), expected) << regex << " behind " << text;
        if (expected.empty() || output.size() > 20) break;
        output.push_back(expected[rng() % expected.size()]);
        text += pieces[static_cast<size_t>(output.back())];
      }
    }
  }
}

TEST(TokenConstraint, OffTheWayNothingFollows) {
  const auto vocabulary = vocabulary_of({"", "a", "b", "ab"}, /*more=*/3);
  const TokenConstraint constraint = constraint_of("ab+", vocabulary);
  EXPECT_EQ(vocabulary->size(), 7);
  EXPECT_EQ(ids_of(constraint.allowed({})), (std::vector<int32_t>{1, 3}));
  const std::vector<int32_t> right{3, 2}, wrong{2}, special{1, 0}, outside{1, 6}, ends{3};
  EXPECT_TRUE(constraint.allowed(right).ends);
  EXPECT_TRUE(constraint.allowed(ends).ends);
  for (const auto& output : {wrong, special, outside})
    EXPECT_EQ(constraint.allowed(output).tokens, nullptr);
}

// SentencePiece without bytes: whatever needs a character that no token has is no way to go.
TEST(TokenConstraint, CharactersWithoutATokenAreNotLookedForwardTo) {
  const auto vocabulary = vocabulary_of({"", "a", "b", "c", "ab", "é", " ", " a"});
  const TokenConstraint constraint = constraint_of("(ab@|[bc]{2}|aé)", vocabulary);
  EXPECT_EQ(ids_of(constraint.allowed({})), (std::vector<int32_t>{1, 2, 3}));
  const std::vector<int32_t> a{1};
  EXPECT_EQ(ids_of(constraint.allowed(a)), (std::vector<int32_t>{5}));
  EXPECT_EQ(error_of([&] { constraint_of("[a-c]+@", vocabulary); }),
            "the model's tokens cannot write any text of it");
  EXPECT_EQ(error_of([&] { constraint_of("[^\\s\\S]", vocabulary); }), "no text matches it");
}

class WordPieces final : public PieceTokenizer {
 public:
  using PieceTokenizer::PieceTokenizer;
  std::string token_bytes(int32_t id) const override {
    const std::string& piece = pieces_[static_cast<size_t>(id)];
    if (piece.empty()) return {};
    return piece.starts_with("##") ? piece.substr(2) : " " + piece;
  }
  std::optional<std::string> id_to_token(int32_t id) const override {
    return pieces_[static_cast<size_t>(id)];
  }
};

// The space before a word is decoding's: the first word has none.
TEST(TokenConstraint, WordsOfWordPieceBeginWithoutASpace) {
  const WordPieces tokenizer({"", "new", "york", "##er", "##new"});
  const auto vocabulary = std::make_shared<const TokenVocabulary>(tokenizer, 5);
  const TokenConstraint constraint = constraint_of("new york(er)?", vocabulary);
  EXPECT_EQ(ids_of(constraint.allowed({})), (std::vector<int32_t>{1, 4}));
  const std::vector<int32_t> output{1, 2};
  EXPECT_EQ(ids_of(constraint.allowed(output)), (std::vector<int32_t>{3}));
  EXPECT_TRUE(constraint.allowed(output).ends);
}

// What explodes is refused, or served on the way: within the bounds in either case.
TEST(TokenConstraint, BoundsOfTimeAndMemory) {
  std::mt19937_64 rng(2);
  const auto vocabulary = vocabulary_of(byte_pieces(rng, 5000));
  std::string many = "(x*y*){400}z";
  for (int i = 401; i < 460; ++i) many += "|(x*y*){" + std::to_string(i) + "}z";
  for (const std::string& regex :
       {std::string("([ab]*a[ab]{24})"), std::string("((a{0,200}){0,200}){0,200}"), many,
        std::string("(\\p{L}{0,500}\\p{N}{0,500}){50}"), std::string("(\\w{0,40}-?){0,900}"),
        std::string("(.*a.{30}|.*b.{31}|.*1.{29})")}) {
    const auto begun = std::chrono::steady_clock::now();
    try {
      const TokenConstraint constraint = constraint_of(regex, vocabulary);
      std::vector<int32_t> output;
      for (int i = 0; i < 8; ++i) {
        const auto ids = ids_of(constraint.allowed(output));
        ASSERT_FALSE(ids.empty());
        output.push_back(ids[rng() % ids.size()]);
        EXPECT_LT(constraint.size(), size_t{64} << 20);
      }
    } catch (const GrammarError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("too large")) << regex;
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    EXPECT_LT(took.count(), 2.0) << regex;  // 100 ms each way; tests run unoptimised, and at once
  }
}

TEST(TokenConstraint, WhatWasForgottenIsFoundAgain) {
  std::mt19937_64 rng(3);
  const auto vocabulary = vocabulary_of(byte_pieces(rng, 3000));
  Grammar grammar;
  grammar.set_root(any_json_object(grammar));
  const TokenConstraint constraint(grammar, vocabulary), fresh(grammar, vocabulary);
  // Ever other depths: states without end.
  std::vector<int32_t> output{2 + '{'};
  const auto push = [&](const char* text) {
    for (const char* c = text; *c != 0; ++c) output.push_back(2 + static_cast<uint8_t>(*c));
  };
  for (int i = 0; i < 300; ++i) {
    push("\"k\":[{");
    ASSERT_FALSE(ids_of(constraint.allowed(output)).empty());
    EXPECT_LT(constraint.size(), size_t{64} << 20);
  }
  EXPECT_EQ(ids_of(constraint.allowed(output)), ids_of(fresh.allowed(output)));
}

}  // namespace
}  // namespace tandem::grammar_test
