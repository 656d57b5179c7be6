#include "models/config/model_uses.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "models/config/task_params.h"

namespace tandem {
namespace {

constexpr std::string_view kPipelines[] = {"summarization", "translation"};
constexpr int kMostLines = 400;  // of a card's head, of 64 KiB at most
constexpr std::streamsize kMostBytes = 64 << 10;

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r'\"";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

void add(std::vector<std::string>& pipelines, std::string_view name) {
  if (std::find(std::begin(kPipelines), std::end(kPipelines), name) == std::end(kPipelines)) return;
  if (std::find(pipelines.begin(), pipelines.end(), name) == pipelines.end())
    pipelines.emplace_back(name);
}

std::string beginning_of(const std::filesystem::path& file) {
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in) return {};
  in.read(text.data(), kMostBytes);
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// The card's head is YAML between lines of "---". Its `pipeline_tag`, and whatever else is an item
// of a list there: tags.
void read_card(const std::filesystem::path& file, std::vector<std::string>& pipelines) {
  const std::string text = beginning_of(file);
  std::string_view rest = text;
  std::vector<std::string> tags;
  for (int i = 0; i < kMostLines && !rest.empty(); ++i) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = without_blanks(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    constexpr std::string_view kTag = "pipeline_tag:";
    if (i == 0 && line != "---") return;
    if (i > 0 && line == "---") break;
    if (line.starts_with(kTag)) add(pipelines, without_blanks(line.substr(kTag.size())));
    if (line.starts_with("- ")) add(tags, without_blanks(line.substr(2)));
  }
  for (const std::string& tag : tags) add(pipelines, tag);
}

std::string text_at(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// Of a class for one pair: the others name a language by its token, or have no target.
std::pair<std::string, std::string> read_pair(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  try {
    const nlohmann::json config = load_python_json(file);
    if (!config.is_object()) return {};
    std::pair<std::string, std::string> pair{text_at(config, "source_lang"),
                                             text_at(config, "target_lang")};
    if (!pair.first.empty() && !pair.second.empty()) return pair;
  } catch (const InputError&) {  // whoever needs the file says so
  }
  return {};
}

}  // namespace

ModelUses model_uses(const ModelConfig& config) {
  ModelUses out;
  read_card(config.directory / "README.md", out.pipelines);
  for (const auto& [name, task] : task_params(config)) {
    if (name.starts_with("summarization")) add(out.pipelines, "summarization");
    if (name.starts_with("translation")) add(out.pipelines, "translation");
  }
  out.language_pair = read_pair(config.directory / "tokenizer_config.json");
  if (!out.language_pair.first.empty()) add(out.pipelines, "translation");
  return out;
}

}  // namespace tandem
