#include "text/sentencepiece/piece_normalizer.h"

#include "base/error.h"
#include "base/strings/utf8.h"

namespace tandem {

PieceNormalizer::PieceNormalizer(const PieceModel& model)
    : charsmap_(model.charsmap, model.file),
      add_dummy_prefix_(model.add_dummy_prefix),
      remove_extra_whitespaces_(model.remove_extra_whitespaces),
      space_(model.escape_whitespaces ? kSpaceSymbol : " ") {
  std::vector<PieceIndex::Entry> user_defined;
  for (const PieceModel::Piece& piece : model.pieces)
    if (piece.type == PieceModel::Type::kUserDefined) user_defined.emplace_back(piece.text, 0);
  user_defined_ = PieceIndex(std::move(user_defined));
}

PieceNormalizer::Prefix PieceNormalizer::prefix(std::string_view text) const {
  if (const size_t length = user_defined_.longest_prefix(text); length > 0)
    return {length, text.substr(0, length)};
  const Charsmap::Match match = charsmap_.find(text);
  if (match.length > 0) return {match.length, match.replacement};
  const auto length = static_cast<size_t>(code_point_at(text, 0).length);
  return {length, text.substr(0, length)};
}

std::string PieceNormalizer::normalize(std::string_view text, GrowthBudget& budget) const {
  const size_t size = text.size();
  std::string out;
  bool started = false;
  bool after_space = remove_extra_whitespaces_;
  while (!text.empty()) {
    auto [length, normal] = prefix(text);
    budget.check(size, out.size() + normal.size());
    text.remove_prefix(length);
    // A text of spaces has no prefix either.
    if (!started && remove_extra_whitespaces_ && normal == " ") continue;
    if (!started && add_dummy_prefix_) out += space_;
    started = true;
    while (after_space && normal.starts_with(' ')) normal.remove_prefix(1);
    for (const char c : normal) c == ' ' ? out += space_ : out += c;
    if (!normal.empty()) after_space = normal.ends_with(' ');
    if (!remove_extra_whitespaces_) after_space = false;
  }
  if (remove_extra_whitespaces_)
    while (out.ends_with(space_)) out.resize(out.size() - space_.size());
  budget.spend(size, out.size());
  return out;
}

}  // namespace tandem
