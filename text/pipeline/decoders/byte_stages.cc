// Tokens that stand for bytes: "ByteFallback" and "ByteLevel".
#include <optional>
#include <string>
#include <string_view>

#include "base/strings/utf8.h"
#include "text/pipeline/decoders/decoder_stage.h"
#include "text/pipeline/pre_tokenizers/byte_level.h"

namespace tandem {
namespace {

constexpr size_t kByteTokenLength = 6;  // of <0xE2>

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  if (lower >= 'a' && lower <= 'f') return lower - 'a' + 10;
  return std::nullopt;
}

// The library reads two digits as Rust does: the first may be a sign.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != kByteTokenLength || !token.starts_with("<0x") || token.back() != '>')
    return std::nullopt;
  const auto high = token[3] == '+' ? std::optional(0) : hex_digit(token[3]);
  const auto low = hex_digit(token[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<char>(*high * 16 + *low);
}

// Neighbouring tokens of bytes become one token, their text; if they are none, a U+FFFD for each.
class ByteFallbackStage final : public DecoderStage {
 public:
  ByteFallbackStage(TokenSink& next, NoSettings, Begin begin)
      : DecoderStage(next), raw_(begin != Begin::kText) {}

  void append(std::string_view part) override {
    if (!is_text_) {
      start_ += part;
      if (start_.size() <= kByteTokenLength) return;
      end_bytes();
      is_text_ = true;
      next_.append(start_);
      return;
    }
    next_.append(part);
  }
  void end_token() override {
    const auto byte = is_text_ ? std::nullopt : byte_of(start_);
    if (byte) {
      bytes_ += *byte;
    } else {
      if (!is_text_) {
        end_bytes();
        next_.append(start_);
      }
      next_.end_token();
    }
    start_.clear();
    is_text_ = false;
  }
  void finish() override {
    end_bytes();
    next_.finish();
  }

 private:
  void end_bytes() {
    if (bytes_.empty()) return;
    if (raw_ || find_invalid_utf8(bytes_) == std::string::npos)
      pass(bytes_);
    else
      for (size_t i = 0; i < bytes_.size(); ++i) pass("\uFFFD");
    bytes_.clear();
  }

  bool raw_;
  std::string bytes_;     // of the tokens behind the last text
  std::string start_;     // of the open token, while it may stand for a byte
  bool is_text_ = false;  // it does not
};

// All tokens become one.
class ByteLevelStage final : public WholeTokenStage {
 public:
  static constexpr bool kFuses = true;
  ByteLevelStage(TokenSink& next, NoSettings, Begin begin)
      : WholeTokenStage(next), raw_(begin != Begin::kText) {}

  void finish() override {
    give(bytes_.size());
    next_.end_token();
    next_.finish();
  }

 private:
  void take(std::string token) override {
    bytes_ += decoder_.token_bytes(token);
    if (!raw_) give(bytes_.size() - unfinished_utf8(bytes_));
  }
  void give(size_t count) {
    std::string text;
    if (raw_)
      text = bytes_.substr(0, count);
    else
      append_utf8_lossy(std::string_view(bytes_).substr(0, count), text);
    bytes_.erase(0, count);
    next_.append(text);
  }

  bool raw_;
  ByteLevelDecoder decoder_;
  std::string bytes_;
};

}  // namespace

std::unique_ptr<DecoderComponent> make_byte_component(const JsonView& json) {
  const std::string type = json.at("type").string();
  if (type == "ByteFallback")
    return std::make_unique<ComponentOf<ByteFallbackStage, NoSettings>>(NoSettings{});
  if (type == "ByteLevel")
    return std::make_unique<ComponentOf<ByteLevelStage, NoSettings>>(NoSettings{});
  return nullptr;
}

}  // namespace tandem
