#include "models/registry.h"

#include <map>

#include "base/error.h"
#include "base/printable.h"

namespace tandem {

// One line per architecture, expanded twice: the declaration and the row of the table.
#define TANDEM_MODELS(MODEL)                       \
  MODEL("BartForConditionalGeneration", make_bart) \
  MODEL("BartModel", make_bart)

#define MODEL(architecture, factory) \
  std::unique_ptr<Model> factory(const ModelConfig&, Weights, const Build&);
TANDEM_MODELS(MODEL)
#undef MODEL

namespace {

std::map<std::string, ModelFactory>& table() {
#define MODEL(architecture, factory) {architecture, factory},
  static std::map<std::string, ModelFactory> models = {TANDEM_MODELS(MODEL)};
#undef MODEL
  return models;
}

}  // namespace

bool is_supported(const std::string& architecture) { return table().contains(architecture); }

ModelFactory find_model(const ModelConfig& config) {
  const auto it = table().find(config.architecture);
  if (it != table().end()) return it->second;
  std::string known;
  for (const auto& [name, factory] : table()) known += (known.empty() ? "" : ", ") + name;
  throw invalid_model(
      (config.directory / "config.json").string(),
      printable(config.architecture) + " (" + printable(config.model_type) +
          ") is not an encoder/decoder model that Tandem supports; supported: " + known);
}

std::vector<std::string> architectures() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : table()) names.push_back(name);
  return names;
}

void register_model(const std::string& architecture, ModelFactory factory) {
  table()[architecture] = factory;
}

}  // namespace tandem
