// Incremental decoding: the pieces are the whole text, never half a character, and never late.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/strings/utf8.h"
#include "models/family.h"
#include "tests/text/fake_tokenizer.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

std::unique_ptr<Tokenizer> load(const std::string& name) {
  return load_tokenizer(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/goldens" / name);
}

class Vocabularies : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Detokenizer, Vocabularies,
                         testing::Values("bart-base-shape", "bart-model-only", "bart-odd-heads",
                                         "bart-tiny", "blenderbot-tiny", "whisper-tiny-rand"));

TEST_P(Vocabularies, PiecesAreTheTextAndAreNeverLate) {
  const auto tokenizer = load(GetParam());
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 2000; ++round) {
    const bool skip_special = rng() % 2;
    Detokenizer detokenizer(*tokenizer, skip_special);
    std::vector<int32_t> ids;
    std::string text;
    for (size_t n = rng() % 40; n > 0; --n) {
      // Many single bytes, so that characters are split; special and added tokens; ids without
      // token.
      const auto size = static_cast<uint64_t>(tokenizer->size());
      const uint64_t id = rng() % 2 ? rng() % 260 : rng() % (size + 3);
      ids.push_back(rng() % 50 ? static_cast<int32_t>(id) : -1);
      const std::string piece = detokenizer.append(ids.back());
      ASSERT_EQ(find_invalid_utf8(piece), std::string::npos);
      text += piece;
      // All is out but at most one unfinished character, and what is out is final.
      const std::string so_far = tokenizer->decode(ids, skip_special);
      ASSERT_TRUE(so_far == text || so_far == text + "\xEF\xBF\xBD") << so_far << " / " << text;
    }
    text += detokenizer.finish();
    ASSERT_EQ(text, tokenizer->decode(ids, skip_special));
  }
}

TEST_P(Vocabularies, EncodedTextComesBackCharacterByCharacter) {
  const auto tokenizer = load(GetParam());
  const std::string text = " caf\u00E9 \u6771\u4EAC \U0001F642\u200D\U0001F308 \u20AC";
  Detokenizer detokenizer(*tokenizer, /*skip_special=*/true);
  std::string joined;
  for (const int32_t id : tokenizer->encode(text)) {
    const std::string piece = detokenizer.append(id);
    EXPECT_EQ(piece.find("\uFFFD"), std::string::npos);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, AnUnfinishedCharacterIsReplacedAtTheEnd) {
  const auto tokenizer = load("bart-tiny");
  const auto ids = tokenizer->encode("\u20AC", false);
  ASSERT_GT(ids.size(), 1u);
  Detokenizer detokenizer(*tokenizer, false);
  EXPECT_EQ(detokenizer.append(ids[0]), "");
  EXPECT_EQ(detokenizer.append(68),
            "\uFFFD"
            "a");  // not a continuation: it is certain now
  EXPECT_EQ(detokenizer.append(ids[0]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

// SentencePiece's decoder has no space at either end, one behind a special token, and not the one
// that a text or what stands behind a special token begins with.
TEST(Detokenizer, SpacesAreTrimmed) {
  const auto tokenizer = load("marian-tiny");
  const auto id = [&](const char* token) { return tokenizer->token_to_id(token).value(); };
  const int32_t space = id("\u2581"), the = id("\u2581the"), s = id("s"), end = id("</s>");
  const auto pieces = [&](const std::vector<int32_t>& ids, bool skip_special) {
    Detokenizer detokenizer(*tokenizer, skip_special);
    std::vector<std::string> out;
    for (const int32_t i : ids) out.push_back(detokenizer.append(i));
    EXPECT_EQ(detokenizer.finish(), "");
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(pieces({space, the, s, space, the, space}, true),
            (Texts{"", "the", "s", "", "  the", ""}));
  EXPECT_EQ(pieces({the, end, the, s, end}, false), (Texts{"the", "</s>", " the", "s", "</s>"}));
  EXPECT_EQ(pieces({the, end, the, s, end}, true), (Texts{"the", "", " the", "s", ""}));
  // Random ids: the pieces, joined, are what decode() says.
  std::mt19937_64 rng(5);
  for (int round = 0; round < 500; ++round) {
    const bool skip_special = rng() % 2;
    std::vector<int32_t> ids;
    for (size_t n = rng() % 30; n > 0; --n)
      ids.push_back(rng() % 3 ? static_cast<int32_t>(rng() % 800) : rng() % 2 ? end : space);
    std::string joined;
    for (const std::string& piece : pieces(ids, skip_special)) joined += piece;
    EXPECT_EQ(joined, tokenizer->decode(ids, skip_special));
  }
}

TEST(Detokenizer, SpacesBeforePunctuationGo) {
  EXPECT_EQ(tidy_spaces("a , b . do n't , it 's ' x ' ?"), "a, b. don't, it's'x '?");
  EXPECT_EQ(tidy_spaces("a  . 'm"), "a .'m");
  // Streamed: the same as all of the text at once.
  const auto tokenizer = load("plbart-tiny");
  std::vector<int32_t> often;
  for (const char* token : {"\u2581", "'", ".", ",", "s", "n", "t", "\u2581a"})
    if (const auto id = tokenizer->token_to_id(token)) often.push_back(*id);
  ASSERT_GE(often.size(), 6u);
  std::mt19937_64 rng(6);
  for (int round = 0; round < 2000; ++round) {
    std::string raw, joined;
    Detokenizer detokenizer(*tokenizer, false);
    for (size_t n = rng() % 30; n > 0; --n) {
      const int32_t id =
          rng() % 8 ? often[rng() % often.size()] : static_cast<int32_t>(rng() % 645);
      raw += tokenizer->token_bytes(id);
      joined += detokenizer.append(id);
    }
    joined += detokenizer.finish();
    const char* spaces = " \n\t\r";
    raw.erase(0, std::min(raw.find_first_not_of(spaces), raw.size()));
    raw.erase(raw.find_last_not_of(spaces) + 1);
    EXPECT_EQ(joined, tidy_spaces(raw)) << raw;
  }
}

TEST(Detokenizer, WordsThatGoOn) {
  const auto tokenizer = load("blenderbot-small-tiny");
  const auto ids = tokenizer->encode("it's A long-winded sentence , isn't it?");
  std::string joined;
  Detokenizer detokenizer(*tokenizer, true);
  for (const int32_t id : ids) joined += detokenizer.append(id);
  EXPECT_EQ(joined + detokenizer.finish(), "it ' s a long-winded sentence , isn ' t it ?");
  int32_t goes_on = 0;
  while (!tokenizer->decode({goes_on}, false).ends_with("@@")) ++goes_on;
  Detokenizer other(*tokenizer, true);
  std::string last = other.append(goes_on);
  last += other.finish();
  EXPECT_EQ(last, tokenizer->decode({goes_on}, false));
}

// Of T5's text the first token has no space; tokens that are skipped, and ids without one, are no
// first token.
TEST(Detokenizer, TheFirstTokenLosesItsSpace) {
  const auto tokenizer = load("t5-tiny");
  const auto id = [&](const char* token) { return tokenizer->token_to_id(token).value(); };
  const int32_t space = id("\u2581"), the = id("\u2581the"), s = id("s"), end = id("</s>");
  const auto text = [&](const std::vector<int32_t>& ids, bool skip_special) {
    Detokenizer detokenizer(*tokenizer, skip_special);
    std::string out;
    for (const int32_t i : ids) out += detokenizer.append(i);
    out += detokenizer.finish();
    EXPECT_EQ(out, tokenizer->decode(ids, skip_special));
    return out;
  };
  EXPECT_EQ(text({the, s, the}, true), "thes the");
  EXPECT_EQ(text({end, 1023, -1, the, the}, true), "the the");
  EXPECT_EQ(text({end, the, the}, false), "</s> the the");
  EXPECT_EQ(text({space, the, space}, true), " the ");
  EXPECT_EQ(tokenizer->token_bytes(the), " the");
}

// UMT5 has tokens for bytes: a run of them is a text, or each is U+FFFD.
TEST(Detokenizer, RunsOfBytes) {
  const auto tokenizer = load("umt5-tiny");
  const auto byte = [](int value) { return value + 3; };
  const int32_t the = tokenizer->token_to_id("\u2581a").value();
  const std::vector<int32_t> ids = {byte(0xC3), byte(0xA9), the,        byte(0xE2), byte(0x82),
                                    1,          byte(0xAC), byte(0xC3), the,        byte(0xC3)};
  std::string text;
  Detokenizer detokenizer(*tokenizer, true);
  for (const int32_t id : ids) text += detokenizer.append(id);
  EXPECT_EQ(text, "\u00E9 a\uFFFD\uFFFD\uFFFD\uFFFD a");
  text += detokenizer.finish();
  EXPECT_EQ(text, "\u00E9 a\uFFFD\uFFFD\uFFFD\uFFFD a\uFFFD");
  EXPECT_EQ(text, tokenizer->decode(ids, true));
}

// Tokens are bytes; those that are no character become nothing.
TEST(Detokenizer, InvalidBytesAreDropped) {
  const auto tokenizer = load("byt5-tiny");
  const auto byte = [](int value) { return value + 3; };
  const std::vector<int32_t> ids = {byte(0xC3), byte(0xA9), byte(0xE2), byte(0x82), byte('a'),
                                    byte(0xFF), byte(0xC3), 1,          byte(0xA9), byte(0xC3)};
  for (const bool skip_special : {true, false}) {
    std::string text;
    Detokenizer detokenizer(*tokenizer, skip_special);
    for (const int32_t id : ids) text += detokenizer.append(id);
    EXPECT_EQ(text, skip_special ? "\u00E9a\u00E9" : "\u00E9a</s>");
    EXPECT_EQ(detokenizer.finish(), "");
    EXPECT_EQ(text, tokenizer->decode(ids, skip_special));
  }
}

class TidyTokenizer : public FakeTokenizer {
 public:
  bool tidies() const override { return true; }
};

// Text that is cut anywhere is tidied as a whole, and no more is held back than may change.
TEST(Detokenizer, TidiedInPartsAsAWhole) {
  const TidyTokenizer tokenizer;
  const std::string characters = "   ''nntvrems.,?!x\n";
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::string raw, joined, piece;
    Detokenizer detokenizer(tokenizer, false);
    for (size_t n = rng() % 24; n > 0; --n) {
      raw += characters[rng() % characters.size()];
      piece = detokenizer.append(tokenizer.encode(raw.substr(raw.size() - 1), false)[0]);
      joined += piece;
      if (std::string("x.,?!tems\n").find(raw.back()) != std::string::npos) {
        ASSERT_EQ(joined, tidy_spaces(raw)) << raw;
      }
    }
    ASSERT_EQ(joined + detokenizer.finish(), tidy_spaces(raw)) << raw;
  }
}

class AllVocabularies : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Detokenizer, AllVocabularies,
                         testing::Values("bart-tiny", "blenderbot-small-tiny", "byt5-tiny",
                                         "flan-t5-untied", "marian-tiny", "mbart50-tiny",
                                         "mt5-tiny", "plbart-tiny", "t5-tiny", "umt5-tiny",
                                         "whisper-tiny-rand"));

TEST_P(AllVocabularies, PiecesAreTheText) {
  const auto tokenizer = load(GetParam());
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const std::vector<int32_t> often =
      tokenizer->encode(". , ' ' n't 's ' a \u00E9\u20AC <unk> ? ! don ' t  x  </s>");
  for (int round = 0; round < 2000; ++round) {
    const bool skip_special = rng() % 2;
    std::vector<int32_t> ids;
    std::string text;
    Detokenizer detokenizer(*tokenizer, skip_special);
    for (size_t n = rng() % 40; n > 0; --n) {
      const auto any = static_cast<int32_t>(rng() % static_cast<uint64_t>(tokenizer->size() + 3));
      ids.push_back(rng() % 2 ? any - 1 : often[rng() % often.size()]);
      const std::string piece = detokenizer.append(ids.back());
      ASSERT_EQ(find_invalid_utf8(piece), std::string::npos);
      text += piece;
    }
    text += detokenizer.finish();
    ASSERT_EQ(text, tokenizer->decode(ids, skip_special)) << testing::PrintToString(ids);
  }
}

// A special token that is skipped does not come between the bytes of a character.
TEST(Detokenizer, SkippedTokensLeaveNoTrace) {
  const auto tokenizer = load("bart-tiny");
  auto ids = tokenizer->encode("\u20AC", false);
  ids.insert(ids.begin() + 1, 2);
  for (const bool skip_special : {true, false}) {
    Detokenizer detokenizer(*tokenizer, skip_special);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.append(id);
    text += detokenizer.finish();
    EXPECT_EQ(text, tokenizer->decode(ids, skip_special));
    EXPECT_EQ(text == "\u20AC", skip_special);
  }
}

// Tokens of bytes among others where spaces are trimmed: as SentencePiece's library has them.
class TrimmedBytes final : public FakeTokenizer {
 public:
  bool trims_spaces() const override { return true; }
  std::optional<char> byte_of(int32_t id) const override {
    return id < kLetter ? std::nullopt : std::optional<char>(static_cast<char>(id - kLetter));
  }
  std::string token_bytes(int32_t id) const override {
    return id < kLetter ? FakeTokenizer::token_bytes(id) : "?";
  }
  int32_t size() const override { return kLetter + 256; }
  static constexpr int32_t kLetter = 300;  // the ids of bytes; those before are as they are
};

TEST(Detokenizer, CharactersOfBytesAmongTrimmedTokens) {
  const TrimmedBytes tokenizer;
  const auto bytes = [](const std::string& text) {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(TrimmedBytes::kLetter + static_cast<unsigned char>(c));
    return ids;
  };
  const auto text_of = [&](const std::vector<int32_t>& ids, bool skip_special = false) {
    Detokenizer detokenizer(tokenizer, skip_special);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.append(id);
    return text + detokenizer.finish();
  };
  const auto with = [](std::vector<int32_t> ids, const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  const std::vector<int32_t> a = {3 + 'a'};
  EXPECT_EQ(text_of(with(bytes("\u5317\u4eac"), a)), "\u5317\u4eaca");
  EXPECT_EQ(text_of(bytes(" \u5317 ")), "\u5317");
  // Each byte that begins nothing is one U+FFFD, and what stands behind it is read on its own.
  EXPECT_EQ(text_of(bytes("\xE5\x8C\xE5\x8C\x97\xE5")), "\uFFFD\uFFFD\u5317\uFFFD");
  EXPECT_EQ(text_of(with(bytes("\xE5\x8C"), a)), "\uFFFD\uFFFDa");
  // A special token ends a character, unless it is left out.
  const auto split = with(with(bytes("\xE5\x8C"), {2}), bytes("\x97"));
  EXPECT_EQ(text_of(split), "\uFFFD\uFFFD</s>\uFFFD");
  EXPECT_EQ(text_of(split, true), "\u5317");
  // A character is out with its last byte.
  Detokenizer detokenizer(tokenizer, false);
  EXPECT_EQ(detokenizer.append(TrimmedBytes::kLetter + 0xC3), "");
  EXPECT_EQ(detokenizer.append(TrimmedBytes::kLetter + 0xA9), "\u00e9");
  EXPECT_EQ(detokenizer.append(TrimmedBytes::kLetter + 0xFF), "\uFFFD");
}

}  // namespace
}  // namespace tandem
