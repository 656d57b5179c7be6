// GPT-2's words are found by hand: the pattern needs one character of look-ahead at most, and this
// is several times faster than a regular expression engine. A test compares it with Oniguruma.
#include "text/pipeline/pre_tokenizers/byte_level.h"

#include <array>
#include <cstdint>

#include "base/strings/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

enum class CharClass : uint8_t { kLetter, kNumber, kSpace, kOther };

CharClass classify(char32_t c) {
  if (is_letter(c)) return CharClass::kLetter;
  if (is_number(c)) return CharClass::kNumber;
  return is_space(c) ? CharClass::kSpace : CharClass::kOther;
}

constexpr size_t kNumAscii = 128;

const std::array<CharClass, kNumAscii>& ascii_classes() {
  static const auto classes = [] {
    std::array<CharClass, kNumAscii> table;
    for (size_t c = 0; c < kNumAscii; ++c) table[c] = classify(static_cast<char32_t>(c));
    return table;
  }();
  return classes;
}

struct Char {
  CharClass kind;
  int length;
};

Char char_at(std::string_view text, size_t position) {
  const auto byte = static_cast<uint8_t>(text[position]);
  if (byte < kNumAscii) return {ascii_classes()[byte], 1};
  const CodePoint c = code_point_at(text, position);
  return {classify(c.value), c.length};
}

// The characters of the bytes: printable Latin-1 stands for itself, the others follow from U+0100
// on.
struct ByteMap {
  std::array<std::string, 256> characters;
  std::array<int16_t, 512> bytes;  // by code point; -1: none

  ByteMap() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (size_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      append_utf8(c, characters[b]);
      bytes[c] = static_cast<int16_t>(b);
    }
  }
};

const ByteMap& byte_map() {
  static const ByteMap map;
  return map;
}

// Length of 's, 't, 're, 've, 'm, 'll or 'd at `position`; 0 if there is none.
size_t contraction_length(std::string_view text, size_t position) {
  const std::string_view rest = text.substr(position, 3);
  if (rest.size() < 2 || rest[0] != '\'') return 0;
  const char c = rest[1];
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
  const std::string_view two = rest.substr(1);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

// End of the run of `kind` that starts at `position`.
size_t run_end(std::string_view text, size_t position, CharClass kind) {
  while (position < text.size()) {
    const Char c = char_at(text, position);
    if (c.kind != kind) break;
    position += static_cast<size_t>(c.length);
  }
  return position;
}

}  // namespace

size_t gpt2_word_end(std::string_view text, size_t position) {
  if (const size_t length = contraction_length(text, position)) return position + length;
  const Char first = char_at(text, position);
  const size_t second = position + static_cast<size_t>(first.length);
  if (first.kind != CharClass::kSpace) return run_end(text, second, first.kind);
  if (text[position] == ' ' && second < text.size()) {
    const CharClass kind = char_at(text, second).kind;
    if (kind != CharClass::kSpace) return run_end(text, second, kind);
  }
  // Spaces before a word leave their last one to it, or to the next word if it is not ' '.
  const size_t end = run_end(text, second, CharClass::kSpace);
  if (end == text.size()) return end;
  const size_t last = previous_position(text, end);
  return last > position ? last : end;
}

std::vector<AlignedText::Change> byte_changes(std::string_view text) {
  std::vector<AlignedText::Change> out;
  for (const char byte : text) {
    const bool inside = (static_cast<uint8_t>(byte) & 0xC0) == 0x80;  // a character
    const std::string& mapped = byte_map().characters[static_cast<uint8_t>(byte)];
    out.push_back({code_point_at(mapped, 0).value, inside ? 1 : 0});
  }
  return out;
}

ByteLevelPreTokenizer::ByteLevelPreTokenizer(const JsonView& json)
    : add_prefix_space_(json.at("add_prefix_space").boolean()) {
  if (const auto use_regex = json.find("use_regex")) use_regex_ = use_regex->boolean();
}

std::string byte_characters(std::string_view text) {
  std::string out;
  for (const char c : text) out += byte_map().characters[static_cast<uint8_t>(c)];
  return out;
}

void ByteLevelPreTokenizer::split(const Word& word, GrowthBudget& budget,
                                  const WordSink& sink) const {
  std::string_view text = word.text;
  if (text.empty()) return;
  std::string prefixed;
  if (add_prefix_space_ && text.front() != ' ') {
    prefixed.reserve(text.size() + 1);
    prefixed.push_back(' ');
    prefixed.append(text);
    budget.spend(text.size(), prefixed.size());
    text = prefixed;
  }
  const ByteMap& map = byte_map();
  std::string mapped;
  for (size_t at = 0; at < text.size();) {
    const size_t end = use_regex_ ? gpt2_word_end(text, at) : text.size();
    const size_t length = end - at;
    mapped.clear();
    for (; at < end; ++at) mapped += map.characters[static_cast<uint8_t>(text[at])];
    budget.spend(length, mapped.size());
    sink({mapped});
  }
}

void ByteLevelPreTokenizer::align(const AlignedText& text, GrowthBudget& budget,
                                  const AlignedSink& sink) const {
  AlignedText all = text;
  if (add_prefix_space_ && !all.text().starts_with(' ')) all.prepend(" ");
  budget.spend(text.text().size(), all.text().size());
  for (size_t at = 0; at < all.text().size();) {
    const size_t end = use_regex_ ? gpt2_word_end(all.text(), at) : all.text().size();
    AlignedText word = all.slice(at, end);
    word.transform(byte_changes(word.text()));
    budget.spend(end - at, word.text().size());
    sink(word);
    at = end;
  }
}

// A token with a character that is no byte's stands for itself.
// Part of a character is nothing where what is not valid is dropped.
std::string ByteLevelDecoder::inner_text(std::string_view token) const {
  std::string bytes = token_bytes(token);
  if (!drops_invalid_) return bytes;
  std::string out;
  append_valid_utf8(bytes, out);
  return out;
}

std::string ByteLevelDecoder::token_bytes(std::string_view token) const {
  const ByteMap& map = byte_map();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = code_point_at(token, at);
    if (c.value >= map.bytes.size() || map.bytes[c.value] < 0) return std::string(token);
    bytes.push_back(static_cast<char>(map.bytes[c.value]));
    at += static_cast<size_t>(c.length);
  }
  return bytes;
}

nlohmann::json byte_document(const std::vector<std::string>& first_tokens) {
  nlohmann::json vocabulary = nlohmann::json::object();
  for (const std::string& token : first_tokens) vocabulary.emplace(token, vocabulary.size());
  for (size_t byte = 0; byte < 256; ++byte)
    vocabulary[byte_map().characters[byte]] = first_tokens.size() + byte;
  return {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
      {"decoder", {{"type", "ByteLevel"}, {"drop_invalid", true}}},
      {"model",
       {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", nlohmann::json::array()}}}};
}

}  // namespace tandem
