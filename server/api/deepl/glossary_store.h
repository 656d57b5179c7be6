// Glossaries of DeepL's interface: in memory, as long as the server runs.
#pragma once

#include <cstddef>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "text/documents/glossary.h"
#include "text/languages.h"

namespace tandem::server {

struct GlossaryDictionary {
  std::string source_lang, target_lang;  // as DeepL's codes, in lower case
  std::shared_ptr<const Glossary> glossary;
  size_t bytes() const;
};

struct StoredGlossary {
  std::string id, name;
  std::time_t created = 0;
  std::vector<GlossaryDictionary> dictionaries;  // one for each pair of languages
  size_t bytes() const;
  // Null: there is none for the pair.
  const GlossaryDictionary* find(const std::string& source, const std::string& target) const;
  // The same by the model's names of the languages.
  const GlossaryDictionary* find(const LanguageSet& languages, const std::string& source,
                                 const std::string& target) const;
};

// Any thread.
class GlossaryStore {
 public:
  static constexpr size_t kMostGlossaries = 1000;
  static constexpr size_t kMostBytes = size_t{64} << 20;  // of all

  // Gives it an id. Throws InputError (kResource): there is no room.
  StoredGlossary add(StoredGlossary glossary);
  std::optional<StoredGlossary> find(const std::string& id) const;
  std::vector<StoredGlossary> all() const;  // in the order of their making
  bool erase(const std::string& id);
  // Changes it by `change`, at once for everybody. Nothing: there is none. Throws what `change`
  // throws, and as add().
  std::optional<StoredGlossary> update(const std::string& id,
                                       const std::function<void(StoredGlossary&)>& change);

 private:
  void check_room(size_t more, size_t less) const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<StoredGlossary> glossaries_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::server
