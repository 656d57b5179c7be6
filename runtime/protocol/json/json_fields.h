// Typed reading of the JSON that clients send. Every reader throws InputError naming the field, the
// expected and the found value. Integral floats pass as integers, booleans never do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {

// A short text for messages: scalars as they are (long strings cut), containers by kind only.
std::string describe(const nlohmann::json& value);

// Real numbers from lo to hi; the ends may be excluded.
struct NumberBounds {
  double lo = -std::numeric_limits<double>::max();
  double hi = std::numeric_limits<double>::max();
  bool open_lo = false;
  bool open_hi = false;
};

int64_t read_int(const nlohmann::json& value, const std::string& field, int64_t lo, int64_t hi);
double read_number(const nlohmann::json& value, const std::string& field,
                   const NumberBounds& range);
bool read_bool(const nlohmann::json& value, const std::string& field);
std::string read_string(const nlohmann::json& value, const std::string& field);
// A list of token ids in [0, vocab_size); the message names the position of a wrong one.
std::vector<int32_t> read_token_ids(const nlohmann::json& value, const std::string& field,
                                    int vocab_size);

}  // namespace tandem
