// Input: a SentencePiece model file. Whatever can be read normalises and segments texts, and makes
// tokenizers as rules of both kinds make them of pieces alone.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log/log.h"
#include "base/strings/utf8.h"
#include "text/sentencepiece/piece_document.h"
#include "text/sentencepiece/piece_normalizer.h"
#include "text/sentencepiece/segmenter.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

using Kind = TokenizerRule::Kind;

void check(bool condition) {
  if (!condition) std::abort();
}

TokenizerRule rule_of(Kind kind) {
  TokenizerRule rule{"Class", "type", kind};
  rule.special_tokens = class_tokens({{"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  rule.words.normalizer = TokenizerRule::WordOptions::Normalizer::kTable;
  rule.pieces = {"pieces.model", /*replaced=*/1,
                 [](const JsonView&) -> TokenizerRule::PieceFile::Tokens { return {{"<unk>"}}; },
                 [](const JsonView&) -> TokenizerRule::PieceFile::Tokens { return {{"en_XX"}}; }};
  rule.languages.fallback = "en_XX";
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

// Pieces cover the text, one behind the other.
void segment(const PieceModel& model, std::string_view text) {
  GrowthBudget budget("pieces.model", text.size());
  const std::string normal = PieceNormalizer(model).normalize(text, budget);
  check(find_invalid_utf8(normal) == std::string::npos);
  std::string joined;
  for (const std::string_view piece : make_segmenter(model)->segment(normal)) {
    check(!piece.empty());
    joined += piece;
  }
  check(joined == normal);
}

void use(const PieceModel& model, Kind kind, const std::string& text) {
  const std::vector<TokenizerRule> rules = {rule_of(kind)};
  CheckpointFiles files;
  files.config.name = "tokenizer_config.json";
  files.config.value["tokenizer_class"] = "Class";
  files.document.name = "pieces.model";
  files.document.value = piece_document(model, rules[0], files.config.view());
  const auto tokenizer = make_tokenizer(combine(std::move(files), rules));
  std::vector<int32_t> ids = tokenizer->encode(text);
  for (const int32_t id : ids) check(id >= 0 && id < tokenizer->size());
  check(tokenizer->encode_from("en_XX", text) == ids);
  tokenizer->encode_pair(text, "pair");
  ids.insert(ids.end(), {-1, 0, 1, tokenizer->size(), INT32_MAX});
  Detokenizer detokenizer(*tokenizer, false);
  std::string joined;
  for (const int32_t id : ids) joined += detokenizer.append(id);
  check(joined + detokenizer.finish() == tokenizer->decode(ids, false));
}

template <class Use>
void try_to(const Use& use) {
  try {
    use();
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  log_nothing();
  const std::string input(reinterpret_cast<const char*>(data), size);
  try_to([&] {
    const PieceModel model = parse_piece_model(input, "pieces.model");
    std::string text = " a ab  \u00E9\u5317 <x>";
    append_utf8_lossy(std::string_view(input).substr(0, 60), text);
    try_to([&] { segment(model, text); });
    try_to([&] { use(model, Kind::kUnigram, text); });
    try_to([&] { use(model, Kind::kPieceBpe, text); });
  });
  return 0;
}
