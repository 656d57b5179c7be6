// The class of a processor, by the files that may name it.
#include "models/answer_form.h"

#include <string>
#include <system_error>

#include "base/json.h"

namespace tandem {

std::string processor_class(const std::filesystem::path& directory) {
  for (const char* name :
       {"processor_config.json", "preprocessor_config.json", "tokenizer_config.json"}) {
    const std::filesystem::path file = directory / name;
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const nlohmann::json whole = load_python_json(file);
    if (!whole.is_object()) continue;
    const auto found = whole.find("processor_class");
    if (found != whole.end() && found->is_string() && !found->get<std::string>().empty())
      return found->get<std::string>();
  }
  return {};
}

}  // namespace tandem
