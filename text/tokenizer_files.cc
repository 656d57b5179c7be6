// tokenizer.json, or vocab.json and merges.txt, and the files beside them.
#include "text/tokenizer_files.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "text/pipeline/special_tokens.h"

namespace tandem {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A tokenizer class of HuggingFace that builds its stages itself, as byte-level BPE.
struct ByteLevelClass {
  enum class Template { kRoberta, kWhisper, kFromFile };

  const char* name;
  const char* model_type;
  bool add_prefix_space;  // unless tokenizer_config.json says otherwise
  Template post_processor;
  SpecialTokens::Defaults (*special_tokens)();
};

AddedToken plain(const std::string& content, bool lstrip = false) {
  AddedToken token;
  token.content = content;
  token.special = true;
  token.normalized = false;
  token.lstrip = lstrip;
  return token;
}

SpecialTokens::Defaults roberta_tokens() {
  return {{"bos_token", plain("<s>")},    {"eos_token", plain("</s>")},
          {"sep_token", plain("</s>")},   {"cls_token", plain("<s>")},
          {"unk_token", plain("<unk>")},  {"pad_token", plain("<pad>")},
          {"mask_token", plain("<mask>")}};
}

SpecialTokens::Defaults blenderbot_tokens() {
  SpecialTokens::Defaults tokens = roberta_tokens();
  tokens.back().second.lstrip = true;
  return tokens;
}

SpecialTokens::Defaults whisper_tokens() {
  return {{"bos_token", plain("<|endoftext|>")},
          {"eos_token", plain("<|endoftext|>")},
          {"unk_token", plain("<|endoftext|>")}};
}

using Template = ByteLevelClass::Template;
constexpr ByteLevelClass kByteLevelClasses[] = {
    {"BartTokenizer", "bart", false, Template::kRoberta, roberta_tokens},
    {"RobertaTokenizer", "roberta", false, Template::kRoberta, roberta_tokens},
    {"BlenderbotTokenizer", "blenderbot", true, Template::kFromFile, blenderbot_tokens},
    {"WhisperTokenizer", "whisper", false, Template::kWhisper, whisper_tokens},
};

OptionalFile read_optional(const fs::path& file) {
  OptionalFile out;
  out.name = file.string();
  std::error_code error;
  out.exists = fs::exists(file, error);
  if (out.exists) out.value = parse_json(read_text_file(file), out.name);
  out.view().object();  // or an error
  return out;
}

// The class that AutoTokenizer takes; empty if no file names one.
std::string class_name(const OptionalFile& tokenizer_config, const OptionalFile& config) {
  std::string name;
  for (const OptionalFile* file : {&config, &tokenizer_config})  // the latter counts
    if (const auto found = file->view().find("tokenizer_class")) name = found->string();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

const ByteLevelClass* find_class(const std::string& name, const std::string& model_type) {
  for (const ByteLevelClass& entry : kByteLevelClasses)
    if (name.empty() ? model_type == entry.model_type : name == entry.name) return &entry;
  return nullptr;
}

// The merges of merges.txt, one a line, as tokenizer.json has them.
json read_merges(const fs::path& file) {
  const std::string text = read_text_file(file);
  json merges = json::array();
  size_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("#version")) continue;
    if (std::count(line.begin(), line.end(), ' ') != 1)
      throw invalid_model(file.string(), "line " + std::to_string(line_number) +
                                             ": expected two tokens and a space between them");
    merges.push_back(std::move(line));
  }
  return merges;
}

// A document with nothing but the model.
OptionalFile read_vocabulary_and_merges(const fs::path& directory) {
  const fs::path vocabulary = directory / "vocab.json", merges = directory / "merges.txt";
  json model = {{"type", "BPE"}, {"merges", read_merges(merges)}};
  model["vocab"] = parse_json(read_text_file(vocabulary), vocabulary.string());
  OptionalFile document;
  document.name = vocabulary.string() + " and merges.txt";
  document.value["model"] = std::move(model);
  return document;
}

// Says why the directory has no tokenizer that can be read.
[[noreturn]] void fail_without_tokenizer(const fs::path& directory) {
  std::error_code error;
  for (const char* name :
       {"spiece.model", "sentencepiece.bpe.model", "source.spm", "tokenizer.model"})
    if (fs::exists(directory / name, error))
      throw not_supported((directory / name).string(),
                          "SentencePiece models are not supported; a tokenizer.json is needed");
  throw invalid_model(directory.string(),
                      "there is no tokenizer.json, nor vocab.json with merges.txt");
}

json special(const std::string& token) { return {{"SpecialToken", {{"id", token}}}}; }
json sequence(const char* id) { return {{"Sequence", {{"id", id}}}}; }

// Whether the prefix tells the language or the task; then only tokenizer.json knows it.
bool has_whisper_task(const OptionalFile& config) {
  for (const char* key : {"language", "task", "predict_timestamps"})
    if (config.view().find(key)) return true;
  return false;
}

// The stages that the class builds, whatever tokenizer.json has there.
void rebuild(const ByteLevelClass& cls, const OptionalFile& config, const SpecialTokens& tokens,
             bool has_tokenizer_json, TokenizerFiles& out) {
  json& document = out.document;
  json model = {{"type", "BPE"}};
  for (const char* key : {"vocab", "merges"})
    if (document["model"].contains(key)) model[key] = std::move(document["model"][key]);
  document["model"] = std::move(model);
  bool add_prefix_space = cls.add_prefix_space;
  if (const auto flag = config.view().find("add_prefix_space")) add_prefix_space = flag->boolean();
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", add_prefix_space}};
  document["decoder"] = {{"type", "ByteLevel"}};

  json single, pair;
  const json a = sequence("A"), b = sequence("B");
  const std::string eos = tokens.content("eos_token");
  if (cls.post_processor == Template::kRoberta) {
    const std::string bos = tokens.content("cls_token"), sep = tokens.content("sep_token");
    out.template_tokens = {bos, sep};
    single = {special(bos), a, special(sep)};
    pair = {special(bos), a, special(sep), special(sep), b, special(sep)};
  } else if (cls.post_processor == Template::kWhisper && !has_whisper_task(config)) {
    const std::string start = "<|startoftranscript|>", plain_text = "<|notimestamps|>";
    out.template_tokens = {start, plain_text, eos};
    single = {special(start), special(plain_text), a, special(eos)};
    pair = {special(start), special(plain_text), a, b, special(eos)};
  } else if (has_tokenizer_json) {
    return;
  } else {
    single = json::array({a});
    pair = {a, b};
  }
  document["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}};
}

int read_max_length(const OptionalFile& config) {
  const auto length = config.view().find("model_max_length");
  if (!length) return 0;
  if (!length->value().is_number()) length->fail("expected a number");
  const double value = length->value().get<double>();  // 1e30 stands for "not known"
  return value >= 1 && value < 1e9 ? static_cast<int>(value) : 0;
}

bool is_bpe(const JsonView& document) {
  const auto type = document.at("model").find("type");
  return !type || type->string() == "BPE";
}

}  // namespace

TokenizerFiles tokenizer_from_document(json document, const std::string& file) {
  TokenizerFiles out;
  out.document = std::move(document);
  out.file = file;
  out.added_tokens.push_back(read_added_tokens(JsonView(out.document, file)));
  return out;
}

TokenizerFiles combine(CheckpointFiles in) {
  std::string model_type;
  if (const auto type = in.model_config.view().find("model_type")) model_type = type->string();
  const std::string name = class_name(in.config, in.model_config);
  const ByteLevelClass* cls = find_class(name, model_type);
  const bool has_tokenizer_json = in.document.exists;
  if (has_tokenizer_json) {
    if (!is_bpe(in.document.view())) cls = nullptr;
  } else if (!cls) {
    if (!name.empty())
      throw not_supported(in.config.name,
                          "tokenizer_class: " + printable(name) + " without a tokenizer.json");
    cls = &kByteLevelClasses[0];
  }

  TokenizerFiles out;
  const SpecialTokens tokens(in.config, in.special_tokens_map, in.added_tokens, in.document.view(),
                             cls ? cls->special_tokens() : SpecialTokens::Defaults{});
  std::vector<AddedToken> present;
  if (!cls) present = read_added_tokens(in.document.view());
  out.added_tokens = {present, tokens.to_add(present)};
  out.document = std::move(in.document.value);
  out.file = in.document.name;
  if (cls) rebuild(*cls, in.config, tokens, has_tokenizer_json, out);
  out.model_max_length = read_max_length(in.config);
  if (const auto flag = in.config.view().find("split_special_tokens"))
    out.split_special_tokens = flag->boolean();
  return out;
}

TokenizerFiles read_tokenizer_files(const fs::path& directory) {
  CheckpointFiles files;
  files.config = read_optional(directory / "tokenizer_config.json");
  files.special_tokens_map = read_optional(directory / "special_tokens_map.json");
  files.added_tokens = read_optional(directory / "added_tokens.json");
  files.model_config = read_optional(directory / "config.json");
  files.document = read_optional(directory / "tokenizer.json");
  std::error_code error;
  if (!files.document.exists) {
    if (!fs::exists(directory / "vocab.json", error) ||
        !fs::exists(directory / "merges.txt", error))
      fail_without_tokenizer(directory);
    files.document = read_vocabulary_and_merges(directory);
  }
  return combine(std::move(files));
}

}  // namespace tandem
