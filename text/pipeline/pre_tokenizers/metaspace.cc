#include "text/pipeline/pre_tokenizers/metaspace.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/strings/utf8.h"
#include "text/replaced.h"

namespace tandem {
namespace {

Metaspace::Scheme read_scheme(const JsonView& json) {
  if (json.string() == "always") return Metaspace::Scheme::kAlways;
  if (json.string() == "first") return Metaspace::Scheme::kFirst;
  if (json.string() == "never") return Metaspace::Scheme::kNever;
  json.fail("there is no scheme " + json.string());
}

// Parts of a text that begin with the symbol, but for the first one.
template <class Part>
void each_marked(std::string_view text, const std::string& symbol, const Part& part) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(symbol, begin + 1), text.size());
    part(begin, end);
    begin = end;
  }
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

bool MetaspacePreTokenizer::prepends(bool starts) const {
  using Scheme = Metaspace::Scheme;
  return settings_.scheme == Scheme::kAlways || (settings_.scheme == Scheme::kFirst && starts);
}

void MetaspacePreTokenizer::split(const Word& text, GrowthBudget& budget,
                                  const WordSink& sink) const {
  if (text.text.empty()) return;
  const std::string& symbol = settings_.replacement;
  std::string marked = replaced(text.text, " ", symbol);
  if (prepends(text.starts) && !marked.starts_with(symbol)) marked.insert(0, symbol);
  budget.spend(text.text.size(), marked.size());
  if (!settings_.split) return sink({marked});
  each_marked(marked, symbol, [&](size_t begin, size_t end) {
    sink({std::string_view(marked).substr(begin, end - begin)});
  });
}

void MetaspacePreTokenizer::align(const AlignedText& text, GrowthBudget& budget,
                                  const AlignedSink& sink) const {
  const std::string& symbol = settings_.replacement;
  AlignedText marked = text;
  marked.replace(literal_spans(text.text(), " "), symbol);
  if (prepends(text.starts()) && !marked.text().starts_with(symbol)) marked.prepend(symbol);
  budget.spend(text.text().size(), marked.text().size());
  if (!settings_.split) return sink(marked);
  each_marked(marked.text(), symbol,
              [&](size_t begin, size_t end) { sink(marked.slice(begin, end)); });
}

}  // namespace tandem
