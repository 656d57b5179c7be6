#include "text/pipeline/pre_tokenizers/metaspace.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/utf8.h"

namespace tandem {
namespace {

Metaspace::Scheme read_scheme(const JsonView& json) {
  if (json.string() == "always") return Metaspace::Scheme::kAlways;
  if (json.string() == "first") return Metaspace::Scheme::kFirst;
  if (json.string() == "never") return Metaspace::Scheme::kNever;
  json.fail("there is no scheme " + json.string());
}

}  // namespace

// `add_prefix_space` is older than `prepend_scheme`; str_rep says again what `replacement` does.
Metaspace::Metaspace(const JsonView& json) : replacement(json.at("replacement").string()) {
  const size_t length = replacement.size();
  if (length == 0 || static_cast<size_t>(code_point_at(replacement, 0).length) != length)
    json.at("replacement").fail("expected one character");
  if (const auto flag = json.find("add_prefix_space"); flag && !flag->boolean())
    scheme = Scheme::kNever;
  if (const auto named = json.find("prepend_scheme")) scheme = read_scheme(*named);
  if (const auto flag = json.find("split")) split = flag->boolean();
}

void MetaspacePreTokenizer::split(const Word& text, const WordSink& sink) const {
  using Scheme = Metaspace::Scheme;
  if (text.text.empty()) return;
  const std::string& symbol = settings_.replacement;
  std::string marked;
  for (const char c : text.text) c == ' ' ? void(marked += symbol) : marked.push_back(c);
  const bool prepends =
      settings_.scheme == Scheme::kAlways || (settings_.scheme == Scheme::kFirst && text.starts);
  if (prepends && !marked.starts_with(symbol)) marked.insert(0, symbol);
  if (!settings_.split) return sink({marked, text.starts});
  const std::string_view all = marked;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(symbol, begin + 1), all.size());
    sink({all.substr(begin, end - begin), text.starts && begin == 0});
    begin = end;
  }
}

}  // namespace tandem
