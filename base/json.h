// Reads JSON of unknown origin, bounded in size and depth; errors have line and column. Writes JSON
// on one line for any reader's idea of a line end.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem {

// Parses a file of at most 128 MB, nested at most 200 deep. Throws InputError naming the file (and
// the line and the column). Of duplicate keys the last one wins, as in Python.
nlohmann::json load_json(const std::filesystem::path& file);

// The same for a file that Python's json may have written: NaN, Infinity and -Infinity are numbers.
nlohmann::json load_python_json(const std::filesystem::path& file);

// load_json() for text in memory; `where` names it in errors.
nlohmann::json parse_json(std::string_view text, const std::string& where);
nlohmann::json parse_python_json(std::string_view text, const std::string& where);

// Why nlohmann rejected a text, without its prefix, printable and short: "line 2, column 5: ...".
std::string json_error(std::string_view text, const nlohmann::json::exception& error, size_t byte);

// nlohmann's own parser and writer for text of our own, or of a peer that is bounded already. Every
// file that calls Json::parse() or dump() itself compiles them anew, for 3 s. Json: nlohmann::json
// or ordered_json. json_from() throws Json::parse_error; json_or_discarded() returns a value that
// is_discarded() for text that is no JSON.
template <class Json>
Json json_from(std::string_view text);
template <class Json>
Json json_or_discarded(std::string_view text);
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

template <>
nlohmann::json json_from(std::string_view text);
template <>
nlohmann::ordered_json json_from(std::string_view text);
template <>
nlohmann::json json_or_discarded(std::string_view text);
template <>
nlohmann::ordered_json json_or_discarded(std::string_view text);

// The value on one line, without a newline. UTF-8; invalid bytes become U+FFFD. Escapes U+0085,
// U+2028 and U+2029, because many readers end a line there (str.splitlines() of Python, httpx).
std::string dump_line(const nlohmann::json& value);
std::string dump_ordered_line(const nlohmann::ordered_json& value);

}  // namespace tandem
