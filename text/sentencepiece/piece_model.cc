// Reads the Protobuf wire format by hand: three nested messages with a dozen fields.
#include "text/sentencepiece/piece_model.h"

#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/tokenizer_json.h"

namespace tandem {
namespace {

constexpr uint64_t kUnigram = 1, kBpe = 2;  // TrainerSpec.ModelType

class Message {
 public:
  Message(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  // The next field; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t key = varint();
    field = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0: number = varint(); break;
      case 1: text = take(8); break;
      case 2: text = take(varint()); break;
      case 5: text = take(4); break;
      default: fail("a field of an unknown type");
    }
    return true;
  }
  bool flag() const { return number != 0; }
  float real() const {
    if (text.size() != sizeof(float)) fail("a score that is no number");
    float value;
    std::memcpy(&value, text.data(), sizeof(value));
    return value;
  }
  Message message() const { return Message(text, file_); }
  [[noreturn]] void fail(const std::string& what) const {
    throw invalid_model(file_, "not a SentencePiece model: " + what);
  }

  uint32_t field = 0;
  uint64_t number = 0;    // of a varint
  std::string_view text;  // of the other types

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
    fail("a number that is too long");
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("it ends early");
    const std::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }

  std::string_view bytes_;
  const std::string& file_;
  size_t at_ = 0;
};

PieceModel::Piece read_piece(Message in) {
  PieceModel::Piece piece;
  while (in.next()) {
    if (in.field == 1) piece.text = in.text;
    if (in.field == 2) piece.score = in.real();
    if (in.field == 3) {
      if (in.number < 1 || in.number > 6) in.fail("a piece of an unknown type");
      piece.type = static_cast<PieceModel::Type>(in.number);
    }
  }
  if (piece.text.empty()) in.fail("an empty piece");
  if (find_invalid_utf8(piece.text) != std::string::npos) in.fail("a piece that is not UTF-8");
  if (!(piece.score == piece.score)) in.fail("a score that is no number");
  return piece;
}

void read_trainer(Message in, const std::string& file, PieceModel& out) {
  while (in.next()) {
    if (in.field == 3 && in.number != kUnigram && in.number != kBpe)
      throw not_supported(file, "SentencePiece models are supported if they are Unigram or BPE");
    if (in.field == 3 && in.number == kBpe) out.algorithm = PieceModel::Algorithm::kBpe;
    if (in.field == 24 && in.flag())
      throw not_supported(file, "treat_whitespace_as_suffix is not supported");
    if (in.field == 35) out.byte_fallback = in.flag();
  }
}

void read_normalizer(Message in, PieceModel& out) {
  while (in.next()) {
    if (in.field == 2) out.charsmap = in.text;
    if (in.field == 3) out.add_dummy_prefix = in.flag();
    if (in.field == 4) out.remove_extra_whitespaces = in.flag();
    if (in.field == 5) out.escape_whitespaces = in.flag();
  }
}

}  // namespace

std::string piece_of_byte(char byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  const auto value = static_cast<uint8_t>(byte);
  return {'<', '0', 'x', kHex[value >> 4], kHex[value & 15], '>'};
}

std::optional<char> byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x")) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  const char byte = static_cast<char>(value);
  // With capital letters, as the library writes them.
  if (error != std::errc() || end != piece.data() + 5 || piece_of_byte(byte) != piece)
    return std::nullopt;
  return byte;
}

PieceModel parse_piece_model(std::string_view bytes, const std::string& file) {
  PieceModel out;
  out.file = file;
  Message in(bytes, file);
  while (in.next()) {
    if (in.field == 1) out.pieces.push_back(read_piece(in.message()));
    if (in.field == 2) read_trainer(in.message(), file, out);
    if (in.field == 3) read_normalizer(in.message(), out);
    if (out.pieces.size() > size_t{kMaxVocabulary}) in.fail("too many pieces");
  }
  if (out.pieces.empty()) in.fail("it has no pieces");
  return out;
}

PieceModel read_piece_model(const std::filesystem::path& file) {
  return parse_piece_model(read_text_file(file), file.string());
}

}  // namespace tandem
