#include "models/adapters/inspect_adapter.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "base/json.h"
#include "models/adapters/adapter.h"

namespace tandem {
namespace fs = std::filesystem;

bool is_adapter(const fs::path& directory) {
  std::error_code error;
  return fs::exists(directory / "adapter_config.json", error) &&
         !fs::exists(directory / "config.json", error);
}

nlohmann::ordered_json inspect_adapter(const fs::path& directory) {
  const Adapter adapter = Adapter::open(directory, "", AdapterConfig::kMaxRank);
  std::set<int64_t> ranks;
  std::set<std::string> ends, whole;
  int64_t parameters = 0;
  for (const auto& [module, change] : adapter.changes()) {
    (change.weight ? whole : ends).insert(module.substr(module.rfind('.') + 1));
    if (change.a) ranks.insert(change.a->shape[0]);
    for (const auto* tensor :
         {&change.a, &change.b, &change.b_bias, &change.magnitude, &change.weight, &change.bias}) {
      if (!*tensor) continue;
      int64_t size = 1;
      for (const int64_t d : (*tensor)->shape) size *= d;
      parameters += size;
    }
  }
  const AdapterConfig& config = adapter.config();
  return {{"kind", config.weight_decomposed ? "DoRA adapter" : "LoRA adapter"},
          {"base_model", config.base},
          {"ranks", ranks},
          {"alpha", config.alpha},
          {"rank_stabilized", config.rank_stabilized},
          {"changed_modules", adapter.changes().size()},
          {"low_rank", ends},
          {"whole_weights", whole},
          {"parameters", parameters},
          {"bytes", adapter.bytes()}};
}

std::string adapter_to_text(const nlohmann::ordered_json& adapter) {
  std::string out;
  for (const auto& [key, value] : adapter.items()) {
    std::string name = key, text;
    std::ranges::replace(name, '_', ' ');
    name.resize(std::max<size_t>(name.size() + 1, 18), ' ');
    if (value.is_array())
      for (const auto& one : value) text += (text.empty() ? "" : ", ") + json_text(one);
    else
      text = json_text(value);
    std::erase(text, '"');
    out += name + text + "\n";
  }
  return out;
}

}  // namespace tandem
