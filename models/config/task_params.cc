#include "models/config/task_params.h"

namespace tandem {

std::map<std::string, TaskParams> task_params(const ModelConfig& config) {
  std::map<std::string, TaskParams> out;
  if (!config.raw.is_object()) return out;
  const auto all = config.raw.find("task_specific_params");
  if (all == config.raw.end() || !all->is_object()) return out;
  for (const auto& [name, params] : all->items()) {
    if (!params.is_object()) continue;
    TaskParams task{{}, params};
    const auto prefix = params.find("prefix");
    if (prefix != params.end() && prefix->is_string()) task.prefix = prefix->get<std::string>();
    task.generation.erase("prefix");
    out.emplace(name, std::move(task));
  }
  return out;
}

}  // namespace tandem
