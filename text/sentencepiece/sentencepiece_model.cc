#include "text/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings/printable.h"
#include "text/pipeline/models/vocabulary.h"
#include "text/sentencepiece/piece_normalizer.h"
#include "text/sentencepiece/segmenter.h"

namespace tandem {
namespace {

// Bytes of a ">>…<<" at the start; 0: there is none.
size_t code_length(std::string_view text) {
  if (!text.starts_with(">>")) return 0;
  const size_t close = text.find("<<");
  return close == std::string_view::npos ? 0 : close + 2;
}

class SentencePieceModel final : public VocabularyModel {
 public:
  SentencePieceModel(const SentencePieceFiles& files, const std::string& file)
      : VocabularyModel(JsonView(files.vocabulary, file)),
        normalizer_(files.source),
        segmenter_(make_segmenter(files.source)),
        codes_(files.options.codes) {
    if (files.options.outside_pieces)
      for (const PieceModel::Piece& piece : files.target.pieces) pieces_.push_back(piece.text);
    const auto unknown = vocabulary_.find(files.unknown_token);
    if (!unknown)
      throw invalid_model(file, in_quotes(files.unknown_token) + " is not in the vocabulary");
    unknown_ = *unknown;
    if (files.source.byte_fallback)
      for (int byte = 0; byte < 256; ++byte)
        byte_ids_.push_back(id(piece_of_byte(static_cast<char>(byte))));
    if (!files.target_vocabulary.is_null())
      target_ = std::make_unique<Vocabulary>(
          JsonView(files.target_vocabulary, files.options.target_vocabulary));
  }

  std::optional<std::string_view> id_to_token(int32_t id) const override {
    return target_ ? target_->token(id) : VocabularyModel::id_to_token(id);
  }
  std::optional<std::string_view> outside_token(int32_t id) const override {
    if (id < 0 || static_cast<size_t>(id) >= pieces_.size()) return std::nullopt;
    return pieces_[static_cast<size_t>(id)];
  }
  int32_t max_id() const override {
    return std::max(VocabularyModel::max_id(), target_ ? target_->max_id() : -1);
  }

  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const override {
    return std::make_unique<Encoder>(*this, budget);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    Encoder(const SentencePieceModel& model, GrowthBudget& budget)
        : model_(model), budget_(budget) {}
    void encode(std::string_view text, std::vector<int32_t>& ids) override {
      const size_t code = model_.codes_ ? code_length(text) : 0;
      if (code > 0) ids.push_back(model_.id(text.substr(0, code)));
      const std::string normal = model_.normalizer_.normalize(text.substr(code), budget_);
      for (const std::string_view piece : model_.segmenter_->segment(normal))
        model_.add(piece, ids);
    }

   private:
    const SentencePieceModel& model_;
    GrowthBudget& budget_;
  };

  int32_t id(std::string_view piece) const { return vocabulary_.find(piece).value_or(unknown_); }
  void add(std::string_view piece, std::vector<int32_t>& ids) const {
    if (byte_ids_.empty() || segmenter_->contains(piece)) return ids.push_back(id(piece));
    for (const char byte : piece) ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
  }

  PieceNormalizer normalizer_;
  std::unique_ptr<Segmenter> segmenter_;
  bool codes_;
  std::vector<std::string> pieces_;  // that stand for ids outside the vocabulary
  int32_t unknown_ = 0;
  std::vector<int32_t> byte_ids_;       // empty: unknown characters have no bytes
  std::unique_ptr<Vocabulary> target_;  // of decoded ids; nullptr: the same
};

class SentencePieceDecoder final : public Decoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceFiles& files)
      : pieces_(make_segmenter(files.target)),
        has_bytes_(files.options.loses_spaces && files.target.byte_fallback),
        strips_(files.options.loses_spaces &&
                (files.target.add_dummy_prefix || files.target.remove_extra_whitespaces)),
        spaces_special_(files.options.space_behind_special) {}

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
  std::string inner_text(std::string_view token) const override {
    std::string out = token_bytes(token);
    while (out.ends_with(' ')) out.pop_back();
    return out;
  }
  bool trims_spaces() const override { return true; }
  bool loses_space(std::string_view token) const override {
    return strips_ && pieces_->contains(token);
  }
  bool spaces_special() const override { return spaces_special_; }
  std::optional<char> byte_of(std::string_view token) const override {
    return has_bytes_ ? byte_of_piece(token) : std::nullopt;
  }

 private:
  std::unique_ptr<Segmenter> pieces_;
  bool has_bytes_, strips_, spaces_special_;
};

}  // namespace

std::unique_ptr<TokenModel> make_sentencepiece_model(const SentencePieceFiles& files,
                                                     const std::string& file) {
  return std::make_unique<SentencePieceModel>(files, file);
}

std::unique_ptr<Decoder> make_sentencepiece_decoder(const SentencePieceFiles& files) {
  return std::make_unique<SentencePieceDecoder>(files);
}

}  // namespace tandem
