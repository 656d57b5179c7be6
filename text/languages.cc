// Names of languages, and what was meant by those that are none.
#include "text/languages.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/printable.h"

namespace tandem {
namespace {

constexpr size_t kMostNamed = 5;    // after "did you mean"
constexpr size_t kMostListed = 12;  // all that there are

// Two letters (ISO 639-1) whose three (ISO 639-3, as NLLB has them) do not follow from them.
constexpr std::pair<std::string_view, std::string_view> kThreeLetters[] = {
    {"ar", "arb"}, {"az", "azj"}, {"be", "bel"}, {"bg", "bul"}, {"bn", "ben"}, {"bs", "bos"},
    {"cs", "ces"}, {"el", "ell"}, {"eo", "epo"}, {"es", "spa"}, {"et", "est"}, {"fa", "pes"},
    {"fi", "fin"}, {"ga", "gle"}, {"gd", "gla"}, {"gl", "glg"}, {"ha", "hau"}, {"he", "heb"},
    {"hr", "hrv"}, {"ht", "hat"}, {"id", "ind"}, {"ig", "ibo"}, {"ja", "jpn"}, {"jv", "jav"},
    {"ka", "kat"}, {"kk", "kaz"}, {"km", "khm"}, {"ko", "kor"}, {"ku", "kmr"}, {"ky", "kir"},
    {"lb", "ltz"}, {"lo", "lao"}, {"lt", "lit"}, {"lv", "lvs"}, {"mg", "plt"}, {"mk", "mkd"},
    {"ml", "mal"}, {"mr", "mar"}, {"ms", "zsm"}, {"mt", "mlt"}, {"ne", "npi"}, {"pa", "pan"},
    {"pl", "pol"}, {"ps", "pbt"}, {"pt", "por"}, {"ru", "rus"}, {"rw", "kin"}, {"sk", "slk"},
    {"sl", "slv"}, {"so", "som"}, {"sq", "als"}, {"sr", "srp"}, {"sv", "swe"}, {"sw", "swh"},
    {"ta", "tam"}, {"tg", "tgk"}, {"tk", "tuk"}, {"tl", "tgl"}, {"tr", "tur"}, {"tt", "tat"},
    {"ug", "uig"}, {"uk", "ukr"}, {"ur", "urd"}, {"uz", "uzn"}, {"yi", "ydd"}, {"zh", "zho"}};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_name_letter(char c) {
  return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// "en" of "en_XX", in small letters.
std::string language_part(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '_' || c == '-') break;
    out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string_view three_letters(std::string_view two) {
  for (const auto& [a, b] : kThreeLetters)
    if (a == two) return b;
  return {};
}

// 0: the same language; 1: one name begins with the other ("english", "eng"); nothing: neither.
std::optional<int> likeness(const std::string& wanted, const std::string& candidate) {
  if (wanted.size() < 2) return std::nullopt;
  const std::string part = language_part(candidate);
  const std::string_view longer = three_letters(wanted), shorter = three_letters(part);
  if (part == wanted || part == longer || (!shorter.empty() && shorter == wanted)) return 0;
  if (!longer.empty()) return std::nullopt;
  if (part.starts_with(wanted) || (part.size() > 1 && wanted.starts_with(part))) return 1;
  return std::nullopt;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
  return out;
}

}  // namespace

bool has_shape_of_language(const TokenizerRule::Languages& rule, std::string_view token) {
  if (!rule.before.empty()) {
    if (token.size() <= rule.before.size() + rule.behind.size()) return false;
    if (!token.starts_with(rule.before) || !token.ends_with(rule.behind)) return false;
    token.remove_prefix(rule.before.size());
    token.remove_suffix(rule.behind.size());
    return std::all_of(token.begin(), token.end(), is_name_letter);
  }
  const size_t mark = token.find('_');
  if (mark != 2 && mark != 3) return false;
  const std::string_view country = token.substr(mark + 1);
  if (!std::all_of(token.begin(), token.begin() + static_cast<ptrdiff_t>(mark), is_lower))
    return false;
  if (country.size() == 2) return is_upper(country[0]) && is_upper(country[1]);
  return country.size() == 4 && is_upper(country[0]) &&
         std::all_of(country.begin() + 1, country.end(), is_lower);
}

LanguageSet::LanguageSet(Rule rule, const std::map<std::string, int32_t>& tokens, bool has_source,
                         const std::string& source)
    : rule_(std::move(rule)), has_source_(has_source) {
  for (const auto& [token, id] : tokens) {
    ids_[name_of(token)] = id;
    if (token == source) source_ = name_of(token);
  }
}

std::string LanguageSet::name_of(const std::string& token) const {
  const size_t before = rule_.before.size();
  return token.substr(before, token.size() - before - rule_.behind.size());
}

std::vector<std::string> LanguageSet::names() const {
  std::vector<std::string> out;
  for (const auto& [name, id] : ids_) out.push_back(name);
  return out;
}

bool LanguageSet::is_language(int32_t id) const {
  return std::any_of(ids_.begin(), ids_.end(),
                     [&](const auto& entry) { return entry.second == id; });
}

int32_t LanguageSet::id_of(const std::string& name, const std::string& field) const {
  if (empty()) throw not_supported(field, "this model has no languages to choose from");
  if (field == "src_lang" && !has_source_)
    throw not_supported(field,
                        "this model reads one language; only the target's (tgt_lang) has a "
                        "name");
  if (const auto it = ids_.find(name); it != ids_.end()) return it->second;
  if (!rule_.before.empty() && has_shape_of_language(rule_, name))
    if (const auto it = ids_.find(name_of(name)); it != ids_.end()) return it->second;
  std::string message = in_quotes(name) + " is not a language of this model";
  const std::vector<std::string> meant = nearest(name);
  if (!meant.empty())
    message += " (did you mean " + joined(meant) + "?)";
  else if (ids_.size() <= kMostListed)
    message += ", which has " + joined(names());
  else
    message += "; tandem inspect lists the " + std::to_string(ids_.size()) + " that it has";
  throw invalid_request(field, message);
}

std::optional<std::string> LanguageSet::meant(std::string_view name) const {
  const auto small = [](std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
  };
  const std::string wanted = language_part(name);
  std::vector<std::string> same, longer;  // longer: with a third letter
  for (const auto& [known, id] : ids_) {
    if (small(known) == small(name)) return known;
    const auto how = likeness(wanted, known);
    if (how == 0) same.push_back(known);
    if (how == 1 && wanted.size() == 2 && language_part(known).size() == 3) longer.push_back(known);
  }
  const auto& found = same.empty() ? longer : same;
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

std::vector<std::string> LanguageSet::nearest(std::string_view name) const {
  const std::string wanted = language_part(name);
  std::vector<std::string> same, alike;
  for (const auto& [known, id] : ids_)
    if (const auto how = likeness(wanted, known)) (*how == 0 ? same : alike).push_back(known);
  std::vector<std::string> out = same.empty() ? std::move(alike) : std::move(same);
  // A slip within the name is nearer than the language's other scripts: eng_Latm.
  if (const auto close = nearest_name(name, names())) {
    const auto at = std::find(out.begin(), out.end(), *close);
    if (at != out.end())
      std::rotate(out.begin(), at, std::next(at));
    else if (out.empty())
      out.push_back(*close);
  }
  if (out.size() > kMostNamed) out.resize(kMostNamed);
  return out;
}

}  // namespace tandem
