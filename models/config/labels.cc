#include "models/config/labels.h"

#include <cctype>
#include <map>
#include <string_view>

#include "models/family.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kMostLabels = 1 << 20;

bool is_number(std::string_view text) {
  if (text.empty() || text.size() > 7) return false;
  for (const char c : text)
    if (c < '0' || c > '9') return false;
  return true;
}

std::vector<std::string> named_labels(const ConfigReader& in, const json& id2label) {
  const char* key = "id2label";
  if (!id2label.is_object() || id2label.empty())
    in.fail(key, "is " + ConfigReader::show(id2label) + ", expected an object of ids and names");
  std::map<int, std::string> by_id;
  for (const auto& [id, name] : id2label.items()) {
    if (!is_number(id)) in.fail(key, "has the key " + ConfigReader::show(id) + ", expected an id");
    if (!name.is_string())
      in.fail(key, "names " + ConfigReader::show(name) + ", expected a text for " + id);
    by_id[std::stoi(id)] = name.get<std::string>();
  }
  std::vector<std::string> names;
  for (auto& [id, name] : by_id) {
    if (id != static_cast<int>(names.size()))
      in.fail(key, "has no label " + std::to_string(names.size()));
    names.push_back(std::move(name));
  }
  return names;
}

bool is_entailment(std::string_view name) {
  constexpr std::string_view kBeginning = "entail";
  if (name.size() < kBeginning.size()) return false;
  for (size_t i = 0; i < kBeginning.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(name[i])) != kBeginning[i]) return false;
  return true;
}

// label2id decides where it is there, as in HuggingFace.
std::optional<int> find_entailment(const ConfigReader& in, const std::vector<std::string>& names) {
  const int count = static_cast<int>(names.size());
  if (const json* ids = in.find("label2id"); ids != nullptr && ids->is_object()) {
    for (const auto& [name, id] : ids->items()) {
      if (!is_entailment(name)) continue;
      if (!id.is_number_integer() || id < 0 || id >= count)
        in.fail("label2id", "gives " + ConfigReader::show(name) + " the id " +
                                ConfigReader::show(id) + ", expected one below " +
                                std::to_string(count));
      return id.get<int>();
    }
    return std::nullopt;
  }
  for (int i = 0; i < count; ++i)
    if (is_entailment(names[static_cast<size_t>(i)])) return i;
  return std::nullopt;
}

ModelLabels::Activation activation_of(const ConfigReader& in, size_t count) {
  using enum ModelLabels::Activation;
  const std::string problem = in.find("problem_type") ? in.string("problem_type") : "";
  if (problem == "regression") return kNone;
  if (problem == "multi_label_classification" || count == 1) return kSigmoid;
  return kSoftmax;
}

}  // namespace

ModelLabels labels_of(const ModelConfig& config) {
  const ConfigReader in = config.reader();
  ModelLabels out;
  if (const json* id2label = in.find("id2label")) {
    out.names = named_labels(in, *id2label);
  } else {
    const ModelFamily* family = family_of_type(config.model_type);
    const int otherwise = (family != nullptr ? *family : ModelFamily()).default_labels;
    const int count = in.size("num_labels", kMostLabels).value_or(otherwise);
    for (int i = 0; i < count; ++i) out.names.push_back("LABEL_" + std::to_string(i));
  }
  out.entailment = find_entailment(in, out.names);
  out.activation = activation_of(in, out.names.size());
  return out;
}

}  // namespace tandem
