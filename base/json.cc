// nlohmann's parser between guards: size and depth before it, errors made readable behind it; and
// its writer, with the ends of lines that it leaves.
#include "base/json.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

constexpr size_t kMaxBytes = size_t{128} << 20;
constexpr int kMaxDepth = 200;

std::string line_and_column(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const size_t column = offset - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(lines + 1) + ", column " + std::to_string(column);
}

// Offset of the first bracket that is nested too deep, npos if none. A value that deep is refused
// before it is built: code that walks the document may recurse.
size_t too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::string_view::npos;
}

// All of them stand in strings: nowhere else is JSON anything but ASCII.
constexpr struct {
  std::string_view text, escape;
} kLineEnds[] = {{"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};

// In time that grows with the text, however many of them a client has put into it.
std::string with_escaped_ends(std::string text) {
  std::string out;
  size_t copied = 0;
  for (size_t at = text.find_first_of("\xc2\xe2"); at != std::string::npos;
       at = text.find_first_of("\xc2\xe2", at)) {
    const auto* const end = std::find_if(
        std::begin(kLineEnds), std::end(kLineEnds),
        [&](const auto& each) { return text.compare(at, each.text.size(), each.text) == 0; });
    if (end == std::end(kLineEnds)) {
      ++at;
      continue;
    }
    out.append(text, copied, at - copied).append(end->escape);
    copied = at += end->text.size();
  }
  if (copied == 0) return text;
  return out.append(text, copied);
}

template <class Json>
std::string on_one_line(const Json& value) {
  return with_escaped_ends(
      value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace));
}

}  // namespace

std::string json_error(std::string_view text, const nlohmann::json::exception& error, size_t byte) {
  // what(): "[json.exception.parse_error.101] parse error at line 1, column 2: reason; last read:
  // ..."
  std::string_view reason = error.what();
  const size_t colon = reason.find(": ");
  if (colon != std::string_view::npos) reason.remove_prefix(colon + 2);
  return line_and_column(text, byte > 0 ? byte - 1 : 0) + ": " + printable(reason);
}

namespace {

// Throws InputError for what is not to be parsed.
void check_text(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes)
    throw invalid_model(where, "has " + std::to_string(text.size()) + " bytes, at most " +
                                   std::to_string(kMaxBytes) + " are read");
  if (const size_t at = too_deep(text); at != std::string_view::npos)
    throw invalid_model(where, line_and_column(text, at) + ": nested deeper than " +
                                   std::to_string(kMaxDepth) + " levels");
  // The parser would take a NUL for the end of the text.
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    throw invalid_model(where, line_and_column(text, at) + ": a NUL byte");
}

// The numbers of Python that JSON does not have. In their place the parser reads a string as long,
// so that errors name the right column: kStandIn between quotes, then a blank for each further
// byte.
constexpr struct {
  std::string_view text;
  double value;
} kPythonNumbers[] = {{"NaN", std::numeric_limits<double>::quiet_NaN()},
                      {"Infinity", std::numeric_limits<double>::infinity()},
                      {"-Infinity", -std::numeric_limits<double>::infinity()}};
constexpr char kStandIn = '\x7f';

// False: there are none, or strings that look like what would stand in for them.
bool replace_python_numbers(std::string& text) {
  if (text.find(kStandIn) != std::string::npos) return false;
  bool any = false, in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    for (const auto& number : kPythonNumbers)
      if (text.compare(i, number.text.size(), number.text) == 0) {
        std::string stand_in(number.text.size(), ' ');
        stand_in.front() = stand_in.back() = '"';
        stand_in[1] = kStandIn;
        text.replace(i, stand_in.size(), stand_in);
        i += stand_in.size() - 1;
        any = true;
        break;
      }
  }
  return any;
}

// Of a value that was parsed.
bool put_python_numbers_back(int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
  if (event != nlohmann::json::parse_event_t::value || !value.is_string()) return true;
  const std::string& text = value.get_ref<const std::string&>();
  if (text.empty() || text[0] != kStandIn) return true;
  for (const auto& number : kPythonNumbers)
    if (number.text.size() == text.size() + 2) {
      value = number.value;
      break;
    }
  return true;
}

}  // namespace

nlohmann::json parse_python_json(std::string_view text, const std::string& where) {
  check_text(text, where);
  std::string changed(text);
  if (!replace_python_numbers(changed)) return parse_json(text, where);
  try {
    return nlohmann::json::parse(changed, put_python_numbers_back);
  } catch (const nlohmann::json::parse_error& e) {
    throw invalid_model(where, "malformed JSON: " + json_error(text, e, e.byte));
  } catch (const nlohmann::json::exception& e) {
    throw invalid_model(where, "malformed JSON: " + printable(e.what()));
  }
}

nlohmann::json parse_json(std::string_view text, const std::string& where) {
  check_text(text, where);
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    throw invalid_model(where, "malformed JSON: " + json_error(text, e, e.byte));
  } catch (const nlohmann::json::exception& e) {  // a number out of range
    throw invalid_model(where, "malformed JSON: " + printable(e.what()));
  }
}

template <>
nlohmann::json json_from(std::string_view text) {
  return nlohmann::json::parse(text);
}
template <>
nlohmann::ordered_json json_from(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}
template <>
nlohmann::json json_or_discarded(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}
template <>
nlohmann::ordered_json json_or_discarded(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& value, int indent) { return value.dump(indent); }
std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent);
}

std::string dump_line(const nlohmann::json& value) { return on_one_line(value); }
std::string dump_ordered_line(const nlohmann::ordered_json& value) { return on_one_line(value); }

nlohmann::json load_json(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  return parse_json(mapped->text(), file.string());
}

nlohmann::json load_python_json(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  return parse_python_json(mapped->text(), file.string());
}

}  // namespace tandem
