// Input: an object of a checkpoint's files by their names ("tokenizer.json", "vocab.json",
// "tokenizer_config.json", …), for rules of every kind, whose classes are "Unigram", "PieceBpe",
// "SentencePiece", "Subword" and "Bytes". Whatever can be built of it encodes, with languages, and
// decodes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log.h"
#include "tests/fuzz/tokenizer_checks.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

using Kind = TokenizerRule::Kind;
using testing::check_decoding;
using testing::checked_ids;
using testing::take_file;
using testing::take_files;

std::vector<TokenizerRule> make_rules() {
  std::vector<TokenizerRule> rules;
  for (const auto& [name, kind] :
       {std::pair{"Bpe", Kind::kByteLevelBpe}, std::pair{"Unigram", Kind::kUnigram},
        std::pair{"PieceBpe", Kind::kPieceBpe}, std::pair{"SentencePiece", Kind::kSentencePiece},
        std::pair{"Subword", Kind::kSubwordBpe}, std::pair{"Bytes", Kind::kBytes}}) {
    TokenizerRule rule{name, name, kind};
    rule.special_tokens =
        class_tokens({{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
    rule.languages = {"", "", "en_XX"};
    rule.sentencepiece.codes = rule.sentencepiece.space_behind_special = true;
    rule.sentencepiece.target_flag = "separate_vocabs";
    rule.single = {"$source", "$A", "eos_token"};
    rule.pair = {"$A", "eos_token", "$B", "eos_token"};
    rule.alternative = {"legacy_behaviour", {"$A", "eos_token", "$source"}, {"$A", "$B"}};
    if (kind == Kind::kSubwordBpe || kind == Kind::kBytes) rule.single = {"$A", "eos_token"};
    rules.push_back(std::move(rule));
  }
  return rules;
}

// Pieces for whatever vocab.json has.
PieceModel make_pieces(PieceModel::Algorithm algorithm) {
  PieceModel model;
  model.algorithm = algorithm;
  model.pieces = {{"<unk>", 0, PieceModel::Type::kUnknown},
                  {"\u2581", -3},
                  {"a", -1},
                  {"b", -2},
                  {"ab", -2.5f},
                  {"\u2581a", -2},
                  {".", -3},
                  {"'", -3},
                  {"n", -3},
                  {"<x>", 0, PieceModel::Type::kUserDefined}};
  return model;
}

CheckpointFiles read_input(const std::string& input) {
  nlohmann::json json = parse_json(input, "input");
  JsonView(json, "input").object();
  CheckpointFiles files = take_files(json);
  files.vocabulary = take_file(json, "vocab.json");
  files.target_vocabulary = take_file(json, "target_vocab.json");
  files.source = make_pieces(PieceModel::Algorithm::kUnigram);
  files.target = make_pieces(PieceModel::Algorithm::kBpe);
  return files;
}

void use(const Tokenizer& tokenizer, const std::string& text) {
  for (const bool add_special : {true, false}) {
    std::vector<int32_t> ids = checked_ids(tokenizer, text, add_special);
    ids.insert(ids.end(), {-1, 0, 1, tokenizer.size() - 1, tokenizer.size(), INT32_MAX});
    std::rotate(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(ids.size() / 2), ids.end());
    check_decoding(tokenizer, ids, add_special);
  }
  tokenizer.encode_pair(text, "pair");
  for (const char* language : {"en_XX", "fr_XX", ""}) {
    try {
      tokenizer.encode_from(language, text);
    } catch (const InputError&) {
    }
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  static const std::vector<TokenizerRule> rules = make_rules();
  log_nothing();
  const std::string input(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = make_tokenizer(combine(read_input(input), rules));
    std::string text = "a ab . n't ' \u00E9\u5317<pad> <x>";
    append_utf8_lossy(input.substr(0, 60), text);
    use(*tokenizer, text);
  } catch (const InputError&) {
  }
  return 0;
}
