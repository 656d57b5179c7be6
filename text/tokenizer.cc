// The pipeline of a tokenizer: its stages, and how text and ids go through them.
#include "text/tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/languages.h"
#include "text/pair_cut.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/models/subword_bpe.h"
#include "text/pipeline/text_pipeline.h"
#include "text/pipeline/text_splitter.h"
#include "text/python/python_files.h"
#include "text/python/python_tokens.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

// A component that may be null or absent.
template <class Component>
std::unique_ptr<Component> make_optional(const JsonView& document, const char* key,
                                         std::unique_ptr<Component> (*make)(const JsonView&)) {
  const auto json = document.find(key);
  return json ? make(*json) : nullptr;
}

class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerFiles files);

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
  std::vector<int32_t> encode_from(const std::string& source_language, std::string_view text,
                                   bool add_special) const override;
  const LanguageSet& languages() const override { return languages_; }
  std::vector<int32_t> encode_pair(std::string_view text, std::string_view second, bool add_special,
                                   const PairCut& cut) const override;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special) const override;
  std::optional<std::string> id_to_token(int32_t id) const override {
    const auto text = token(id);
    return text ? std::optional<std::string>(*text) : std::nullopt;
  }
  std::string token_bytes(int32_t id) const override;
  std::string inner_text(int32_t id) const override;
  std::unique_ptr<TokenStream> token_stream() const override { return decoder_->stream(); }
  std::string_view token_text(int32_t id) const override { return decoded_token(id); }
  std::optional<char> byte_of(int32_t id) const override;
  bool is_special(int32_t id) const override;
  bool stands_apart(int32_t id) const override;
  bool is_added(int32_t id) const override {
    return python_ ? python_->text(id).has_value() : splitter_.added().text(id).has_value();
  }
  bool trims_spaces() const override { return decoder_->trims_spaces(); }
  bool loses_space(int32_t id) const override;
  bool spaces_special() const override { return decoder_->spaces_special(); }
  bool tidies() const override { return tidies_; }
  bool drops_invalid() const override { return decoder_->drops_invalid(); }
  bool leaves_out(int32_t id) const override {
    return !left_out_.empty() && id >= 0 && id < size() && left_out_[static_cast<size_t>(id)];
  }
  std::string_view ending(int32_t id) const override;
  int32_t size() const override { return static_cast<int32_t>(special_.size()); }
  std::optional<int32_t> token_to_id(std::string_view token) const override;
  int num_suffix_tokens() const override;
  int model_max_length() const override { return model_max_length_; }

 private:
  void add_tokens(const TokenizerFiles& files);
  void add_python_tokens(const TokenizerFiles& files);
  void resolve_template(TokenizerFiles& files) const;
  int32_t template_id(const TokenizerFiles& files, const std::string& name) const;
  void check_special_ids(const JsonView& document) const;
  void find_languages(const TokenizerFiles& files);
  std::optional<std::string_view> token(int32_t id) const;
  std::string_view decoded_token(int32_t id) const;
  std::vector<int32_t> encode_text(std::string_view text) const;

  std::string file_;
  TextSplitter splitter_;
  std::unique_ptr<PythonTokens> python_;  // instead of added tokens, where it is not null
  // Of languages that have ids of their own: by token, and by id.
  std::unordered_map<std::string, int32_t> language_ids_;
  std::unordered_map<int32_t, std::string> language_tokens_;
  std::string outside_;  // what ids without a token are decoded to
  std::unique_ptr<TokenModel> model_;
  std::unique_ptr<PostProcessor> post_processor_;  // may be null
  std::unique_ptr<Decoder> decoder_;
  std::vector<bool> special_;   // by id
  std::vector<bool> left_out_;  // the same; empty: none is
  LanguageSet languages_;
  std::optional<int32_t> source_;  // what the template has for the source's language
  bool source_first_;              // or would have: before the text, else behind it
  int model_max_length_;
  bool tidies_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerFiles files)
    : file_(files.file),
      outside_(files.outside),
      source_first_(files.source_first),
      model_max_length_(files.model_max_length),
      tidies_(files.tidies) {
  const JsonView document(files.document, files.file);
  if (const auto version = document.find("version"); version && version->string() != "1.0")
    version->fail_unsupported("version " + version->string() + " is not supported");
  splitter_ = {make_optional(document, "normalizer", make_normalizer),
               make_optional(document, "pre_tokenizer", make_pre_tokenizer)};
  if (files.sentencepiece) {
    model_ = make_sentencepiece_model(*files.sentencepiece, files.file);
    decoder_ = make_sentencepiece_decoder(*files.sentencepiece);
  } else if (files.moses) {
    model_ = make_moses_model(*files.moses, files.file);
    decoder_ = make_moses_decoder(*files.moses);
  } else if (!files.subword_unknown.empty()) {
    model_ = make_subword_model(document.at("model"), files.subword_unknown);
    decoder_ = make_subword_decoder();
  } else {
    model_ = make_token_model(document.at("model"));
    decoder_ = make_optional(document, "decoder", make_decoder);
  }
  if (!decoder_) decoder_ = make_joining_decoder();
  files.python ? add_python_tokens(files) : add_tokens(files);
  resolve_template(files);
  post_processor_ = make_optional(document, "post_processor", make_post_processor);
  int32_t last =
      std::max(model_->max_id(), python_ ? python_->max_id() : splitter_.added().max_id());
  for (const auto& [id, text] : language_tokens_) last = std::max(last, id);
  special_.resize(static_cast<size_t>(last + 1));
  for (int32_t id = 0; id < size(); ++id) {
    const auto text = token(id);
    special_[static_cast<size_t>(id)] =
        python_ ? python_->skips(id) : text && splitter_.added().is_special(*text);
    if (files.left_out != nullptr) left_out_.push_back(text && files.left_out(*text));
  }
  if (!files.source_token.empty()) source_ = template_id(files, files.source_token);
  find_languages(files);
  check_special_ids(document);
}

void PipelineTokenizer::add_tokens(const TokenizerFiles& files) {
  AddedTokens& added = splitter_.added();
  for (const auto& group : files.added_tokens)
    added.add(group, *model_, splitter_.normalizer(), files.file);
  if (files.split_special_tokens) added.ignore_special_in_text();
  // The library numbers tokens itself, whatever the file says.
  const auto list = JsonView(files.document, files.file).find("added_tokens");
  size_t renumbered = 0;
  for (size_t i = 0, n = list ? list->size() : 0; i < n; ++i) {
    const JsonView entry = list->at(i);
    const auto id = added.find(entry.at("content").string());
    if (!id || *id == entry.at("id").id()) continue;
    if (renumbered++ == 0)
      log_warning("{}: added token {} has id {}, not {}", files.file,
                  json_text(entry.at("content").value()), *id, entry.at("id").id());
  }
  if (renumbered > 1)
    log_warning("{}: so have {} others another id than it says", files.file, renumbered - 1);
}

void PipelineTokenizer::add_python_tokens(const TokenizerFiles& files) {
  const TokenModel& model = *model_;
  PythonVocabulary vocabulary;
  vocabulary.size = model.num_tokens();
  vocabulary.find = [&](std::string_view content) { return model.token_to_id(content); };
  if (files.sentencepiece && files.sentencepiece->options.numbers_pieces)
    vocabulary = vocabulary_of_pieces(files, model);
  python_ = std::make_unique<PythonTokens>(*files.python, vocabulary);
  if (files.split_special_tokens) python_->ignore_in_text();
  int32_t next = model.num_tokens();
  for (const std::string& language : files.language_tokens) {
    language_ids_.emplace(language, next);
    language_tokens_.emplace(next++, language);
  }
}

// HuggingFace's classes take the unknown token for a language that the vocabulary lacks.
int32_t PipelineTokenizer::template_id(const TokenizerFiles& files, const std::string& name) const {
  const bool is_language = name == files.source_token;
  if (is_language && !language_ids_.empty()) {
    const auto language = language_ids_.find(name);
    if (language != language_ids_.end()) return language->second;
  } else if (const auto id = token_to_id(name)) {
    return *id;
  } else if (const auto unknown = token_to_id(files.unknown_token);
             is_language && unknown && !files.unknown_token.empty()) {
    log_warning(
        "{}: {} is not in the vocabulary; texts have {} for their language, as in HuggingFace",
        files.file, printable(name), printable(files.unknown_token));
    return *unknown;
  }
  throw invalid_model(files.file, in_quotes(name) + " is not in the vocabulary");
}

void PipelineTokenizer::resolve_template(TokenizerFiles& files) const {
  for (const std::string& name : files.template_tokens)
    files.document["post_processor"]["special_tokens"][name]["ids"] = {template_id(files, name)};
}

void PipelineTokenizer::check_special_ids(const JsonView& document) const {
  if (!post_processor_) return;
  for (const auto& ids :
       {post_processor_->process({}, true), post_processor_->process_pair({}, {}, true)})
    for (const int32_t id : ids)
      if (!token(id))
        document.at("post_processor")
            .fail("token id " + std::to_string(id) + " is not in the vocabulary");
}

// Where names stand without marks, all tokens of that shape count: HuggingFace's classes know their
// languages, whatever the files list as special.
void PipelineTokenizer::find_languages(const TokenizerFiles& files) {
  using Target = TokenizerRule::Languages::Target;
  const TokenizerRule::Languages& rule = files.languages;
  if (rule.target == Target::kNone) return;
  std::map<std::string, int32_t> tokens(language_ids_.begin(), language_ids_.end());
  for (int32_t id = 0; language_ids_.empty() && id < size(); ++id) {
    const auto text = token(id);
    if (!text || !has_shape_of_language(rule, *text) || token_to_id(*text) != id) continue;
    if (rule.before.empty() || is_special(id) || rule.target == Target::kSourcePrefix)
      tokens.emplace(*text, id);
  }
  languages_ =
      LanguageSet(rule, tokens, files.source_first || files.source_last, files.source_token);
}

std::vector<int32_t> PipelineTokenizer::encode_text(std::string_view text) const {
  check_utf8(text, "text");
  std::vector<int32_t> ids;
  GrowthBudget budget(file_, text.size());
  const std::unique_ptr<WordEncoder> encoder = model_->word_encoder(budget);
  const TextSplitter::Sink sink{[&](std::string_view word) { encoder->encode(word, ids); },
                                [&](int32_t id) { ids.push_back(id); }};
  const auto words = [&](std::string_view part) {
    splitter_.split_words(part, false, budget, sink);
  };
  python_ ? python_->split(text, {words, sink.token}) : splitter_.split(text, budget, sink);
  return ids;
}

std::vector<int32_t> PipelineTokenizer::encode(std::string_view text, bool add_special) const {
  std::vector<int32_t> ids = encode_text(text);
  return post_processor_ ? post_processor_->process(std::move(ids), add_special) : ids;
}

std::vector<int32_t> PipelineTokenizer::encode_from(const std::string& source_language,
                                                    std::string_view text, bool add_special) const {
  const int32_t source = languages_.id_of(source_language, "src_lang");
  std::vector<int32_t> ids = encode(text, add_special);
  if (!add_special) return ids;
  if (!source_) {
    ids.insert(source_first_ ? ids.begin() : ids.end(), source);
    return ids;
  }
  // The language stands before or behind the text.
  const size_t suffix = static_cast<size_t>(num_suffix_tokens());
  const size_t prefix = post_processor_->process({}, true).size() - suffix;
  std::replace(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(prefix), *source_, source);
  std::replace(ids.end() - static_cast<ptrdiff_t>(suffix), ids.end(), *source_, source);
  return ids;
}

std::vector<int32_t> PipelineTokenizer::encode_pair(std::string_view text, std::string_view second,
                                                    bool add_special, const PairCut& cut) const {
  const auto process = [&](std::vector<int32_t> ids, std::vector<int32_t> more) {
    if (post_processor_ && (python_ != nullptr || !second.empty() || !cut.empty_is_none))
      return post_processor_->process_pair(std::move(ids), std::move(more), add_special);
    ids.insert(ids.end(), more.begin(), more.end());
    return post_processor_ ? post_processor_->process(std::move(ids), add_special) : ids;
  };
  std::vector<int32_t> ids = encode_text(text), more = encode_text(second);
  cut_pair(ids, more, cut, process({}, {}).size());
  return process(std::move(ids), std::move(more));
}

std::string PipelineTokenizer::decode(const std::vector<int32_t>& ids, bool skip_special) const {
  std::string bytes, text;
  if (decoder_->works_bytewise()) {
    const auto end = [&] {
      drops_invalid() ? append_valid_utf8(bytes, text) : append_utf8_lossy(bytes, text);
      bytes.clear();
    };
    for (const int32_t id : ids)
      if (leaves_out(id))
        end();
      else if (!skip_special || !is_special(id))
        bytes += token_bytes(id);
    end();
    return tidies_ ? tidy_spaces(std::move(text)) : text;
  }
  Detokenizer detokenizer(*this, skip_special);
  for (const int32_t id : ids) text += detokenizer.append(id);
  return text + detokenizer.finish();
}

std::optional<std::string_view> PipelineTokenizer::token(int32_t id) const {
  if (const auto text = python_ ? python_->text(id) : splitter_.added().text(id)) return text;
  if (const auto language = language_tokens_.find(id); language != language_tokens_.end())
    return language->second;
  return model_->id_to_token(id);
}

// What decoding takes the id for; without data: nothing.
std::string_view PipelineTokenizer::decoded_token(int32_t id) const {
  if (const auto text = token(id)) return *text;
  if (const auto text = model_->outside_token(id)) return *text;
  return outside_.empty() ? std::string_view() : std::string_view(outside_);
}

bool PipelineTokenizer::stands_apart(int32_t id) const {
  return python_ ? python_->is_special(decoded_token(id)) : is_special(id);
}

std::string PipelineTokenizer::token_bytes(int32_t id) const {
  // Of bytes: an added token is its text, whatever bytes its characters stand for in others.
  if (python_ && decoder_->works_bytewise())
    if (const auto text = python_->text(id)) return std::string(*text);
  const std::string_view text = decoded_token(id);
  return text.empty() ? std::string() : decoder_->token_bytes(text);
}

// An id without a token adds nothing, whatever it is decoded to.
std::string PipelineTokenizer::inner_text(int32_t id) const {
  const auto text = token(id);
  if (!text) return {};
  if (python_ && python_->text(id) && decoder_->works_bytewise()) return std::string(*text);
  if (const auto byte = byte_of(id)) return std::string(1, *byte);
  return decoder_->inner_text(*text);
}

std::optional<char> PipelineTokenizer::byte_of(int32_t id) const {
  if (decoder_->works_bytewise()) return std::nullopt;
  const std::string_view text = decoded_token(id);
  return text.empty() ? std::nullopt : decoder_->byte_of(text);
}

bool PipelineTokenizer::loses_space(int32_t id) const {
  const std::string_view text = decoded_token(id);
  return !text.empty() && decoder_->loses_space(text);
}

std::string_view PipelineTokenizer::ending(int32_t id) const {
  const std::string_view text = decoded_token(id);
  return text.empty() ? text : decoder_->ending(text);
}

bool PipelineTokenizer::is_special(int32_t id) const {
  return id >= 0 && id < size() && special_[static_cast<size_t>(id)];
}

std::optional<int32_t> PipelineTokenizer::token_to_id(std::string_view token) const {
  const auto id = python_ ? python_->find(token) : splitter_.added().find(token);
  return id ? id : model_->token_to_id(token);
}

int PipelineTokenizer::num_suffix_tokens() const {
  return post_processor_ ? post_processor_->num_suffix_tokens() : 0;
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerFiles files) {
  return std::make_unique<PipelineTokenizer>(std::move(files));
}

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& directory,
                                           std::span<const TokenizerRule> rules) {
  return make_tokenizer(read_tokenizer_files(directory, rules));
}

std::vector<int32_t> Tokenizer::encode_from(const std::string& source_language, std::string_view,
                                            bool) const {
  languages().id_of(source_language, "src_lang");
  throw not_supported("src_lang", "this tokenizer does not encode other languages than its own");
}

const LanguageSet& Tokenizer::languages() const {
  static const LanguageSet none;
  return none;
}

std::vector<int32_t> Tokenizer::encode_pair(std::string_view, std::string_view, bool,
                                            const PairCut&) const {
  throw not_supported("text_pair", "this tokenizer does not encode pairs");
}

}  // namespace tandem
