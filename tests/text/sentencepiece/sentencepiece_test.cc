// SentencePiece models: reading the file, normalising, segmenting; against what the library makes
// of the same texts (tests/data/tokenizers/make_pieces.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/utf8.h"
#include "text/sentencepiece/piece_normalizer.h"
#include "text/sentencepiece/segmenter.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/unigram.h"
#include "text/tokenizer_json.h"

namespace tandem::sentencepiece_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using Pieces = std::vector<std::string>;

const std::filesystem::path kPieces =
    std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/tokenizers/pieces";

std::string normalize(const PieceModel& model, const std::string& text) {
  GrowthBudget budget("test", text.size());
  return PieceNormalizer(model).normalize(text, budget);
}

Pieces segment(const PieceModel& model, const std::string& text) {
  const std::string normal = normalize(model, text);
  const auto pieces = make_segmenter(model)->segment(normal);
  return {pieces.begin(), pieces.end()};
}

TEST(SentencePiece, SegmentsAsTheLibrary) {
  std::ifstream file(kPieces / "pieces.json");
  const json all = json::parse(file);
  EXPECT_EQ(all.size(), 2u);
  for (const auto& [name, cases] : all.items()) {
    const PieceModel model = read_piece_model(kPieces / (name + ".model"));
    EXPECT_GE(cases.size(), 50u);
    for (const auto& c : cases)
      EXPECT_EQ(segment(model, c[0].get<std::string>()), c[1].get<Pieces>())
          << name << ": " << c[0];
  }
}

// --- Models of a few pieces, written by hand ---------------------------------------------------

std::string varint(uint64_t n) {
  std::string out;
  for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
  return out + static_cast<char>(n);
}
std::string number(int field, uint64_t value) {
  return varint(static_cast<uint64_t>(field) << 3) + varint(value);
}
std::string bytes(int field, const std::string& value) {
  return varint(static_cast<uint64_t>(field) << 3 | 2) + varint(value.size()) + value;
}
std::string piece(const std::string& text, float score, int type = 1) {
  std::string real(4, '\0');
  std::memcpy(real.data(), &score, 4);
  return bytes(1,
               bytes(1, text) + varint(2 << 3 | 5) + real + number(3, static_cast<uint64_t>(type)));
}

const std::string kPlain = piece("<unk>", 0, 2) + piece("a", -1) + piece("b", -2) +
                           piece("ab", -2.5f) + piece("\u2581", -3) + piece("\u00e9", -4) +
                           piece("<x>", 0, 4);

// With the setting that makes bytes of unknown characters.
std::string byte_pieces() {
  std::string out = bytes(2, number(35, 1));
  for (int byte = 0; byte < 256; ++byte) out += piece(piece_of_byte(static_cast<char>(byte)), 0, 6);
  return out;
}

PieceModel parse(const std::string& text) { return parse_piece_model(text, "DIR/x.spm"); }

TEST(SentencePiece, TheMostLikelyPieces) {
  const PieceModel model = parse(kPlain);
  EXPECT_THAT(segment(model, "ab"), ElementsAre("\u2581", "ab"));
  EXPECT_THAT(segment(model, "  a   b "), ElementsAre("\u2581", "a", "\u2581", "b"));
  // Unknown characters next to each other are one piece.
  EXPECT_THAT(segment(model, "xy\u5317a\U0001F600"),
              ElementsAre("\u2581", "xy\u5317", "a", "\U0001F600"));
  EXPECT_THAT(segment(model, "a<x>b"), ElementsAre("\u2581", "a", "<x>", "b"));
  EXPECT_THAT(segment(model, ""), ElementsAre());
  EXPECT_THAT(segment(model, "   "), ElementsAre());
  EXPECT_TRUE(Unigram(model).contains("ab"));
  EXPECT_FALSE(Unigram(model).contains("<unk>"));
  EXPECT_FALSE(Unigram(model).contains("abc"));
}

// Of a BPE model, scores are the order of merges; no sum counts.
TEST(SentencePiece, MergesTheHighestScoreFirst) {
  const std::string bpe = bytes(2, number(3, 2));
  const PieceModel model =
      parse(kPlain + piece("bb", -1) + piece("\u2581a", -5) + piece("xb", -6) + bpe);
  EXPECT_THAT(segment(model, "abb"), ElementsAre("\u2581a", "bb"));
  EXPECT_THAT(segment(model, "ab"), ElementsAre("\u2581", "ab"));
  EXPECT_THAT(segment(model, "bbb"), ElementsAre("\u2581", "bb", "b"));  // of equals the leftmost
  EXPECT_THAT(segment(model, "xy\u5317a"), ElementsAre("\u2581", "xy\u5317", "a"));
  EXPECT_THAT(segment(model, "a<x>b"), ElementsAre("\u2581a", "<x>", "b"));
  EXPECT_THAT(segment(model, ""), ElementsAre());
  // A piece for merging only comes apart again.
  const PieceModel unused = parse(kPlain + piece("ba", -1, 5) + piece("bab", -1) + bpe);
  EXPECT_THAT(segment(unused, "ba"), ElementsAre("\u2581", "b", "a"));
  EXPECT_THAT(segment(unused, "bab"), ElementsAre("\u2581", "bab"));
  EXPECT_TRUE(make_segmenter(model)->contains("bb"));
  EXPECT_FALSE(make_segmenter(model)->contains("<unk>"));
}

TEST(SentencePiece, TheSpecificationOfTheNormaliser) {
  const auto normal = [&](const std::string& spec, const std::string& text) {
    return normalize(parse(kPlain + bytes(3, spec)), text);
  };
  EXPECT_EQ(normal("", " a  b "), "\u2581a\u2581b");
  EXPECT_EQ(normal(number(3, 0), " a  b "), "a\u2581b");
  EXPECT_EQ(normal(number(4, 0), " a  b "), "\u2581\u2581a\u2581\u2581b\u2581");
  EXPECT_EQ(normal(number(5, 0), "a b"), " a b");
}

TEST(SentencePiece, DamagedFilesAreErrors) {
  const auto error = [](const std::string& text) -> std::string {
    try {
      const PieceModel model = parse(text);
      PieceNormalizer normalizer(model);
      make_segmenter(model);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error(""), HasSubstr("DIR/x.spm: not a SentencePiece model: it has no pieces"));
  EXPECT_THAT(error("\x0a\x7f"), HasSubstr("it ends early"));
  EXPECT_THAT(error("\x0b"), HasSubstr("unknown type"));
  EXPECT_THAT(error(std::string(11, '\xff')), HasSubstr("too long"));
  EXPECT_THAT(error(piece("\xff", 0)), HasSubstr("not UTF-8"));
  EXPECT_THAT(error(piece("", 0)), HasSubstr("an empty piece"));
  EXPECT_THAT(error(piece("a", NAN)), HasSubstr("no number"));
  EXPECT_THAT(error(piece("a", 0, 9)), HasSubstr("unknown type"));
  EXPECT_THAT(error(kPlain + piece("a", -1)), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(error(kPlain + bytes(2, number(3, 3))), HasSubstr("Unigram or BPE"));
  EXPECT_THAT(error(kPlain + bytes(2, number(35, 1))), HasSubstr("not 256 pieces of bytes"));
  EXPECT_THAT(error(kPlain + piece("<0x41>", 0, 6)), HasSubstr("byte_fallback is false"));
  EXPECT_THAT(error(kPlain + byte_pieces() + piece("<0x4g>", 0, 6)), HasSubstr("names none"));
  EXPECT_EQ(error(kPlain + byte_pieces()), "");
  for (const std::string& table : {std::string("abc"), std::string("\x04\0\0\0abcd", 8),
                                   std::string("\xff\xff\xff\xff"
                                               "abcd\0",
                                               9)})
    EXPECT_THAT(error(kPlain + bytes(3, bytes(2, table))), HasSubstr("precompiled_charsmap"));
  EXPECT_EQ(error(kPlain), "");
}

// Whatever a file says, reading it ends, and so does using it.
TEST(SentencePiece, RandomDamageIsHarmless) {
  std::mt19937_64 rng(7);
  const std::string whole = read_text_file(kPieces / "t5.model");
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    for (int i = 0; i < 3; ++i) text[rng() % text.size()] = static_cast<char>(rng());
    if (round % 3 == 0) text.resize(rng() % text.size());
    try {
      const std::string words = "caf\u00e9 \ufb01 \u00bd abc 123";
      const std::string normal = normalize(parse(text), words);
      EXPECT_EQ(find_invalid_utf8(normal), std::string::npos);
      segment(parse(text), words);
    } catch (const InputError&) {
    }
  }
}

// --- As a tokenizer's model --------------------------------------------------------------------

TEST(SentencePiece, CodesAndIds) {
  SentencePieceFiles files;
  files.vocabulary = {{"<unk>", 0}, {"a", 1}, {"ab", 2}, {"\u2581", 3}, {">>ab<<", 4}};
  files.source = files.target = parse(kPlain);
  files.unknown_token = "<unk>";
  files.options.codes = true;
  const auto model = make_sentencepiece_model(files, "vocab.json");
  const auto ids = [&](const std::string& text) {
    std::vector<int32_t> out;
    GrowthBudget budget("vocab.json", text.size());
    model->word_encoder(budget)->encode(text, out);
    return out;
  };
  EXPECT_THAT(ids("ab b"), ElementsAre(3, 2, 3, 0));
  EXPECT_THAT(ids(">>ab<< a"), ElementsAre(4, 3, 1));
  EXPECT_THAT(ids(">>y<<a"), ElementsAre(0, 3, 1));
  EXPECT_THAT(ids("a >>ab<<a"), ElementsAre(3, 1, 3, 0, 2, 0, 1));  // only at the start
  EXPECT_THAT(ids(">><<a"), ElementsAre(0, 3, 1));
  files.options.codes = false;
  std::vector<int32_t> plain;
  GrowthBudget budget("vocab.json", 6);
  make_sentencepiece_model(files, "vocab.json")->word_encoder(budget)->encode(">>ab<<", plain);
  EXPECT_THAT(plain, ElementsAre(3, 0, 2, 0));
  const auto decoder = make_sentencepiece_decoder(files);
  EXPECT_EQ(decoder->token_bytes("\u2581a\u2581"), " a ");
  EXPECT_TRUE(decoder->loses_space("\u2581"));
  EXPECT_FALSE(decoder->loses_space("\u2581zz"));  // not a piece of the target's
  files.unknown_token = "none";
  EXPECT_THROW(make_sentencepiece_model(files, "vocab.json"), InputError);
}

TEST(SentencePiece, UnknownCharactersAreTheirBytes) {
  for (const bool bpe : {false, true}) {
    SentencePieceFiles files;
    files.source = files.target =
        parse(kPlain + byte_pieces() + (bpe ? bytes(2, number(3, 2)) : ""));
    files.vocabulary = {{"<unk>", 0}, {"a", 1}, {"\u2581", 2}};
    for (int byte = 0x80; byte < 0x100; ++byte)
      files.vocabulary[piece_of_byte(static_cast<char>(byte))] = byte;
    files.unknown_token = "<unk>";
    std::vector<int32_t> ids;
    GrowthBudget budget("vocab.json", 10);
    make_sentencepiece_model(files, "vocab.json")
        ->word_encoder(budget)
        ->encode("a \u5317\u4eacxa", ids);
    // Those of the vocabulary: it lacks x's.
    EXPECT_THAT(ids, ElementsAre(2, 1, 2, 0xE5, 0x8C, 0x97, 0xE4, 0xBA, 0xAC, 0, 1));
    const auto decoder = make_sentencepiece_decoder(files);
    EXPECT_EQ(decoder->byte_of("<0xE5>"), '\xE5');
    EXPECT_EQ(decoder->byte_of("<0xe5>"), std::nullopt);
    EXPECT_EQ(decoder->byte_of("a"), std::nullopt);
    files.options.loses_spaces = false;  // not decoded by the library
    EXPECT_EQ(make_sentencepiece_decoder(files)->byte_of("<0xE5>"), std::nullopt);
  }
}

}  // namespace
}  // namespace tandem::sentencepiece_test
