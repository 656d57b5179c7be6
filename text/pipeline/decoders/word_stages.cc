// Stages that put spaces between words: "BPEDecoder", "WordPiece", "CTC" and "Metaspace"; and the
// one that stands for no decoder.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/pipeline/decoders/decoder_stage.h"
#include "text/pipeline/pre_tokenizers/metaspace.h"
#include "text/replaced.h"

namespace tandem {
namespace {

// The library's cleanup of English.
std::string cleaned(std::string text) {
  static constexpr std::string_view kRules[][2] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kRules) text = replaced(text, what, with);
  return text;
}

// By how much a text grows in which spaces replace the string: an empty one is between all
// characters, too.
size_t spaces_for(const std::string& string) { return string.empty() ? 2 : 1; }

// A suffix stands for the space behind a word, and for nothing in the last token.
class BpeStage final : public WholeTokenStage {
 public:
  static size_t max_growth(const std::string& suffix) { return spaces_for(suffix); }

  BpeStage(TokenSink& next, const std::string& suffix, Begin begin)
      : WholeTokenStage(next), suffix_(suffix), last_(begin == Begin::kText ? "" : " ") {}
  void finish() override {
    if (held_) pass(replaced(*held_, suffix_, last_));
    next_.finish();
  }

 private:
  void take(std::string token) override {
    if (held_) pass(replaced(*held_, suffix_, " "));
    held_.reset();
    if (token.find(suffix_) == std::string::npos)
      pass(token);
    else
      held_ = std::move(token);
  }

  const std::string& suffix_;
  std::string_view last_;
  std::optional<std::string> held_;  // the last token, with a suffix
};

struct WordPieceSettings {
  std::string prefix;
  bool cleanup = true;
};

// A token without the prefix begins a word.
class WordPieceStage final : public WholeTokenStage {
 public:
  WordPieceStage(TokenSink& next, const WordPieceSettings& settings, Begin begin)
      : WholeTokenStage(next), settings_(settings), first_(begin != Begin::kToken) {}

 private:
  void take(std::string token) override {
    if (!first_) {
      if (token.starts_with(settings_.prefix))
        token.erase(0, settings_.prefix.size());
      else
        token.insert(0, " ");
    }
    first_ = false;
    pass(settings_.cleanup ? cleaned(std::move(token)) : token);
  }

  const WordPieceSettings& settings_;
  bool first_;
};

struct CtcSettings {
  std::string pad, delimiter;
  bool cleanup = true;
};

// Of equal neighbours one stays.
class CtcStage final : public WholeTokenStage {
 public:
  static size_t max_growth(const CtcSettings& settings) { return spaces_for(settings.delimiter); }

  CtcStage(TokenSink& next, const CtcSettings& settings, Begin)
      : WholeTokenStage(next), settings_(settings) {}

 private:
  void take(std::string token) override {
    if (before_ == token) return;
    std::string text = replaced(token, settings_.pad, "");
    before_ = std::move(token);
    if (settings_.cleanup) text = replaced(cleaned(std::move(text)), settings_.delimiter, " ");
    if (!text.empty()) pass(text);
  }

  const CtcSettings& settings_;
  std::optional<std::string> before_;
};

// A symbol stands for a space; in the first token for none, where one was put before the text.
class MetaspaceStage final : public DecoderStage {
 public:
  MetaspaceStage(TokenSink& next, const Metaspace& settings, Begin begin)
      : DecoderStage(next), settings_(settings), first_(begin != Begin::kToken) {}
  void append(std::string_view part) override {
    const bool loses = first_ && settings_.scheme != Metaspace::Scheme::kNever;
    next_.append(replaced(part, settings_.replacement, loses ? "" : " "));
  }
  void end_token() override {
    first_ = false;
    next_.end_token();
  }

 private:
  const Metaspace& settings_;
  bool first_;
};

// A space between two tokens.
class JoiningStage final : public DecoderStage {
 public:
  JoiningStage(TokenSink& next, NoSettings, Begin begin)
      : DecoderStage(next), first_(begin != Begin::kToken) {}
  void append(std::string_view part) override {
    if (starts_ && !first_) next_.append(" ");
    starts_ = first_ = false;
    next_.append(part);
  }
  void end_token() override {
    append("");
    starts_ = true;
    next_.end_token();
  }

 private:
  bool first_, starts_ = true;
};

}  // namespace

std::unique_ptr<DecoderComponent> make_word_component(const JsonView& json) {
  const std::string type = json.at("type").string();
  if (type == "BPEDecoder")
    return std::make_unique<ComponentOf<BpeStage, std::string>>(json.at("suffix").string());
  if (type == "WordPiece")
    return std::make_unique<ComponentOf<WordPieceStage, WordPieceSettings>>(
        WordPieceSettings{json.at("prefix").string(), json.at("cleanup").boolean()});
  if (type == "CTC")
    return std::make_unique<ComponentOf<CtcStage, CtcSettings>>(
        CtcSettings{json.at("pad_token").string(), json.at("word_delimiter_token").string(),
                    json.at("cleanup").boolean()});
  if (type == "Metaspace")
    return std::make_unique<ComponentOf<MetaspaceStage, Metaspace>>(Metaspace(json));
  return nullptr;
}

std::unique_ptr<DecoderComponent> make_joining_component() {
  return std::make_unique<ComponentOf<JoiningStage, NoSettings>>(NoSettings{});
}

}  // namespace tandem
