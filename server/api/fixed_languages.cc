#include "server/api/fixed_languages.h"

#include <string_view>

#include "text/language_names.h"

namespace tandem::server {

std::set<std::string> FixedLanguages::task_sources() const {
  std::set<std::string> out;
  for (const auto& [pair, task] : tasks) out.insert(pair.first);
  return out;
}

std::set<std::string> FixedLanguages::task_targets(const std::string& of_source) const {
  std::set<std::string> out;
  for (const auto& [pair, task] : tasks)
    if (of_source.empty() || pair.first == of_source) out.insert(pair.second);
  return out;
}

bool FixedLanguages::has(const std::string& code) const {
  return code == source || code == target || task_sources().contains(code) ||
         task_targets().contains(code);
}

FixedLanguages languages_of_tasks(const std::vector<std::string>& tasks) {
  constexpr std::string_view kBegin = "translation_", kMiddle = "_to_";
  FixedLanguages out;
  for (const std::string& task : tasks) {
    if (!task.starts_with(kBegin)) continue;
    const size_t middle = task.find(kMiddle, kBegin.size());
    if (middle == task.npos) continue;
    const auto source = tag_of_code(task.substr(kBegin.size(), middle - kBegin.size()));
    const auto target = tag_of_code(task.substr(middle + kMiddle.size()));
    if (source && target) out.tasks[{source->language, target->language}] = task;
  }
  if (const auto sources = out.task_sources(); sources.size() == 1) out.source = *sources.begin();
  return out;
}

}  // namespace tandem::server
