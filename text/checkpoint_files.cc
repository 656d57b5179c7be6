#include "text/checkpoint_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/python/python_files.h"
#include "text/sentencepiece/piece_document.h"

namespace tandem {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

OptionalFile read_optional(const fs::path& file) {
  OptionalFile out;
  out.name = file.string();
  std::error_code error;
  out.exists = fs::exists(file, error);
  if (out.exists) out.value = parse_python_json(read_text_file(file), out.name);
  out.view().object();  // or an error
  return out;
}

const TokenizerRule* find_rule(std::span<const TokenizerRule> rules, const std::string& name,
                               const std::string& model_type) {
  for (const TokenizerRule& rule : rules)
    if (name.empty() ? !model_type.empty() && model_type == rule.model_type
                     : name == rule.class_name)
      return &rule;
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

// The same of lines that may have a third column. What no line's end follows is no line.
json read_counted_merges(const fs::path& file) {
  const std::string text = read_text_file(file);
  json merges = json::array();
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    std::istringstream line(text.substr(at, end - at));
    std::string left, right;
    if (!(line >> left >> right))
      throw invalid_model(file.string(), "line " + std::to_string(merges.size() + 1) +
                                             ": expected two tokens, and their count or nothing");
    merges.push_back(left + " " + right);
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

// One token a line; of two lines with one token the last one counts, as in HuggingFace.
OptionalFile read_word_pieces(const fs::path& file) {
  const std::string text = read_text_file(file);
  json vocabulary = json::object();
  int32_t id = 0;
  for (size_t at = 0; at < text.size(); ++id) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    vocabulary[std::move(line)] = id;
  }
  OptionalFile document;
  document.name = file.string();
  document.value["model"] = {{"type", "WordPiece"}, {"vocab", std::move(vocabulary)}};
  return document;
}

OptionalFile read_pieces(const fs::path& file, const TokenizerRule& rule,
                         const OptionalFile& config) {
  OptionalFile document;
  document.name = file.string();
  document.value = piece_document(read_piece_model(file), rule, config.view());
  return document;
}

// Says why the directory has no tokenizer that can be read.
[[noreturn]] void fail_without_tokenizer(const fs::path& directory) {
  std::error_code error;
  for (const char* name :
       {"spiece.model", "sentencepiece.bpe.model", "source.spm", "tokenizer.model"})
    if (fs::exists(directory / name, error))
      throw not_supported((directory / name).string(),
                          "SentencePiece models of this class are not supported; a "
                          "tokenizer.json is needed");
  throw invalid_model(directory.string(),
                      "there is no tokenizer.json, nor vocab.json with merges.txt");
}

// With the order of its names.
OptionalFile read_named(const fs::path& file) {
  OptionalFile out = read_optional(file);
  if (!out.exists) return out;
  const auto ordered = json_from<nlohmann::ordered_json>(read_text_file(file));
  for (const auto& entry : ordered.items()) out.names.push_back(entry.key());
  const auto extra = ordered.find("extra_special_tokens");
  if (extra != ordered.end() && extra->is_object())
    for (const auto& entry : extra->items()) out.names.push_back(entry.key());
  return out;
}

// The added tokens of tokenizer.json.
OptionalFile read_listed(const fs::path& file) {
  OptionalFile out = read_optional(file);
  json list = out.value.contains("added_tokens") ? out.value["added_tokens"] : json::array();
  out.value = {{"added_tokens", std::move(list)}};
  return out;
}

OptionalFile read_json(const fs::path& file) {
  return {parse_json(read_text_file(file), file.string()), file.string(), /*exists=*/true};
}

void read_sentencepiece(const fs::path& directory, const TokenizerRule& rule,
                        CheckpointFiles& files) {
  const TokenizerRule::SentencePieceOptions& options = rule.sentencepiece;
  files.source = read_piece_model(directory / options.source);
  if (options.vocabulary != nullptr) {
    files.vocabulary.name = files.source.file;
    files.vocabulary.value = options.vocabulary(files.source, files.config.view());
  } else {
    files.vocabulary = read_json(directory / "vocab.json");
  }
  if (is_set(files.config, options.target_flag))
    files.target_vocabulary = read_json(directory / options.target_vocabulary);
  files.target = options.target == options.source ? files.source
                                                  : read_piece_model(directory / options.target);
}

void read_moses(const fs::path& directory, CheckpointFiles& files) {
  files.vocabulary = read_json(directory / "vocab-src.json");
  files.target_vocabulary = read_json(directory / "vocab-tgt.json");
  files.merges = read_counted_merges(directory / "merges.txt");
}

// In place of tokenizer.json.
OptionalFile read_other_files(const fs::path& directory, const TokenizerRule* rule,
                              const OptionalFile& config) {
  std::error_code error;
  const auto exists = [&](const std::string& name) { return fs::exists(directory / name, error); };
  if (rule != nullptr && rule->kind == TokenizerRule::Kind::kWordPiece) {
    const std::string words = rule->pieces.name.empty() ? "vocab.txt" : rule->pieces.name;
    if (exists(words)) return read_word_pieces(directory / words);
  }
  if (rule != nullptr && !rule->pieces.name.empty() && exists(rule->pieces.name))
    return read_pieces(directory / rule->pieces.name, *rule, config);
  if (!exists("vocab.json") || !exists("merges.txt")) fail_without_tokenizer(directory);
  return read_vocabulary_and_merges(directory);
}

}  // namespace

std::string class_name(const CheckpointFiles& files) {
  std::string name;
  for (const OptionalFile* file : {&files.model_config, &files.config})  // the latter counts
    if (const auto found = file->view().find("tokenizer_class")) name = found->string();
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

const TokenizerRule* rule_of(const CheckpointFiles& files, std::span<const TokenizerRule> rules) {
  std::string model_type;
  if (const auto type = files.model_config.view().find("model_type")) model_type = type->string();
  return find_rule(rules, class_name(files), model_type);
}

bool is_set(const OptionalFile& config, const std::string& flag) {
  const auto value = flag.empty() ? std::nullopt : config.view().find(flag);
  return value && value->boolean();
}

CheckpointFiles read_checkpoint_files(const fs::path& directory,
                                      std::span<const TokenizerRule> rules) {
  CheckpointFiles files;
  files.config = read_named(directory / "tokenizer_config.json");
  files.special_tokens_map = read_named(directory / "special_tokens_map.json");
  files.added_tokens = read_optional(directory / "added_tokens.json");
  files.model_config = read_optional(directory / "config.json");
  const TokenizerRule* rule = rule_of(files, rules);
  const auto is = [&](TokenizerRule::Kind kind) { return rule != nullptr && rule->kind == kind; };
  if (rule != nullptr && runs_in_python(rule->kind))
    files.listed = read_listed(directory / "tokenizer.json");
  if (is(TokenizerRule::Kind::kSentencePiece)) {
    read_sentencepiece(directory, *rule, files);
  } else if (is(TokenizerRule::Kind::kMosesBpe)) {
    read_moses(directory, files);
  } else if (!is(TokenizerRule::Kind::kBytes)) {
    if (!is(TokenizerRule::Kind::kSubwordBpe))
      files.document = read_optional(directory / "tokenizer.json");
    if (!files.document.exists) files.document = read_other_files(directory, rule, files.config);
  }
  return files;
}

}  // namespace tandem
