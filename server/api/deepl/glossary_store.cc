#include "server/api/deepl/glossary_store.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "server/http/url.h"

namespace tandem::server {

size_t GlossaryDictionary::bytes() const {
  constexpr size_t kEntry = 160;  // beside its texts
  size_t out = 0;
  for (const auto& [source, target] : glossary->entries())
    out += source.size() + target.size() + kEntry;
  return out;
}

size_t StoredGlossary::bytes() const {
  size_t out = name.size();
  for (const GlossaryDictionary& one : dictionaries) out += one.bytes();
  return out;
}

const GlossaryDictionary* StoredGlossary::find(const std::string& source,
                                               const std::string& target) const {
  for (const GlossaryDictionary& one : dictionaries)
    if (one.source_lang == source && one.target_lang == target) return &one;
  return nullptr;
}

const GlossaryDictionary* StoredGlossary::find(const LanguageSet& languages,
                                               const std::string& source,
                                               const std::string& target) const {
  const auto means = [&](const std::string& code, const std::string& name) {
    return code == name || languages.meant(code) == name;
  };
  for (const GlossaryDictionary& one : dictionaries)
    if (means(one.source_lang, source) && means(one.target_lang, target)) return &one;
  return nullptr;
}

void GlossaryStore::check_room(size_t more, size_t less) const {
  if (bytes_ - less + more > kMostBytes)
    throw InputError(ErrorKind::kResource,
                     "entries: the glossaries here take " + std::to_string(kMostBytes >> 20) +
                         " MiB at most; delete one",
                     "entries");
}

StoredGlossary GlossaryStore::add(StoredGlossary glossary) {
  glossary.id = random_id();
  glossary.created = std::time(nullptr);
  const MutexLock lock(mutex_);
  if (glossaries_.size() >= kMostGlossaries)
    throw InputError(ErrorKind::kResource,
                     "name: there are " + std::to_string(kMostGlossaries) +
                         " glossaries here, and no room for more",
                     "name");
  check_room(glossary.bytes(), 0);
  bytes_ += glossary.bytes();
  glossaries_.push_back(glossary);
  return glossary;
}

std::optional<StoredGlossary> GlossaryStore::find(const std::string& id) const {
  const MutexLock lock(mutex_);
  for (const StoredGlossary& one : glossaries_)
    if (one.id == id) return one;
  return std::nullopt;
}

std::vector<StoredGlossary> GlossaryStore::all() const {
  const MutexLock lock(mutex_);
  return glossaries_;
}

bool GlossaryStore::erase(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto it = std::find_if(glossaries_.begin(), glossaries_.end(),
                               [&](const StoredGlossary& one) { return one.id == id; });
  if (it == glossaries_.end()) return false;
  bytes_ -= it->bytes();
  glossaries_.erase(it);
  return true;
}

std::optional<StoredGlossary> GlossaryStore::update(
    const std::string& id, const std::function<void(StoredGlossary&)>& change) {
  const MutexLock lock(mutex_);
  for (StoredGlossary& one : glossaries_) {
    if (one.id != id) continue;
    StoredGlossary changed = one;
    change(changed);
    const size_t before = one.bytes(), after = changed.bytes();
    check_room(after, before);
    bytes_ = bytes_ - before + after;
    one = std::move(changed);
    return one;
  }
  return std::nullopt;
}

}  // namespace tandem::server
