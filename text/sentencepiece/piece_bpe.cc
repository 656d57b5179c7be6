// The choice of equals is SentencePiece's: the leftmost.
#include "text/sentencepiece/piece_bpe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/sentencepiece/unigram.h"

namespace tandem {

using Type = PieceModel::Type;

// One text's symbols while they are merged.
class PieceMerger {
 public:
  PieceMerger(const PieceBpe& model, std::string_view text) : model_(model), text_(text) {}
  std::vector<std::string_view> run();

 private:
  static constexpr size_t kNone = ~size_t{0};
  struct Symbol {
    std::string_view text;  // empty: merged into its left neighbour
    size_t previous, next;
    bool frozen;
  };
  struct Candidate {  // at the time it was queued; it may be outdated
    float score;
    size_t left, right, bytes;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : left > other.left;
    }
  };

  void add_symbols();
  void queue(size_t left, size_t right);
  void merge(const Candidate& candidate);
  void emit(std::string_view text, std::vector<std::string_view>& out) const;

  const PieceBpe& model_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
  // Pieces that are there for merging only: bytes of their left part.
  std::unordered_map<std::string_view, size_t> unused_;
};

void PieceMerger::add_symbols() {
  for (size_t at = 0; at < text_.size();) {
    const size_t defined = model_.user_defined_.longest_prefix(text_.substr(at));
    const size_t length =
        defined > 0 ? defined : static_cast<size_t>(code_point_at(text_, at).length);
    const size_t i = symbols_.size();
    symbols_.push_back(
        {text_.substr(at, length), i > 0 ? i - 1 : kNone, i + 1, /*frozen=*/defined > 0});
    at += length;
  }
  if (!symbols_.empty()) symbols_.back().next = kNone;
}

void PieceMerger::queue(size_t left, size_t right) {
  if (left == kNone || right == kNone || symbols_[left].frozen || symbols_[right].frozen) return;
  const std::string_view first = symbols_[left].text, second = symbols_[right].text;
  const std::string_view both(first.data(), first.size() + second.size());
  const PieceModel::Piece* piece = model_.find(both);
  if (piece == nullptr) return;
  candidates_.push({piece->score, left, right, both.size()});
  if (piece->type == Type::kUnused) unused_[both] = first.size();
}

void PieceMerger::merge(const Candidate& c) {
  Symbol &left = symbols_[c.left], &right = symbols_[c.right];
  if (left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != c.bytes)
    return;
  left.text = {left.text.data(), c.bytes};
  left.next = right.next;
  if (right.next != kNone) symbols_[right.next].previous = c.left;
  right.text = {};
  queue(left.previous, c.left);
  queue(c.left, left.next);
}

void PieceMerger::emit(std::string_view text, std::vector<std::string_view>& out) const {
  std::vector<std::string_view> waiting = {text};  // the next one last
  while (!waiting.empty()) {
    const std::string_view part = waiting.back();
    waiting.pop_back();
    const PieceModel::Piece* piece = model_.find(part);
    const auto halves =
        piece != nullptr && piece->type == Type::kUnused ? unused_.find(part) : unused_.end();
    if (halves == unused_.end()) {
      out.push_back(part);
      continue;
    }
    waiting.push_back(part.substr(halves->second));
    waiting.push_back(part.substr(0, halves->second));
  }
}

std::vector<std::string_view> PieceMerger::run() {
  add_symbols();
  for (size_t i = 0; i + 1 < symbols_.size(); ++i) queue(i, i + 1);
  while (!candidates_.empty()) {
    const Candidate candidate = candidates_.top();
    candidates_.pop();
    merge(candidate);
  }
  std::vector<std::string_view> parts;
  for (const Symbol& symbol : symbols_)
    if (!symbol.text.empty()) emit(symbol.text, parts);
  std::vector<std::string_view> out;
  bool unknown_before = false;
  for (const std::string_view part : parts) {
    const bool unknown = !model_.contains(part);
    if (unknown && unknown_before)
      out.back() = {out.back().data(), out.back().size() + part.size()};
    else
      out.push_back(part);
    unknown_before = unknown;
  }
  return out;
}

PieceBpe::PieceBpe(const PieceModel& model) : pieces_(model.pieces) {
  std::vector<PieceIndex::Entry> user_defined;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const PieceModel::Piece& piece = pieces_[i];
    if (piece.type != Type::kNormal && piece.type != Type::kUserDefined &&
        piece.type != Type::kUnused)
      continue;
    if (!by_text_.emplace(piece.text, i).second)
      throw invalid_model(model.file, "the piece " + in_quotes(piece.text) + " is there twice");
    if (piece.type == Type::kUserDefined)
      user_defined.emplace_back(piece.text, static_cast<int>(i));
  }
  user_defined_ = PieceIndex(std::move(user_defined));
}

const PieceModel::Piece* PieceBpe::find(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? nullptr : &pieces_[found->second];
}

std::vector<std::string_view> PieceBpe::segment(std::string_view text) const {
  return PieceMerger(*this, text).run();
}

namespace {

// As the library: a model that makes bytes of unknown characters has all of them, another has none.
void check_bytes(const PieceModel& model) {
  std::array<bool, 256> found{};
  for (const PieceModel::Piece& piece : model.pieces) {
    if (piece.type != Type::kByte) continue;
    const auto byte = byte_of_piece(piece.text);
    if (!model.byte_fallback || !byte)
      throw invalid_model(model.file, "the piece " + in_quotes(piece.text) + " is of a byte, but " +
                                          (byte ? "byte_fallback is false" : "names none"));
    found[static_cast<uint8_t>(*byte)] = true;
  }
  if (model.byte_fallback && !std::all_of(found.begin(), found.end(), [](bool b) { return b; }))
    throw invalid_model(model.file, "byte_fallback is true, but there are not 256 pieces of bytes");
}

}  // namespace

std::unique_ptr<Segmenter> make_segmenter(const PieceModel& model) {
  check_bytes(model);
  if (model.algorithm == PieceModel::Algorithm::kBpe) return std::make_unique<PieceBpe>(model);
  return std::make_unique<Unigram>(model);
}

}  // namespace tandem
