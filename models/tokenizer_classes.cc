// Tokenizer classes of HuggingFace that belong to no family here: checkpoints of several families
// name them (mBART as IndicBART has it: AlbertTokenizer). Each builds its stages anew, whatever a
// tokenizer.json says.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"
#include "models/word_pieces.h"

namespace tandem {
namespace {

using nlohmann::json;
using Input = TokenizerRule::StageInput;
using Kind = TokenizerRule::Kind;
using WithoutTable = TokenizerRule::WordOptions::WithoutTable;

constexpr const char* kSpace = "\u2581";

bool flag(const Input& in, const char* key, bool otherwise) {
  const auto value = in.config.find(key);
  return value ? value->boolean() : otherwise;
}

json replaced(const char* kind, const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}
json stripped(bool left, bool right) {
  return {{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}};
}
json normalizers(json steps) { return {{"type", "Sequence"}, {"normalizers", std::move(steps)}}; }
json metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", scheme}};
}

// Words that begin with SentencePiece's symbol. `parts`: what parts the text before.
void set_words(json& document, const char* scheme, json parts) {
  parts.push_back(metaspace(scheme));
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(parts)}};
  document["decoder"] = metaspace(scheme);
}
json at_white_space() { return json::array({{{"type", "WhitespaceSplit"}}}); }

void set_unigram(json& document, int32_t unknown) {
  json vocabulary = std::move(document["model"]["vocab"]);
  document["model"] = {{"type", "Unigram"}, {"vocab", std::move(vocabulary)}, {"unk_id", unknown}};
}

// The token's id. with_score_0: if its score is that.
int32_t id_of(const json& document, const std::string& token, bool with_score_0,
              int32_t otherwise) {
  const json& vocabulary = document["model"]["vocab"];
  for (size_t id = 0; id < vocabulary.size(); ++id) {
    const json& entry = vocabulary[id];
    if (entry.is_array() && entry.size() == 2 && entry[0] == token &&
        (!with_score_0 || entry[1] == 0.0))
      return static_cast<int32_t>(id);
  }
  return otherwise;
}

const char* scheme_of(const Input& in) {
  return flag(in, "add_prefix_space", true) ? "always" : "never";
}

json with_quotes_replaced() {
  return json::array({replaced("String", "``", "\""), replaced("String", "''", "\"")});
}

void albert(const Input& in, json& document) {
  json steps = with_quotes_replaced();
  if (!flag(in, "keep_accents", false)) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back({{"type", "StripAccents"}});
  }
  if (flag(in, "do_lower_case", true)) steps.push_back({{"type", "Lowercase"}});
  if (!in.table.is_null()) steps.push_back(in.table);
  document["normalizer"] = normalizers(std::move(steps));
  set_unigram(document, 1);
  set_words(document, scheme_of(in), at_white_space());
}

json one_line() {
  return json::array({replaced("Regex", "\\s{2,}|[\\n\\r\\t]", " "),
                      {{"type", "NFC"}},
                      stripped(/*left=*/false, /*right=*/true)});
}

void barthez(const Input& in, json& document) {
  document["normalizer"] = normalizers(one_line());
  set_unigram(document, 3);
  set_words(document, scheme_of(in), json::array());
}

void big_bird(const Input& in, json& document) {
  document["normalizer"] =
      normalizers(json::array({stripped(false, false), replaced("Regex", " {2,}", kSpace)}));
  set_unigram(document, id_of(document, in.token("unk_token"), /*with_score_0=*/true, 100));
  set_words(document, scheme_of(in), json::array());
}

void camembert(const Input& in, json& document) {
  document["normalizer"] = in.table;
  set_unigram(document, id_of(document, in.token("unk_token"), /*with_score_0=*/false, 0));
  set_words(document, scheme_of(in), at_white_space());
}

void deberta_v2(const Input& in, json& document) {
  json steps = json::array();
  if (flag(in, "do_lower_case", false)) steps.push_back({{"type", "Lowercase"}});
  for (json& step : one_line()) steps.push_back(std::move(step));
  document["normalizer"] = normalizers(std::move(steps));
  const auto named = in.config.find("unk_id");
  set_unigram(document, id_of(document, in.token("unk_token"), /*with_score_0=*/true,
                              named ? named->id() : 1));
  json parts = json::array();
  if (flag(in, "split_by_punct", false))
    parts.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  set_words(document, flag(in, "add_prefix_space", true) ? "always" : "first", std::move(parts));
}

void rembert(const Input& in, json& document) {
  json steps = with_quotes_replaced();
  steps.push_back(replaced("Regex", " {2,}", " "));
  if (!flag(in, "keep_accents", true)) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back({{"type", "StripAccents"}});
  }
  if (flag(in, "do_lower_case", false)) steps.push_back({{"type", "Lowercase"}});
  if (!in.table.is_null()) steps.push_back(in.table);
  document["normalizer"] = normalizers(std::move(steps));
  set_unigram(document, 2);
  set_words(document, scheme_of(in), json::array());
}

void udop(const Input& in, json& document) {
  document["normalizer"] = nullptr;
  set_unigram(document, id_of(document, in.token("unk_token"), /*with_score_0=*/false, 2));
  set_words(document, "always", at_white_space());
}

void xlnet(const Input& in, json& document) {
  json steps = with_quotes_replaced();
  steps.push_back({{"type", "NFKD"}});
  steps.push_back({{"type", "StripAccents"}});
  if (flag(in, "do_lower_case", false)) steps.push_back({{"type", "Lowercase"}});
  if (!in.table.is_null()) steps.push_back(in.table);
  document["normalizer"] = normalizers(std::move(steps));
  const auto named = in.config.find("unk_id");
  set_unigram(document, named ? named->id() : 0);
  set_words(document, "always", at_white_space());
}

void llama(const Input& in, json& document) {
  json model = std::move(document["model"]);
  document["model"] = {{"type", "BPE"},
                       {"vocab", std::move(model["vocab"])},
                       {"merges", std::move(model["merges"])},
                       {"fuse_unk", true},
                       {"byte_fallback", true}};
  const bool prefix = flag(in, "add_prefix_space", true);
  const char* scheme = !prefix ? "never" : flag(in, "legacy", false) ? "always" : "first";
  json words = metaspace(scheme);
  words["split"] = false;
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = std::move(words);
  json steps = json::array(
      {replaced("String", kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  document["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

using Names = std::initializer_list<std::pair<const char*, const char*>>;

TokenizerRule rule_of(const std::string& class_name, const char* model_type, Kind kind,
                      void (*stages)(const Input&, json&), Names names, const char* pieces = "") {
  TokenizerRule rule{class_name, model_type, kind};
  rule.stages = stages;
  rule.special_tokens = class_tokens(names);
  rule.pieces.name = pieces;
  return rule;
}

// [CLS] text [SEP] second [SEP]
TokenizerRule classified(TokenizerRule rule) {
  rule.single = {"cls_token", "$A", "sep_token"};
  rule.pair = {"cls_token", "$A", "sep_token", "$B", "sep_token"};
  return rule;
}

// Settings that the class gives its tokens where a file has no more than their names.
TokenizerRule with_settings(TokenizerRule rule, const std::string& key, bool lstrip,
                            bool normalized) {
  for (auto& [name, token] : rule.special_tokens)
    if (name == key) {
      token.lstrip = lstrip;
      token.normalized = normalized;
    }
  return rule;
}

const Names kFairseqNames = {
    {"bos_token", "<s>"},   {"eos_token", "</s>"},  {"sep_token", "</s>"},   {"cls_token", "<s>"},
    {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
const Names kAlbertNames = {{"bos_token", "[CLS]"},  {"eos_token", "[SEP]"}, {"unk_token", "<unk>"},
                            {"sep_token", "[SEP]"},  {"pad_token", "<pad>"}, {"cls_token", "[CLS]"},
                            {"mask_token", "[MASK]"}};
const Names kBertNames = {{"unk_token", "[UNK]"},
                          {"sep_token", "[SEP]"},
                          {"pad_token", "[PAD]"},
                          {"cls_token", "[CLS]"},
                          {"mask_token", "[MASK]"}};

TokenizerRule albert_rule() {
  TokenizerRule rule = classified(
      rule_of("AlbertTokenizer", "albert", Kind::kUnigram, albert, kAlbertNames, "spiece.model"));
  rule.file_template = true;
  return rule;
}

TokenizerRule big_bird_rule() {
  TokenizerRule rule = classified(rule_of("BigBirdTokenizer", "big_bird", Kind::kUnigram, big_bird,
                                          {{"bos_token", "<s>"},
                                           {"eos_token", "</s>"},
                                           {"unk_token", "<unk>"},
                                           {"sep_token", "[SEP]"},
                                           {"pad_token", "<pad>"},
                                           {"cls_token", "[CLS]"},
                                           {"mask_token", "[MASK]"}},
                                          "spiece.model"));
  for (auto& [name, token] : rule.special_tokens) token.normalized = true;
  return with_settings(std::move(rule), "mask_token", /*lstrip=*/true, /*normalized=*/true);
}

TokenizerRule camembert_rule() {
  TokenizerRule rule =
      rule_of("CamembertTokenizer", "camembert", Kind::kUnigram, camembert, kFairseqNames);
  rule.pieces = {"sentencepiece.bpe.model", /*replaced=*/1,
                 [](const JsonView& config) -> TokenizerRule::PieceFile::Tokens {
                   return {{"<s>NOTUSED"},
                           {token_of(config, "pad_token", "<pad>")},
                           {"</s>NOTUSED"},
                           {token_of(config, "unk_token", "<unk>")},
                           {"<unk>NOTUSED", -100.0}};
                 },
                 [](const JsonView& config) { return tokens_and_mask({}, config); }};
  rule.extra_tokens = [](const JsonView&) -> std::vector<std::string> {
    return {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"};
  };
  rule.single = {"bos_token", "$A", "eos_token"};
  rule.pair = {"bos_token", "$A", "eos_token", "eos_token", "$B", "eos_token"};
  return with_settings(std::move(rule), "mask_token", /*lstrip=*/true, /*normalized=*/false);
}

TokenizerRule xlnet_rule() {
  TokenizerRule rule = rule_of("XLNetTokenizer", "xlnet", Kind::kUnigram, xlnet,
                               {{"bos_token", "<s>"},
                                {"eos_token", "</s>"},
                                {"unk_token", "<unk>"},
                                {"sep_token", "<sep>"},
                                {"pad_token", "<pad>"},
                                {"cls_token", "<cls>"},
                                {"mask_token", "<mask>"}},
                               "spiece.model");
  rule.extra_tokens = [](const JsonView&) -> std::vector<std::string> {
    return {"<eop>", "<eod>"};
  };
  rule.single = {"$A", "sep_token", "cls_token"};
  rule.pair = {"$A", "sep_token", "$B", "sep_token", "cls_token"};
  return with_settings(std::move(rule), "mask_token", /*lstrip=*/true, /*normalized=*/true);
}

TokenizerRule xglm_rule() {
  TokenizerRule rule{"XGLMTokenizer", "xglm", Kind::kUnigram};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces,
                /*split_whitespace=*/false};
  rule.words.prefix_option = true;
  rule.special_tokens = fairseq_tokens();
  rule.special_tokens.pop_back();  // no <mask>
  rule.extra_tokens = [](const JsonView&) {
    std::vector<std::string> out;
    for (int i = 0; i < 7; ++i) out.push_back("<madeupword" + std::to_string(i) + ">");
    return out;
  };
  rule.single = {"eos_token", "$A"};
  rule.pair = {"eos_token", "$A", "eos_token", "eos_token", "$B"};
  return rule;
}

TokenizerRule udop_rule() {
  TokenizerRule rule = rule_of("UdopTokenizer", "udop", Kind::kUnigram, udop,
                               {{"eos_token", "</s>"},
                                {"sep_token", "</s>"},
                                {"unk_token", "<unk>"},
                                {"pad_token", "<pad>"}},
                               "spiece.model");
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "eos_token", "$B", "eos_token"};
  return rule;
}

TokenizerRule reformer_rule() {
  TokenizerRule rule{"ReformerTokenizer", "reformer", Kind::kPieceBpe};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces,
                /*split_whitespace=*/false, WithoutTable::kNothing};
  rule.pieces.name = "spiece.model";
  rule.special_tokens = class_tokens({{"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  return rule;
}

TokenizerRule llama_rule() {
  TokenizerRule rule = rule_of(
      "LlamaTokenizer", "llama", Kind::kTextBpe, llama,
      {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}, "tokenizer.model");
  rule.but_byte_level = true;
  return rule;
}

TokenizerRule gpt2(const char* class_name, const char* model_type) {
  TokenizerRule rule{class_name, model_type};
  rule.special_tokens = class_tokens({{"bos_token", "<|endoftext|>"},
                                      {"eos_token", "<|endoftext|>"},
                                      {"unk_token", "<|endoftext|>"}});
  return rule;
}

std::vector<TokenizerRule> rules() {
  std::vector<TokenizerRule> out = {
      albert_rule(),
      with_settings(rule_of("BarthezTokenizer", "barthez", Kind::kUnigram, barthez, kFairseqNames,
                            "sentencepiece.bpe.model"),
                    "mask_token", /*lstrip=*/true, /*normalized=*/true),
      big_bird_rule(),
      camembert_rule(),
      classified(rule_of("DebertaV2Tokenizer", "deberta-v2", Kind::kUnigram, deberta_v2,
                         {{"bos_token", "[CLS]"},
                          {"eos_token", "[SEP]"},
                          {"unk_token", "[UNK]"},
                          {"sep_token", "[SEP]"},
                          {"pad_token", "[PAD]"},
                          {"cls_token", "[CLS]"},
                          {"mask_token", "[MASK]"}},
                         "spm.model")),
      classified(rule_of("RemBertTokenizer", "rembert", Kind::kUnigram, rembert, kAlbertNames,
                         "sentencepiece.model")),
      xlnet_rule(),
      xglm_rule(),
      udop_rule(),
      reformer_rule(),
      llama_rule(),
      gpt2("GPT2Tokenizer", "gpt2"),
      gpt2("CodeGenTokenizer", "codegen")};
  for (const char* name : {"Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "ConvBert",
                           "Lxmert", "DPRQuestionEncoder", "DPRContextEncoder"})
    out.push_back(classified(rule_of(std::string(name) + "Tokenizer",
                                     name == std::string("Bert") ? "bert" : "", Kind::kWordPiece,
                                     bert_words, kBertNames)));
  return out;
}

}  // namespace

ModelFamily tokenizer_classes_family() {
  ModelFamily family;
  family.model_type = "of tokenizers only";
  family.tokenizers = rules();
  return family;
}

}  // namespace tandem
