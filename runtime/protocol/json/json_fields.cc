// Typed reading of the JSON that clients send (json_fields.h).
#include "runtime/protocol/json/json_fields.h"

#include <cmath>

#include "base/error.h"
#include "base/json.h"

namespace tandem {

using nlohmann::json;

namespace {

constexpr size_t kShownBytes = 40;

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  size_t end = kShownBytes;  // not in the middle of a UTF-8 character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "...";
}

// Shortest text that reads back as the same double.
std::string number_text(double value) { return json_text(json(value)); }

std::string range_text(const NumberBounds& range) {
  constexpr double kMax = std::numeric_limits<double>::max();
  std::string text = "a finite number";
  if (range.lo > -kMax)
    text = std::string("a number ") + (range.open_lo ? "> " : ">= ") + number_text(range.lo);
  if (range.hi < kMax)
    text += std::string(range.lo > -kMax ? " and " : " ") + (range.open_hi ? "< " : "<= ") +
            number_text(range.hi);
  return text;
}

}  // namespace

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::null: return "null";
    case json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned: return json_text(value);
    case json::value_t::number_float: {
      const double v = value.get<double>();
      return std::isfinite(v) ? json_text(value)
             : std::isnan(v)  ? "NaN"
             : v > 0          ? "Infinity"
                              : "-Infinity";
    }
    case json::value_t::string: return '"' + shown(value.get_ref<const std::string&>()) + '"';
    case json::value_t::array: return "an array of " + std::to_string(value.size());
    case json::value_t::object: return "an object";
    default: return "binary data";
  }
}

int64_t read_int(const json& value, const std::string& field, int64_t lo, int64_t hi) {
  const std::string expected =
      hi == std::numeric_limits<int64_t>::max()
          ? "an integer >= " + std::to_string(lo)
          : "an integer from " + std::to_string(lo) + " to " + std::to_string(hi);
  const auto wrong = [&] {
    return invalid_request(field, "must be " + expected + ", not " + describe(value));
  };
  if (!value.is_number()) throw wrong();
  int64_t number = 0;
  if (value.is_number_float()) {
    const double v = value.get<double>();
    if (!(std::fabs(v) < 9.0e15) || v != std::floor(v)) throw wrong();
    number = static_cast<int64_t>(v);
  } else if (value.is_number_unsigned() &&
             value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw wrong();
  } else {
    number = value.get<int64_t>();
  }
  if (number < lo || number > hi) throw wrong();
  return number;
}

double read_number(const json& value, const std::string& field, const NumberBounds& range) {
  const double v = value.is_number() ? value.get<double>() : 0.0;
  const bool good = value.is_number() && std::isfinite(v) &&
                    (range.open_lo ? v > range.lo : v >= range.lo) &&
                    (range.open_hi ? v < range.hi : v <= range.hi);
  if (!good)
    throw invalid_request(field, "must be " + range_text(range) + ", not " + describe(value));
  return v;
}

bool read_bool(const json& value, const std::string& field) {
  if (!value.is_boolean())
    throw invalid_request(field, "must be true or false, not " + describe(value));
  return value.get<bool>();
}

std::string read_string(const json& value, const std::string& field) {
  if (!value.is_string()) throw invalid_request(field, "must be a string, not " + describe(value));
  return value.get<std::string>();
}

std::vector<int32_t> read_token_ids(const json& value, const std::string& field, int vocab_size) {
  if (!value.is_array())
    throw invalid_request(field, "must be a list of token ids, not " + describe(value));
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    const json& id = value[i];
    const bool integer = id.is_number_integer() ||
                         (id.is_number_float() && id.get<double>() == std::floor(id.get<double>()));
    // Unsigned first: the id is compared as the number that was sent, without wrap-around.
    const double number = integer ? id.get<double>() : -1.0;
    if (!integer || number < 0 || number >= vocab_size)
      throw InputError(ErrorKind::kInvalidRequest,
                       field + ": token id at position " + std::to_string(i) +
                           " must be an integer from 0 to " + std::to_string(vocab_size - 1) +
                           ", not " + describe(id),
                       field);
    ids.push_back(static_cast<int32_t>(number));
  }
  return ids;
}

}  // namespace tandem
