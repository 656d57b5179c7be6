// A SentencePiece model file (.spm, .model): the parts of sentencepiece_model.proto that
// segmentation needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct PieceModel {
  enum class Algorithm : uint8_t { kUnigram, kBpe };
  enum class Type : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;
  };

  std::string file;  // for messages
  Algorithm algorithm = Algorithm::kUnigram;
  std::vector<Piece> pieces;
  std::string charsmap;  // piece_normalizer.h; empty: characters stay as they are
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool byte_fallback = false;  // bytes for unknown characters
};

// Of a piece such as <0xE2>.
std::optional<char> byte_of_piece(std::string_view piece);
std::string piece_of_byte(char byte);

// Throws InputError naming the file: damaged (kInvalidModel), or of a kind that is not built, such
// as words (kNotSupported).
PieceModel parse_piece_model(std::string_view bytes, const std::string& file);
PieceModel read_piece_model(const std::filesystem::path& file);

}  // namespace tandem
