// PLBart (Ahmad et al. 2021; HuggingFace PLBartForConditionalGeneration): BART with scaled
// embeddings.
#include <string>
#include <vector>

#include "base/strings/printable.h"
#include "models/blocks/fairseq_model.h"
#include "models/family.h"
#include "text/sentencepiece/piece_model.h"

namespace tandem {
namespace plbart {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPost, /*embedding_norm=*/true, kPositionOffset,
                            TokenTables::Order::kHeadEncoderDecoder);
}

constexpr EncoderDecoderDefaults kDefaults{.vocab_size = 50005,
                                           .d_model = 768,
                                           .encoder_layers = 6,
                                           .decoder_layers = 6,
                                           .encoder_attention_heads = 12,
                                           .decoder_attention_heads = 12,
                                           .encoder_ffn_dim = 3072,
                                           .decoder_ffn_dim = 3072,
                                           .max_position_embeddings = 1024,
                                           .activation = "gelu",
                                           .scale_embedding = true};

bool is_multi(const JsonView& config) {
  const auto codes = config.find("language_codes");
  if (!codes || codes->string() == "base") return false;
  if (codes->string() != "multi")
    codes->fail("is " + in_quotes(codes->string()) + ", expected \"base\" or \"multi\"");
  return true;
}

// The tokens of languages, in the order of their ids.
std::vector<std::string> languages(const JsonView& config) {
  std::vector<std::string> out = {"__java__", "__python__", "__en_XX__"};
  if (is_multi(config))
    for (const char* token : {"__javascript__", "__php__", "__ruby__", "__go__"})
      out.push_back(token);
  return out;
}

// fairseq's: its own special tokens, the pieces behind them, then languages and <mask>.
nlohmann::json vocabulary(const PieceModel& pieces, const JsonView& config) {
  nlohmann::json ids = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}};
  for (size_t i = 1; i < pieces.pieces.size(); ++i) ids.emplace(pieces.pieces[i].text, i + 1);
  size_t next = pieces.pieces.size() + 1;
  for (const std::string& token : languages(config)) ids[token] = next++;
  if (!is_multi(config)) ids["<mask>"] = next;
  return ids;
}

std::vector<std::string> reserved(const JsonView& config) {
  std::vector<std::string> out = languages(config);
  for (const char* token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) out.push_back(token);
  return out;
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"PLBartTokenizer", "plbart", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.source = rule.sentencepiece.target = "sentencepiece.bpe.model";
  rule.sentencepiece.vocabulary = vocabulary;
  rule.sentencepiece.loses_spaces = false;
  rule.sentencepiece.tidies = true;
  rule.sentencepiece.numbers_pieces = true;
  rule.languages = {"__", "__", "", TokenizerRule::Languages::Target::kDecoderStart};
  rule.languages.fallback_of = [](const JsonView& config) -> std::string {
    return is_multi(config) ? "en_XX" : "";
  };
  rule.special_tokens = fairseq_tokens();
  rule.extra_tokens = languages;
  rule.languages.only_own = true;
  rule.reserved_tokens = reserved;
  rule.single = {"$A", "eos_token", "$source"};
  rule.pair = {"$A", "$B", "eos_token", "$source"};
  return rule;
}

}  // namespace plbart

ModelFamily plbart_family() {
  using namespace plbart;
  return {.model_type = "plbart",
          .architectures = {"PLBartForConditionalGeneration", "PLBartModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
