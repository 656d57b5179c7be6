// What fuzzers of tokenizers share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/utf8.h"
#include "text/tokenizer_pipeline.h"

namespace tandem::testing {

inline void check(bool condition) {
  if (!condition) std::abort();
}

// The file of that name out of an object of files; throws InputError if it is no object.
inline OptionalFile take_file(nlohmann::json& files, const char* name) {
  OptionalFile file;
  file.name = name;
  const auto found = files.find(name);
  if (found == files.end()) return file;
  file.value = std::move(*found);
  file.exists = true;
  file.view().object();
  return file;
}

// The files that say how a tokenizer is put together, of any class.
inline CheckpointFiles take_files(nlohmann::json& files) {
  CheckpointFiles out;
  out.config = take_file(files, "tokenizer_config.json");
  out.special_tokens_map = take_file(files, "special_tokens_map.json");
  out.added_tokens = take_file(files, "added_tokens.json");
  out.model_config = take_file(files, "config.json");
  out.document = take_file(files, "tokenizer.json");
  return out;
}

// Ids that the tokenizer has.
inline std::vector<int32_t> checked_ids(const Tokenizer& tokenizer, const std::string& text,
                                        bool add_special) {
  std::vector<int32_t> ids = tokenizer.encode(text, add_special);
  for (const int32_t id : ids) check(id >= 0 && id < tokenizer.size());
  return ids;
}

// Piece by piece as at once, and in UTF-8.
inline void check_decoding(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                           bool skip_special) {
  Detokenizer detokenizer(tokenizer, skip_special);
  std::string joined;
  for (const int32_t id : ids) joined += detokenizer.append(id);
  joined += detokenizer.finish();
  check(joined == tokenizer.decode(ids, skip_special));
  check(find_invalid_utf8(joined) == std::string::npos);
}

}  // namespace tandem::testing
