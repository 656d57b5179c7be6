// Values of parameters (params_values.h).
#include "runtime/request/params_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace tandem {

using nlohmann::json;
using Source = ParamSource;

namespace {

void check_count(const json& list, size_t most, const char* what, const Source& source) {
  if (list.size() > most)
    throw invalid_request(source.name, "must have at most " + std::to_string(most) + " " + what +
                                           ", not " + std::to_string(list.size()));
}

Ids read_list_of_ids(const json& value, const Source& source) {
  Ids ids = read_token_ids(value, source.name, source.vocab_size);
  if (ids.empty()) throw invalid_request(source.name, "must not have an empty list of ids in it");
  if (ids.size() > kMaxIdsInList)
    throw invalid_request(source.name, "a list of ids may have at most " +
                                           std::to_string(kMaxIdsInList) + ", not " +
                                           std::to_string(ids.size()));
  return ids;
}

std::string read_text(const json& value, const char* what, size_t most, const Source& source) {
  std::string text = read_string(value, source.name);
  if (text.empty()) throw invalid_request(source.name, "must not have an empty string in it");
  if (text.size() > most)
    throw invalid_request(source.name, std::string("a ") + what + " may have at most " +
                                           std::to_string(most) + " bytes, not " +
                                           std::to_string(text.size()));
  return text;
}

// A text, or a list of them.
std::vector<std::string> read_texts(const json& value, const char* what, size_t most,
                                    size_t most_bytes, const Source& source) {
  if (value.is_string()) return {read_text(value, what, most_bytes, source)};
  if (!value.is_array())
    throw invalid_request(source.name,
                          "must be a string or a list of strings, not " + describe(value));
  check_count(value, most, "strings", source);
  std::vector<std::string> texts;
  for (const json& item : value) texts.push_back(read_text(item, what, most_bytes, source));
  return texts;
}

}  // namespace

// (Values are never copied whole: a copy recurses as deep as they are nested.)
Ids read_compared_ids(const json& value, const Source& source) {
  const auto ignored = [&](const json& id) {
    return source.is_default && id.is_number_integer() &&
           (id.get<double>() < 0 || id.get<double>() >= source.vocab_size);
  };
  json list = json::array();
  if (value.is_number()) {
    if (!ignored(value)) list.push_back(value);
    return read_token_ids(list, source.name, source.vocab_size);
  }
  if (!source.is_default || !value.is_array())
    return read_token_ids(value, source.name, source.vocab_size);
  for (const json& id : value) {
    if (id.is_structured()) return read_token_ids(value, source.name, source.vocab_size);
    if (!ignored(id)) list.push_back(id);
  }
  return read_token_ids(list, source.name, source.vocab_size);
}

std::vector<Ids> read_id_lists(const json& value, const Source& source) {
  if (!value.is_array())
    throw invalid_request(source.name,
                          "must be a list of lists of token ids, not " + describe(value));
  check_count(value, kMaxIdLists, "lists", source);
  std::vector<Ids> lists;
  for (const json& list : value) lists.push_back(read_list_of_ids(list, source));
  return lists;
}

Ids read_allowed_ids(const json& value, const Source& source) {
  Ids ids = read_token_ids(value, source.name, source.vocab_size);
  if (ids.empty()) throw invalid_request(source.name, "must name at least one token");
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<std::string> read_stop_strings(const json& value, const Source& source) {
  return read_texts(value, "stop string", kMaxStopStrings, kMaxStopStringBytes, source);
}

// Blanks in front are vLLM's to put there.
std::vector<std::string> read_bad_words(const json& value, const Source& source) {
  std::vector<std::string> words =
      read_texts(value, "bad word", kMaxBadWords, kMaxBadWordBytes, source);
  for (std::string& word : words) {
    word.erase(0, word.find_first_not_of(" \t\n\v\f\r"));
    if (word.empty()) throw invalid_request(source.name, "must not have a blank string in it");
    check_utf8(word, source.name);
  }
  return words;
}

std::string read_salt(const json& value, const Source& source) {
  if (value == "") throw invalid_request(source.name, "must not be empty");
  return read_text(value, "salt", kMaxSaltBytes, source);
}

std::map<int32_t, float> read_logit_bias(const json& value, const Source& source) {
  if (!value.is_object())
    throw invalid_request(source.name,
                          "must be an object of token id to number, not " + describe(value));
  std::map<int32_t, float> bias;
  for (const auto& [key, number] : value.items()) {
    int64_t id = -1;
    if (!key.empty() && key.size() < 12 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }))
      id = std::stoll(key);
    if (id < 0 || id >= source.vocab_size)
      throw invalid_request(source.name, "keys must be token ids from 0 to " +
                                             std::to_string(source.vocab_size - 1) + ", not " +
                                             describe(json(key)));
    bias[static_cast<int32_t>(id)] =
        static_cast<float>(read_number(number, source.name, {.lo = -100, .hi = 100}));
  }
  return bias;
}

std::vector<std::pair<Ids, float>> read_sequence_bias(const json& value, const Source& source) {
  const auto wrong = [&](const json& what) {
    return invalid_request(source.name,
                           "must be a list of [[token ids], number], not " + describe(what));
  };
  if (!value.is_array()) throw wrong(value);
  check_count(value, kMaxIdLists, "entries", source);
  std::vector<std::pair<Ids, float>> biases;
  for (const json& item : value) {
    if (!item.is_array() || item.size() != 2) throw wrong(item);
    Ids ids = read_list_of_ids(item[0], source);
    const double bias = read_number(item[1], source.name, {.lo = -1e30, .hi = 1e30});
    biases.emplace_back(std::move(ids), static_cast<float>(bias));
  }
  return biases;
}

std::pair<int64_t, double> read_decay(const json& value, const Source& source) {
  if (!value.is_array() || value.size() != 2)
    throw invalid_request(source.name, "must be [start, factor], not " + describe(value));
  return {read_int(value[0], source.name, 0, std::numeric_limits<int32_t>::max()),
          read_number(value[1], source.name, {.lo = 0, .hi = 1e6, .open_lo = true})};
}

StopEarly read_early_stopping(const json& value, const Source& source) {
  if (value.is_boolean()) return value.get<bool>() ? StopEarly::kTrue : StopEarly::kFalse;
  if (value == "never") return StopEarly::kNever;
  throw invalid_request(source.name, "must be true, false or \"never\", not " + describe(value));
}

int64_t read_seed(const json& value, const Source& source) {
  if (value.is_number_unsigned()) return static_cast<int64_t>(value.get<uint64_t>());
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float() && std::fabs(value.get<double>()) < 9e15 &&
      value.get<double>() == std::floor(value.get<double>()))
    return static_cast<int64_t>(value.get<double>());
  throw invalid_request(source.name, "must be a 64-bit integer, not " + describe(value));
}

}  // namespace tandem
