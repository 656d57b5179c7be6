// The languages of a model whose tokenizer has no names for them: opus-mt-en-de, opus-mt-en-roa;
// T5, where a pair of languages is a task.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tandem::server {

// Codes ("en", "de"). Empty: not known, several ("mul"), or named by each request (the targets of
// opus-mt-en-roa).
struct FixedLanguages {
  std::string source = {}, target = {};
  // Source and target → the task (task_specific_params): "translation_en_to_de".
  std::map<std::pair<std::string, std::string>, std::string> tasks = {};

  bool is_pair() const { return !source.empty() && !target.empty(); }
  // Where each pair is a task: all sources, all targets, the targets of a source.
  std::set<std::string> task_sources() const;
  std::set<std::string> task_targets(const std::string& of_source = {}) const;
  bool has(const std::string& code) const;
};

// Of a model without other names of languages. Tasks that are no translations count for nothing.
FixedLanguages languages_of_tasks(const std::vector<std::string>& tasks);

}  // namespace tandem::server
