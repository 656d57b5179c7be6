// Names of languages, and what was meant by those that are none.
#include "text/languages.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

constexpr size_t kMostNamed = 5;    // after "did you mean"
constexpr size_t kMostListed = 12;  // all that there are

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_name_letter(char c) {
  return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// In small letters, with one mark between the parts.
std::string plain(std::string_view name) {
  std::string out(name);
  for (char& c : out)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "en" of "en_XX", in small letters.
std::string language_part(std::string_view name) {
  const std::string out = plain(name);
  return out.substr(0, out.find('_'));
}

using Tagged = std::vector<std::pair<LanguageTag, std::string>>;

// Drops those that `keeps` is false for, unless that would leave none.
template <class Keeps>
void prefer(Tagged& list, const Keeps& keeps) {
  Tagged kept;
  std::copy_if(list.begin(), list.end(), std::back_inserter(kept),
               [&](const auto& entry) { return keeps(entry.first); });
  if (!kept.empty()) list = std::move(kept);
}

// Those of the language, in the script that is said.
Tagged same_language(const Tagged& all, const LanguageTag& wanted) {
  const bool says_script = !wanted.script.empty() || !wanted.region.empty();
  const std::string script = says_script ? wanted.usual_script() : std::string();
  Tagged out;
  for (const auto& [tag, name] : all) {
    if (tag.language != wanted.language) continue;
    const std::string own = script.empty() ? std::string() : tag.usual_script();
    if (own.empty() || own == script) out.emplace_back(tag, name);
  }
  return out;
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
    if (auto tag = tag_of_code(name_of(token))) tags_.emplace_back(std::move(*tag), name_of(token));
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
  if (const auto known = this->meant(name)) return ids_.at(*known);
  throw invalid_request(field, refusal(name));
}

std::string LanguageSet::refusal(const std::string& name, bool lists_all) const {
  std::string message = in_quotes(name) + " is not a language of this model";
  const std::vector<std::string> meant = nearest(name);
  if (!meant.empty())
    message += " (did you mean " + joined(meant) + "?)";
  else if (lists_all || ids_.size() <= kMostListed)
    message += ", which has " + joined(names());
  else
    message += "; it has " + std::to_string(ids_.size()) +
               ", which tandem inspect and a server's GET /languages list";
  return message;
}

std::optional<std::string> LanguageSet::meant(std::string_view name) const {
  for (const auto& [known, id] : ids_)
    if (known == name || plain(known) == plain(name)) return known;
  const auto wanted = language_tag(name);
  if (!wanted) return std::nullopt;
  Tagged found = same_language(tags_, *wanted);
  // Norwegian is written in two ways, of which one is the usual one.
  if (LanguageTag other = *wanted;
      found.empty() && (other.language == "no" || other.language == "nb")) {
    other.language = other.language == "no" ? "nb" : "no";
    found = same_language(tags_, other);
  }
  if (wanted->script.empty()) {
    const std::string usual = wanted->usual_script();
    prefer(found, [&](const LanguageTag& tag) { return tag.script.empty(); });
    prefer(found, [&](const LanguageTag& tag) { return tag.usual_script() == usual; });
  }
  if (!wanted->region.empty())
    prefer(found, [&](const LanguageTag& tag) { return tag.region == wanted->region; });
  if (found.size() > 1) prefer(found, [](const LanguageTag& tag) { return tag.region.empty(); });
  return found.size() == 1 ? std::optional(found.front().second) : std::nullopt;
}

std::vector<std::string> LanguageSet::nearest(std::string_view name) const {
  const std::string wanted = language_part(name);
  const auto tag = language_tag(name);
  std::vector<std::string> out;
  for (const auto& [known, code] : tags_)
    if (tag && known.language == tag->language) out.push_back(code);
  for (const auto& [known, id] : ids_) {
    if (tag || wanted.size() < 3) break;
    const std::string part = language_part(known);
    if (part.starts_with(wanted) || (part.size() > 1 && wanted.starts_with(part)))
      out.push_back(known);
  }
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
