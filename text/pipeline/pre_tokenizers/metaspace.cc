#include "text/pipeline/pre_tokenizers/metaspace.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <system_error>

#include "base/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += to;
    at = found + from.size();
  }
}

}  // namespace

void WhitespaceSplitPreTokenizer::split(std::string_view text, const TextSink& word) const {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const size_t end = at + static_cast<size_t>(c.length);
    if (is_space(c.value)) {
      if (at > begin) word(text.substr(begin, at - begin));
      begin = end;
    }
    at = end;
  }
  if (begin < text.size()) word(text.substr(begin));
}

Metaspace::Metaspace(const JsonView& json) : replacement(json.at("replacement").string()) {
  if (replacement.empty()) json.at("replacement").fail("is empty");
  if (const auto flag = json.find("add_prefix_space")) prepend = flag->boolean();
  if (const auto scheme = json.find("prepend_scheme")) {
    prepend = scheme->string() == "always";
    if (!prepend && scheme->string() != "never")
      scheme->fail_unsupported(scheme->string() + " is not supported");
  }
  if (const auto flag = json.find("split")) split = flag->boolean();
}

void MetaspacePreTokenizer::split(std::string_view text, const TextSink& word) const {
  if (text.empty()) return;
  const std::string& symbol = settings_.replacement;
  std::string marked = replaced(text, " ", symbol);
  if (settings_.prepend && !marked.starts_with(symbol)) marked.insert(0, symbol);
  if (!settings_.split) return word(marked);
  const std::string_view all = marked;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(symbol, begin + 1), all.size());
    word(all.substr(begin, end - begin));
    begin = end;
  }
}

std::string MetaspaceDecoder::first_token_bytes(std::string_view token) const {
  if (!strips_) return decode(token, settings_.prepend ? "" : " ");
  std::string out = byte_of(token) == ' ' ? " " : decode(token, " ");
  if (out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::string MetaspaceDecoder::decode(std::string_view token, std::string_view space) const {
  return replaced(token, settings_.replacement, space);
}

std::optional<char> MetaspaceDecoder::byte_of(std::string_view token) const {
  if (!bytes_ || token.size() != 6 || !token.starts_with("<0x") || token.back() != '>')
    return std::nullopt;
  unsigned value = 0;
  const auto digits = token.substr(3, 2);
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
  if (error != std::errc() || end != digits.end()) return std::nullopt;
  return static_cast<char>(value);
}

namespace {

// Whether a sequence consists of components of these types.
bool is_of(const JsonView& parts, std::initializer_list<std::string_view> types) {
  if (num_parts(parts) != types.size()) return false;
  size_t i = 0;
  for (const std::string_view type : types)
    if (parts.at(i++).at("type").string() != type) return false;
  return true;
}

}  // namespace

std::unique_ptr<Decoder> make_metaspace_decoder(const JsonView& json) {
  const JsonView type = json.at("type");
  if (type.string() == "Metaspace")
    return std::make_unique<MetaspaceDecoder>(Metaspace(json), false);
  const JsonView parts = json.at("decoders");
  if (is_of(parts, {"ByteFallback", "Metaspace"}))
    return std::make_unique<MetaspaceDecoder>(Metaspace(parts.at(size_t{1})), true);
  const bool strips = is_of(parts, {"Replace", "ByteFallback", "Fuse", "Strip"});
  if (strips) {
    const JsonView strip = parts.at(size_t{3});
    if (strip.at("content").string() != " " || strip.at("start").count(1) != 1 ||
        strip.at("stop").count(0) != 0)
      strip.fail_unsupported("is not one space at the start");
  }
  if (strips || is_of(parts, {"Replace", "ByteFallback", "Fuse"})) {
    const JsonView replace = parts.at(size_t{0});
    const JsonView symbol = replace.at("pattern").at("String");
    if (symbol.string().empty()) symbol.fail("is empty");
    if (replace.at("content").string() == " ")
      return std::make_unique<MetaspaceDecoder>(Metaspace(symbol.string(), false), true, strips);
  }
  parts.fail_unsupported("such decoders one after the other are not supported");
}

}  // namespace tandem
