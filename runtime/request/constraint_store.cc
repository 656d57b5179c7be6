#include "runtime/request/constraint_store.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "models/family.h"
#include "text/grammar/gbnf_parser.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/json/json_schema.h"
#include "text/grammar/regex_parser.h"

namespace tandem {
namespace {

constexpr size_t kMaxEntries = 32;
constexpr int kMaxDepth = 64;  // of a schema, as of requests

nlohmann::ordered_json parse_schema(const std::string& text) {
  using Json = nlohmann::ordered_json;
  bool too_deep = false;
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  try {
    Json schema = Json::parse(text, limit);
    if (too_deep)
      throw grammar_explodes("nested deeper than " + std::to_string(kMaxDepth) + " levels");
    return schema;
  } catch (const Json::exception&) {
    throw wrong_grammar("it is not valid JSON");
  }
}

// With what is wrong with it.
Grammar grammar_of(const proto::Constraint& constraint) {
  Grammar grammar;
  const auto root = [&] {
    switch (constraint.kind_case()) {
      case proto::Constraint::kRegex: return parse_regex(constraint.regex(), grammar);
      case proto::Constraint::kChoice: {
        std::vector<Grammar::Ref> texts;
        for (const std::string& text : constraint.choice().texts())
          texts.push_back(grammar.text(text));
        return grammar.alternatives(std::move(texts));
      }
      case proto::Constraint::kJsonSchema:
        return parse_json_schema(parse_schema(constraint.json_schema()), grammar);
      case proto::Constraint::kJsonObject: return any_json_object(grammar);
      case proto::Constraint::kGrammar: return parse_gbnf(constraint.grammar(), grammar);
      case proto::Constraint::KIND_NOT_SET: break;
    }
    throw wrong_grammar("it says nothing");
  };
  grammar.set_root(root());
  return grammar;
}

std::string key_of(proto::Constraint constraint) {
  constraint.clear_field();
  return constraint.SerializeAsString();
}

}  // namespace

std::shared_ptr<ConstraintStore> ConstraintStore::of(const std::filesystem::path& directory,
                                                     int32_t vocab_size) {
  static Mutex mutex;
  static std::map<std::pair<std::filesystem::path, int32_t>, std::weak_ptr<ConstraintStore>> stores;
  const MutexLock lock(mutex);
  auto& known = stores[{directory, vocab_size}];
  std::shared_ptr<ConstraintStore> store = known.lock();
  if (store == nullptr) known = store = std::make_shared<ConstraintStore>(directory, vocab_size);
  return store;
}

std::shared_ptr<const TokenVocabulary> ConstraintStore::vocabulary() {
  const MutexLock lock(vocabulary_mutex_);
  if (vocabulary_ == nullptr)
    vocabulary_ = std::make_shared<const TokenVocabulary>(*load_tokenizer(directory_), vocab_size_);
  return vocabulary_;
}

std::shared_ptr<const TokenConstraint> ConstraintStore::find(const std::string& key) {
  const MutexLock lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->second;
}

std::shared_ptr<const TokenConstraint> ConstraintStore::get(const proto::Constraint& constraint) {
  const std::string key = key_of(constraint);
  if (auto found = find(key)) return found;
  std::shared_ptr<const TokenConstraint> made;
  try {
    made = std::make_shared<const TokenConstraint>(grammar_of(constraint), vocabulary());
  } catch (const GrammarError& error) {
    throw InputError(error.kind(), constraint.field() + ": " + error.what(), constraint.field());
  }
  const MutexLock lock(mutex_);
  if (const auto it = by_key_.find(key); it != by_key_.end()) return it->second->second;
  entries_.emplace_front(key, made);
  by_key_[key] = entries_.begin();
  if (entries_.size() > kMaxEntries) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return made;
}

}  // namespace tandem
