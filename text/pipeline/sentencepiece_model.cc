#include "text/pipeline/sentencepiece_model.h"

#include "base/error.h"
#include "base/printable.h"
#include "text/pipeline/piece_normalizer.h"
#include "text/pipeline/unigram.h"
#include "text/pipeline/vocabulary.h"

namespace tandem {
namespace {

struct Span {
  size_t begin = std::string_view::npos, end = 0;
};

// The first ">>…<<" with something inside, as long as its line allows (Python's ">>.+<<").
Span find_code(std::string_view text, size_t from) {
  for (size_t begin = text.find(">>", from); begin != std::string_view::npos;
       begin = text.find(">>", begin + 1)) {
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    const size_t close = line.rfind("<<");
    if (close != std::string_view::npos && close >= 3) return {begin, begin + close + 2};
  }
  return {};
}

class SentencePieceModel final : public TokenModel {
 public:
  SentencePieceModel(const SentencePieceFiles& files, const std::string& file)
      : normalizer_(files.source),
        unigram_(files.source),
        vocabulary_(JsonView(files.vocabulary, file)) {
    const auto unknown = vocabulary_.find(files.unknown_token);
    if (!unknown)
      throw invalid_model(file, in_quotes(files.unknown_token) + " is not in the vocabulary");
    unknown_ = *unknown;
  }

  std::unique_ptr<WordEncoder> word_encoder() const override {
    return std::make_unique<Encoder>(*this);
  }
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    return vocabulary_.find(token);
  }
  std::optional<std::string_view> id_to_token(int32_t id) const override {
    return vocabulary_.token(id);
  }
  int32_t num_tokens() const override { return vocabulary_.size(); }
  int32_t max_id() const override { return vocabulary_.max_id(); }

 private:
  class Encoder final : public WordEncoder {
   public:
    explicit Encoder(const SentencePieceModel& model) : model_(model) {}
    void encode(std::string_view text, std::vector<int32_t>& ids) override {
      // A code at the start is a token; all others go.
      std::string plain;
      size_t done = 0;
      for (Span code = find_code(text, 0); code.end > 0; code = find_code(text, done)) {
        if (code.begin == 0) ids.push_back(model_.id(text.substr(0, code.end)));
        plain += text.substr(done, code.begin - done);
        done = code.end;
      }
      plain += text.substr(done);
      const std::string normal = model_.normalizer_.normalize(plain);
      for (const std::string_view piece : model_.unigram_.segment(normal))
        ids.push_back(model_.id(piece));
    }

   private:
    const SentencePieceModel& model_;
  };

  int32_t id(std::string_view piece) const { return vocabulary_.find(piece).value_or(unknown_); }

  PieceNormalizer normalizer_;
  Unigram unigram_;
  Vocabulary vocabulary_;
  int32_t unknown_ = 0;
};

class SentencePieceDecoder final : public Decoder {
 public:
  explicit SentencePieceDecoder(const PieceModel& model)
      : pieces_(model), strips_(model.add_dummy_prefix || model.remove_extra_whitespaces) {}

  std::string token_bytes(std::string_view token) const override {
    std::string out;
    for (size_t at = 0; at < token.size();) {
      const size_t symbol = token.find(kSpaceSymbol, at);
      out += token.substr(at, symbol - at);
      if (symbol == std::string_view::npos) break;
      out += ' ';
      at = symbol + kSpaceSymbol.size();
    }
    return out;
  }
  bool trims_spaces() const override { return true; }
  bool loses_space(std::string_view token) const override {
    return strips_ && pieces_.contains(token);
  }

 private:
  Unigram pieces_;
  bool strips_;
};

}  // namespace

std::unique_ptr<TokenModel> make_sentencepiece_model(const SentencePieceFiles& files,
                                                     const std::string& file) {
  return std::make_unique<SentencePieceModel>(files, file);
}

std::unique_ptr<Decoder> make_sentencepiece_decoder(const SentencePieceFiles& files) {
  return std::make_unique<SentencePieceDecoder>(files.target);
}

}  // namespace tandem
