// Decoders are chains: each stage transforms tokens and passes them to the next one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/tokenizer_json.h"

namespace tandem {

// Takes tokens, each in parts of whole characters. After finish() comes nothing.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void append(std::string_view part) = 0;  // to the token that is open
  virtual void end_token() = 0;
  virtual void finish() = 0;
};

// State of one stream. By default passes everything on.
class DecoderStage : public TokenSink {
 public:
  static constexpr bool kFuses = false;
  template <class Settings>
  static size_t max_growth(const Settings&) {
    return 1;
  }

  // The sink must outlive the stage.
  explicit DecoderStage(TokenSink& next) : next_(next) {}
  void append(std::string_view part) override { next_.append(part); }
  void end_token() override { next_.end_token(); }
  void finish() override { next_.finish(); }

 protected:
  void pass(std::string_view token) {
    next_.append(token);
    next_.end_token();
  }
  TokenSink& next_;
};

// A stage that looks at whole tokens.
class WholeTokenStage : public DecoderStage {
 public:
  using DecoderStage::DecoderStage;
  void append(std::string_view part) final { token_ += part; }
  void end_token() final {
    std::string token;
    token.swap(token_);
    take(std::move(token));
  }

 protected:
  virtual void take(std::string token) = 0;

 private:
  std::string token_;
};

// Where a stream begins. kText: with the first token of a text. kToken: with a later token, or a
// byte of a character, whose own text is wanted. kInsideToken: the same, inside a token.
enum class Begin { kText, kToken, kInsideToken };

// The settings of a component; immutable.
class DecoderComponent {
 public:
  virtual ~DecoderComponent() = default;
  virtual std::unique_ptr<DecoderStage> stage(TokenSink& next, Begin begin) const = 0;
  virtual bool fuses() const { return false; }     // all tokens become one
  virtual size_t max_growth() const { return 1; }  // bytes that become of one
};

// All but "Sequence". nullptr: the type is not one of the file's.
std::unique_ptr<DecoderComponent> make_byte_component(const JsonView& json);
std::unique_ptr<DecoderComponent> make_text_component(const JsonView& json);
std::unique_ptr<DecoderComponent> make_word_component(const JsonView& json);
std::unique_ptr<DecoderComponent> make_joining_component();

struct NoSettings {};

// A component whose stages are of one class, made of its settings.
template <class Stage, class Settings>
class ComponentOf final : public DecoderComponent {
 public:
  explicit ComponentOf(Settings settings) : settings_(std::move(settings)) {}
  std::unique_ptr<DecoderStage> stage(TokenSink& next, Begin begin) const override {
    return std::make_unique<Stage>(next, settings_, begin);
  }
  bool fuses() const override { return Stage::kFuses; }
  size_t max_growth() const override { return Stage::max_growth(settings_); }

 private:
  Settings settings_;
};

}  // namespace tandem
