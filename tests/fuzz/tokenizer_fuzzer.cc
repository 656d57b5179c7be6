// Input: a tokenizer.json, or an object of files by their names ("tokenizer.json",
// "tokenizer_config.json", …) as they lie in a checkpoint directory. Whatever can be built from it
// encodes and decodes.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "models/family.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

OptionalFile take_file(nlohmann::json& files, const char* name) {
  OptionalFile file;
  file.name = name;
  const auto found = files.find(name);
  if (found == files.end()) return file;
  file.value = *found;
  file.exists = true;
  file.view().object();
  return file;
}

TokenizerFiles read_input(const std::string& input) {
  nlohmann::json json = parse_json(input, "input");
  if (!json.is_object() || json.contains("model")) {
    JsonView(json, "input").object();
    return tokenizer_from_document(std::move(json), "input");
  }
  CheckpointFiles files;
  files.config = take_file(json, "tokenizer_config.json");
  files.special_tokens_map = take_file(json, "special_tokens_map.json");
  files.added_tokens = take_file(json, "added_tokens.json");
  files.model_config = take_file(json, "config.json");
  files.document = take_file(json, "tokenizer.json");
  return combine(std::move(files), tokenizer_rules());
}

void check(bool condition) {
  if (!condition) std::abort();
}

void use(const Tokenizer& tokenizer, const std::string& text) {
  for (const bool add_special : {true, false}) {
    std::vector<int32_t> ids = tokenizer.encode(text, add_special);
    for (const int32_t id : ids) check(id >= 0 && id < tokenizer.size());
    ids.insert(ids.end(), {-1, 0, 1, tokenizer.size(), INT32_MAX});
    std::reverse(ids.begin(), ids.end());
    Detokenizer detokenizer(tokenizer, add_special);
    std::string joined;
    for (const int32_t id : ids) joined += detokenizer.append(id);
    joined += detokenizer.finish();
    check(joined == tokenizer.decode(ids, add_special));
    check(find_invalid_utf8(joined) == std::string::npos);
  }
  tokenizer.encode_pair(text, "pair");
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  spdlog::set_level(spdlog::level::off);  // what a file says oddly is not news here
  const std::string input(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tandem::make_tokenizer(tandem::read_input(input));
    tandem::use(*tokenizer, " a b  abc\n<s>  <mask> don't \u00E9\u5317 ab");
    std::string text;
    tandem::append_utf8_lossy(input.substr(0, 300), text);
    tandem::use(*tokenizer, text);
  } catch (const tandem::InputError&) {
  }
  return 0;
}
