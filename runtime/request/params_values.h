// Reading of those parameters' values that are lists, objects or words. Each function throws an
// InputError that names the parameter.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/request/params_schema.h"

namespace tandem {

struct ParamSource {
  const std::string& name;
  int vocab_size;
  bool is_default;  // from generation_config.json
};

// Ids of tokens that are only compared with: HuggingFace ignores those outside the vocabulary, and
// checkpoints have them.
Ids read_compared_ids(const nlohmann::json& value, const ParamSource& source);
std::vector<Ids> read_id_lists(const nlohmann::json& value, const ParamSource& source);
Ids read_allowed_ids(const nlohmann::json& value, const ParamSource& source);  // ascending
std::vector<std::string> read_stop_strings(const nlohmann::json& value, const ParamSource& source);
std::vector<std::string> read_bad_words(const nlohmann::json& value, const ParamSource& source);
std::string read_salt(const nlohmann::json& value, const ParamSource& source);
std::map<int32_t, float> read_logit_bias(const nlohmann::json& value, const ParamSource& source);
std::vector<std::pair<Ids, float>> read_sequence_bias(const nlohmann::json& value,
                                                      const ParamSource& source);
std::pair<int64_t, double> read_decay(const nlohmann::json& value, const ParamSource& source);
StopEarly read_early_stopping(const nlohmann::json& value, const ParamSource& source);
// Any 64 bits, signed or unsigned.
int64_t read_seed(const nlohmann::json& value, const ParamSource& source);

}  // namespace tandem
