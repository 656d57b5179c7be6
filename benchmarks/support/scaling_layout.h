// How the ranks of a benchmark share a model: dp groups of pp stages of tp ranks.
#pragma once

#include <cctype>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "models/stage_plan.h"

namespace tandem::bench {

struct ScalingLayout {
  int tp = 1, pp = 1, dp = 1;
  std::vector<int32_t> layers = {};  // of each stage, as --pipeline-layers; none: as a server plans

  int group() const { return tp * pp; }
  int ranks() const { return group() * dp; }
  int stage_of(int rank) const { return rank % group() / tp; }
  std::string name() const {
    std::string out;
    for (const auto& [word, count] : {std::pair{"tp", tp}, {"pp", pp}, {"dp", dp}})
      if (count > 1) out += word + std::to_string(count);
    return out.empty() ? "1" : out;
  }
};

// "1", "tp2", "tp2pp2". Of the lists of layers the one of as many stages counts.
inline ScalingLayout parse_layout(const std::string& name,
                                  const std::vector<std::vector<int32_t>>& layers = {}) {
  ScalingLayout out;
  const std::map<std::string, int*> counts{{"tp", &out.tp}, {"pp", &out.pp}, {"dp", &out.dp}};
  if (name.empty()) throw std::invalid_argument("an empty name of a layout");
  for (size_t at = name == "1" ? 1 : 0; at < name.size();) {
    const auto it = counts.find(name.substr(at, 2));
    size_t end = at + 2;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    if (it == counts.end() || end == at + 2 || end > at + 4)
      throw std::invalid_argument("a layout is 1, tp2, tp2pp2, pp2dp2 …, not " + name);
    *it->second = std::stoi(name.substr(at + 2, end - at - 2));
    at = end;
  }
  if (out.tp < 1 || out.pp < 1 || out.dp < 1 || out.ranks() > 8)
    throw std::invalid_argument(name + ": 1 to 8 ranks");
  for (const auto& list : layers)
    if (out.pp > 1 && static_cast<int>(list.size()) == out.pp) out.layers = list;
  return out;
}

// The stages' layers; one that has them all where there are no stages.
inline std::vector<Stage> stages_of(const ScalingLayout& layout, const ModelConfig& config,
                                    const Checkpoint& checkpoint) {
  return plan_stages(layer_sizes(config, checkpoint),
                     {.stages = layout.pp, .layers = layout.layers});
}

}  // namespace tandem::bench
