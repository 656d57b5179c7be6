// Chains of stages, and the table of the components that there are.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pipeline/decoders/decoder_stage.h"
#include "text/pipeline/pre_tokenizers/byte_level.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

// Bytes of text that all stages together may make of a byte.
constexpr size_t kMaxTokenGrowth = 1024;

using Components = std::vector<std::unique_ptr<DecoderComponent>>;

// The end of a chain.
class Text final : public TokenSink {
 public:
  void append(std::string_view part) override { text_ += part; }
  void end_token() override {}
  void finish() override {}
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

class ChainStream final : public TokenStream {
 public:
  ChainStream(const Components& components, bool starts) {
    std::vector<Begin> begins;
    Begin begin = starts ? Begin::kText : Begin::kToken;
    for (const auto& component : components) {
      begins.push_back(begin);
      if (!starts && component->fuses()) begin = Begin::kInsideToken;
    }
    for (size_t i = components.size(); i-- > 0;)
      stages_.push_back(components[i]->stage(first(), begins[i]));
  }
  std::string append(std::string_view token) override {
    first().append(token);
    first().end_token();
    return text_.take();
  }
  std::string finish() override {
    first().finish();
    return text_.take();
  }

 private:
  TokenSink& first() {
    if (stages_.empty()) return text_;
    return *stages_.back();
  }

  Text text_;
  std::vector<std::unique_ptr<DecoderStage>> stages_;  // the last one first
};

class ChainDecoder final : public Decoder {
 public:
  explicit ChainDecoder(Components components) : components_(std::move(components)) {}
  std::string token_bytes(std::string_view token) const override {
    ChainStream stream(components_, /*starts=*/false);
    std::string text = stream.append(token);
    return text + stream.finish();
  }
  std::unique_ptr<TokenStream> stream() const override {
    return std::make_unique<ChainStream>(components_, /*starts=*/true);
  }

 private:
  Components components_;
};

std::unique_ptr<DecoderComponent> make_component(const JsonView& json) {
  for (const auto make : {make_byte_component, make_text_component, make_word_component})
    if (auto component = make(json)) return component;
  const JsonView type = json.at("type");
  type.fail_unsupported("there is no decoder " + type.string());
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const JsonView& json) {
  if (json.at("type").string() == "ByteLevel") {
    const auto drops_invalid = json.find("drop_invalid");  // Tandem's own key
    return std::make_unique<ByteLevelDecoder>(drops_invalid && drops_invalid->boolean());
  }
  Components components;
  size_t growth = 1;
  for (const JsonView& part : flat_parts(json, "decoders")) {
    components.push_back(make_component(part));
    growth *= components.back()->max_growth();
    if (growth > kMaxTokenGrowth)
      part.fail_unsupported("the decoders make more than " + std::to_string(kMaxTokenGrowth) +
                            " bytes of a byte");
  }
  return std::make_unique<ChainDecoder>(std::move(components));
}

std::unique_ptr<Decoder> make_joining_decoder() {
  Components components;
  components.push_back(make_joining_component());
  return std::make_unique<ChainDecoder>(std::move(components));
}

}  // namespace tandem
