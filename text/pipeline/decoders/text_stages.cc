// "Fuse", "Replace" and "Strip": they look at the text of tokens, also of one that is everything.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/pipeline/decoders/decoder_stage.h"
#include "text/pipeline/pattern.h"

namespace tandem {
namespace {

// All tokens become one.
class FuseStage final : public DecoderStage {
 public:
  static constexpr bool kFuses = true;
  FuseStage(TokenSink& next, NoSettings, Begin) : DecoderStage(next) {}
  void end_token() override {}
  void finish() override {
    next_.end_token();
    next_.finish();
  }
};

struct ReplaceSettings {
  std::shared_ptr<const Pattern> pattern;
  std::string content;
};

// A string is replaced as the text comes; an expression may look at the whole token, so it waits
// for its end.
class ReplaceStage final : public DecoderStage {
 public:
  static size_t max_growth(const ReplaceSettings& settings) { return settings.content.size() + 1; }

  ReplaceStage(TokenSink& next, const ReplaceSettings& settings, Begin)
      : DecoderStage(next), settings_(settings) {}

  void append(std::string_view part) override {
    pending_ += part;
    const std::string& literal = settings_.pattern->literal();
    if (literal.empty()) return;
    size_t at = 0;
    for (size_t found; (found = pending_.find(literal, at)) != std::string::npos;
         at = found + literal.size()) {
      next_.append(std::string_view(pending_).substr(at, found - at));
      next_.append(settings_.content);
    }
    const size_t held = start_at_end(std::string_view(pending_).substr(at), literal);
    next_.append(std::string_view(pending_).substr(at, pending_.size() - at - held));
    pending_.erase(0, pending_.size() - held);
  }
  void end_token() override {
    next_.append(replaced());
    pending_.clear();
    next_.end_token();
  }

 private:
  // As it is where an expression takes too long: nobody can be told by now.
  std::string replaced() const {
    try {
      return settings_.pattern->replace(pending_, settings_.content);
    } catch (const InputError&) {
      return pending_;
    }
  }
  // How many bytes at the end of `text` the string may begin with.
  static size_t start_at_end(std::string_view text, std::string_view string) {
    size_t size = std::min(text.size(), string.size() - 1);
    while (!text.ends_with(string.substr(0, size))) --size;
    return size;
  }

  const ReplaceSettings& settings_;
  std::string pending_;
};

struct StripSettings {
  std::string content;  // one character
  int32_t start = 0, stop = 0;
};

// Takes a character away, up to so many times, at both ends of each token.
class StripStage final : public DecoderStage {
 public:
  StripStage(TokenSink& next, const StripSettings& settings, Begin begin)
      : DecoderStage(next),
        settings_(settings),
        cut_(begin == Begin::kInsideToken ? settings.start : 0) {}

  void append(std::string_view part) override {
    for (size_t at = 0; at < part.size();) {
      const auto character = part.substr(at, static_cast<size_t>(code_point_at(part, at).length));
      at += character.size();
      if (character != settings_.content) {
        give(held_);
        next_.append(character);
        held_ = 0;
        cut_ = settings_.start;
      } else if (cut_ < settings_.start) {
        ++cut_;
      } else if (held_ < settings_.stop) {
        ++held_;
      } else {
        give(1);
      }
    }
  }
  void end_token() override {
    held_ = cut_ = 0;
    next_.end_token();
  }

 private:
  void give(int32_t count) {
    for (; count > 0; --count) next_.append(settings_.content);
  }

  const StripSettings& settings_;
  int32_t cut_;       // at the start of this token
  int32_t held_ = 0;  // at its end
};

StripSettings read_strip(const JsonView& json) {
  StripSettings out;
  const JsonView content = json.at("content");
  out.content = content.string();
  if (out.content.empty() ||
      code_point_at(out.content, 0).length != static_cast<int>(out.content.size()))
    content.fail("expected one character");
  out.start = json.at("start").count(kMaxVocabulary);
  out.stop = json.at("stop").count(kMaxVocabulary);
  return out;
}

}  // namespace

std::unique_ptr<DecoderComponent> make_text_component(const JsonView& json) {
  const std::string type = json.at("type").string();
  if (type == "Fuse") return std::make_unique<ComponentOf<FuseStage, NoSettings>>(NoSettings{});
  if (type == "Strip")
    return std::make_unique<ComponentOf<StripStage, StripSettings>>(read_strip(json));
  if (type != "Replace") return nullptr;
  return std::make_unique<ComponentOf<ReplaceStage, ReplaceSettings>>(ReplaceSettings{
      std::make_shared<const Pattern>(json.at("pattern")), json.at("content").string()});
}

}  // namespace tandem
