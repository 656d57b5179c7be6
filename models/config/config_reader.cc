#include "models/config/config_reader.h"

#include <cmath>
#include <utility>

#include "base/strings/printable.h"

namespace tandem {

using nlohmann::json;

ConfigReader::ConfigReader(std::string file, const json& raw) : file_(std::move(file)), raw_(raw) {
  if (!raw_.is_object()) throw invalid_model(file_, "is not a JSON object");
}

void ConfigReader::fail(const std::string& key, const std::string& message) const {
  fail_in(file_, key, message);
}

void ConfigReader::fail_in(const std::string& file, const std::string& key,
                           const std::string& message) {
  throw InputError(ErrorKind::kInvalidModel, file + ": " + key + ": " + message, key);
}

const json* ConfigReader::find(const char* key) const {
  const auto it = raw_.find(key);
  return it == raw_.end() || it->is_null() ? nullptr : &*it;
}

std::string ConfigReader::show(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 60);
}

std::string ConfigReader::string(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) fail(key, "is missing");
  if (!value->is_string() || value->get_ref<const std::string&>().empty())
    fail(key, "is " + show(*value) + ", expected a string");
  return value->get<std::string>();
}

std::optional<int> ConfigReader::size(const char* name, int max, const char* alias) const {
  for (const char* key : {alias, name}) {
    if (key == nullptr || !raw_.contains(key)) continue;
    const json& value = raw_[key];
    if (!value.is_number_integer()) fail(key, "is " + show(value) + ", expected an integer");
    // A value beyond int64 has an unsigned type.
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                          : value.get<int64_t>() <= max;
    if (!fits || value.get<int64_t>() < 1)
      fail(key, "is " + show(value) + ", expected 1 to " + std::to_string(max));
    return value.get<int>();
  }
  return std::nullopt;
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(key, "is " + show(*value) + ", expected true or false");
  return value->get<bool>();
}

float ConfigReader::positive(const char* key, float otherwise) const {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  const float number = value->is_number() ? value->get<float>() : 0.0f;
  if (!(number > 0) || !std::isfinite(number))
    fail(key, "is " + show(*value) + ", expected a number above 0");
  return number;
}

Activation ConfigReader::activation(const char* key, const char* otherwise) const {
  return activation_named(key, find(key) ? string(key) : otherwise);
}

Activation ConfigReader::activation_named(const char* key, const std::string& name) const {
  try {
    return activation_from_name(name);
  } catch (const InputError&) {
    fail(key, "activation " + in_quotes(name) +
                  (is_learned_activation(name) ? " has weights of its own, which is not supported"
                                               : " is not known"));
  }
}

int size_or(const ConfigReader& in, const char* key, int max, int otherwise) {
  return in.find(key) ? in.size(key, max).value_or(otherwise) : otherwise;
}

int count_or(const ConfigReader& in, const char* key, int otherwise) {
  const nlohmann::json* value = in.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number_integer() || *value < 0 || *value > in.kMaxCount)
    in.fail(key, "is " + in.show(*value) + ", must be an integer from 0 to " +
                     std::to_string(in.kMaxCount));
  return value->get<int>();
}

int padding_of(const ConfigReader& in, int otherwise) {
  const json* found = in.find("pad_token_id");
  if (found == nullptr) return otherwise;
  const json& pad = found->is_array() && found->size() == 1 ? found->front() : *found;
  return pad.is_number_integer() ? pad.get<int>() : otherwise;
}

}  // namespace tandem
