// Values of parameters (option_values.h).
#include "runtime/protocol/json/option_values.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/options_reader.h"

namespace tandem {

using nlohmann::json;
using Source = OptionSource;

namespace {

constexpr NumberBounds kLogitBias{.lo = -100, .hi = 100};
constexpr NumberBounds kSequenceBias{.lo = -1e30, .hi = 1e30};
constexpr NumberBounds kDecayFactor{.lo = 0, .hi = 1e6, .open_lo = true};

void check_count(int size, size_t most, const char* what, const std::string& name) {
  if (static_cast<size_t>(size) > most)
    throw invalid_request(name, "must have at most " + std::to_string(most) + " " + what +
                                    ", not " + std::to_string(size));
}

template <class Ids>
void check_list_of_ids(const Ids& ids, const std::string& name) {
  if (ids.empty()) throw invalid_request(name, "must not have an empty list of ids in it");
  if (static_cast<size_t>(ids.size()) > kMaxIdsInList)
    throw invalid_request(name, "a list of ids may have at most " + std::to_string(kMaxIdsInList) +
                                    ", not " + std::to_string(ids.size()));
}

void check_text(const std::string& text, const char* what, size_t most, const std::string& name) {
  if (text.empty()) throw invalid_request(name, "must not have an empty string in it");
  if (text.size() > most)
    throw invalid_request(name, std::string("a ") + what + " may have at most " +
                                    std::to_string(most) + " bytes, not " +
                                    std::to_string(text.size()));
}

}  // namespace

// --- Reading -------------------------------------------------------------------------------------
// (Values are never copied whole: a copy recurses as deep as they are nested.)

proto::TokenIds read_ids(const json& value, const Source& source) {
  const std::vector<int32_t> ids = read_token_ids(value, source.name, source.num_ids);
  proto::TokenIds out;
  out.mutable_ids()->Assign(ids.begin(), ids.end());
  return out;
}

proto::TokenIds read_compared_ids(const json& value, const Source& source) {
  const auto ignored = [&](const json& id) {
    return source.from_model && id.is_number_integer() &&
           (id.get<double>() < 0 || id.get<double>() >= source.num_ids);
  };
  json list = json::array();
  if (value.is_number()) {
    if (!ignored(value)) list.push_back(value);
    return read_ids(list, source);
  }
  if (!source.from_model || !value.is_array()) return read_ids(value, source);
  for (const json& id : value) {
    if (id.is_structured()) return read_ids(value, source);
    if (!ignored(id)) list.push_back(id);
  }
  return read_ids(list, source);
}

proto::TokenIdLists read_id_lists(const json& value, const Source& source) {
  if (!value.is_array())
    throw invalid_request(source.name,
                          "must be a list of lists of token ids, not " + describe(value));
  proto::TokenIdLists out;
  for (const json& list : value) *out.add_lists() = read_ids(list, source);
  return out;
}

proto::Texts read_texts(const json& value, const Source& source) {
  proto::Texts out;
  if (value.is_string()) {
    out.add_texts(value.get<std::string>());
    return out;
  }
  if (!value.is_array())
    throw invalid_request(source.name,
                          "must be a string or a list of strings, not " + describe(value));
  for (const json& item : value) out.add_texts(read_string(item, source.name));
  return out;
}

proto::Texts read_bad_words(const json& value, const Source& source) {
  proto::Texts words = read_texts(value, source);
  for (std::string& word : *words.mutable_texts()) {
    if (word.empty()) throw invalid_request(source.name, "must not have an empty string in it");
    word.erase(0, word.find_first_not_of(" \t\n\v\f\r"));
    if (word.empty()) throw invalid_request(source.name, "must not have a blank string in it");
    check_utf8(word, source.name);
  }
  return words;
}

proto::LogitBias read_logit_bias(const json& value, const Source& source) {
  if (!value.is_object())
    throw invalid_request(source.name,
                          "must be an object of token id to number, not " + describe(value));
  proto::LogitBias bias;
  for (const auto& [key, number] : value.items()) {
    int64_t id = -1;
    if (!key.empty() && key.size() < 12 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; }))
      id = std::stoll(key);
    if (id < 0 || id >= source.num_ids)
      throw invalid_request(source.name, "keys must be token ids from 0 to " +
                                             std::to_string(source.num_ids - 1) + ", not " +
                                             describe(json(key)));
    (*bias.mutable_of())[static_cast<int32_t>(id)] =
        static_cast<float>(read_number(number, source.name, kLogitBias));
  }
  return bias;
}

proto::SequenceBiases read_sequence_bias(const json& value, const Source& source) {
  const auto wrong = [&](const json& what) {
    return invalid_request(source.name,
                           "must be a list of [[token ids], number], not " + describe(what));
  };
  if (!value.is_array()) throw wrong(value);
  proto::SequenceBiases out;
  for (const json& item : value) {
    if (!item.is_array() || item.size() != 2) throw wrong(item);
    proto::SequenceBias& bias = *out.add_biases();
    bias.mutable_ids()->Swap(read_ids(item[0], source).mutable_ids());
    bias.set_bias(static_cast<float>(read_number(item[1], source.name, kSequenceBias)));
  }
  return out;
}

proto::ExponentialDecay read_decay(const json& value, const Source& source) {
  if (!value.is_array() || value.size() != 2)
    throw invalid_request(source.name, "must be [start, factor], not " + describe(value));
  proto::ExponentialDecay out;
  out.set_start_length(static_cast<int32_t>(
      read_int(value[0], source.name, 0, std::numeric_limits<int32_t>::max())));
  out.set_factor(read_number(value[1], source.name, kDecayFactor));
  return out;
}

proto::Positions read_positions(const json& value, const std::string& name) {
  if (!value.is_array())
    throw invalid_request(name, "must be a list of positions, not " + describe(value));
  proto::Positions out;
  for (const json& at : value)
    out.add_at(static_cast<int32_t>(read_int(at, name, 0, std::numeric_limits<int32_t>::max())));
  return out;
}

proto::Positions read_position_option(const json& value, const Source& source) {
  return read_positions(value, source.name);
}

proto::SamplingParams::EarlyStopping read_early_stopping(const json& value, const Source& source) {
  using Params = proto::SamplingParams;
  if (value.is_boolean())
    return value.get<bool>() ? Params::EARLY_STOPPING_TRUE : Params::EARLY_STOPPING_FALSE;
  if (value == "never") return Params::EARLY_STOPPING_NEVER;
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

// --- Bounds --------------------------------------------------------------------------------------

void check_allowed_ids(const proto::TokenIds& value, const std::string& name) {
  if (value.ids().empty()) throw invalid_request(name, "must name at least one token");
}

void check_positions(const proto::Positions& value, const std::string& name) {
  for (const int32_t at : value.at())
    if (at < 0) throw invalid_request(name, "position " + std::to_string(at) + " is negative");
}

void check_id_lists(const proto::TokenIdLists& value, const std::string& name) {
  check_count(value.lists_size(), kMaxIdLists, "lists", name);
  for (const proto::TokenIds& list : value.lists()) check_list_of_ids(list.ids(), name);
}

void check_stop_strings(const proto::Texts& value, const std::string& name) {
  check_count(value.texts_size(), kMaxStopStrings, "strings", name);
  for (const std::string& text : value.texts())
    check_text(text, "stop string", kMaxStopStringBytes, name);
}

void check_bad_words(const proto::Texts& value, const std::string& name) {
  check_count(value.texts_size(), kMaxBadWords, "strings", name);
  for (const std::string& text : value.texts())
    check_text(text, "bad word", kMaxBadWordBytes, name);
}

void check_short_name(const std::string& value, const std::string& name) {
  if (value.empty()) throw invalid_request(name, "must not be empty");
  check_text(value, "name", kMaxShortNameBytes, name);
}

void check_salt(const std::string& value, const std::string& name) {
  if (value.empty()) throw invalid_request(name, "must not be empty");
  check_text(value, "salt", kMaxSaltBytes, name);
}

void check_logit_bias(const proto::LogitBias& value, const std::string& name) {
  for (const auto& [id, bias] : value.of()) read_number(bias, name, kLogitBias);
}

void check_sequence_bias(const proto::SequenceBiases& value, const std::string& name) {
  check_count(value.biases_size(), kMaxIdLists, "entries", name);
  for (const proto::SequenceBias& bias : value.biases()) {
    check_list_of_ids(bias.ids(), name);
    // A float: 1e30 is a little more as one.
    if (!std::isfinite(bias.bias())) read_number(bias.bias(), name, kSequenceBias);
  }
}

void check_decay(const proto::ExponentialDecay& value, const std::string& name) {
  read_int(value.start_length(), name, 0, std::numeric_limits<int32_t>::max());
  read_number(value.factor(), name, kDecayFactor);
}

}  // namespace tandem
