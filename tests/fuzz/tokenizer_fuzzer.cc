// Input: a tokenizer.json, or an object of files by their names ("tokenizer.json",
// "tokenizer_config.json", …) as they lie in a checkpoint directory. Whatever can be built from it
// encodes and decodes. Some of the objects are read as those of another class, any that families
// have.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log/log.h"
#include "models/family.h"
#include "tests/fuzz/tokenizer_checks.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

TokenizerFiles read_input(const std::string& input) {
  nlohmann::json json = parse_json(input, "input");
  if (!json.is_object() || json.contains("model")) {
    JsonView(json, "input").object();
    return tokenizer_from_document(std::move(json), "input");
  }
  CheckpointFiles files = testing::take_files(json);
  static const auto rules = tokenizer_rules();
  const size_t chosen = std::hash<std::string>()(input) % (2 * rules.size());
  if (chosen < rules.size()) {
    if (files.config.value.is_null()) files.config.value = nlohmann::json::object();
    files.config.value["tokenizer_class"] = rules[chosen].class_name;
    files.config.exists = true;
  }
  return combine(std::move(files), rules);
}

void use(const Tokenizer& tokenizer, const std::string& text) {
  for (const bool add_special : {true, false}) {
    std::vector<int32_t> ids = testing::checked_ids(tokenizer, text, add_special);
    ids.insert(ids.end(), {-1, 0, 1, tokenizer.size(), INT32_MAX});
    std::reverse(ids.begin(), ids.end());
    testing::check_decoding(tokenizer, ids, add_special);
  }
  tokenizer.encode_pair(text, "pair");
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::log_nothing();  // what a file says oddly is not news here
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
