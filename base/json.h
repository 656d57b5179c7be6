// JSON of unknown origin: bounded in size and depth, errors with line and column; and JSON to
// strangers: on one line, whatever they take for the end of one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tandem {

// Parses a file of at most 128 MB, nested at most 200 deep. Throws InputError naming the file (and
// the line and the column). Of duplicate keys the last one wins, as in Python.
nlohmann::json load_json(const std::filesystem::path& file);

// The same of a file that Python's json may have written: NaN, Infinity and -Infinity are numbers.
nlohmann::json load_python_json(const std::filesystem::path& file);

// As load_json() for text that is in memory; `where` names it in errors.
nlohmann::json parse_json(std::string_view text, const std::string& where);
nlohmann::json parse_python_json(std::string_view text, const std::string& where);

// Why nlohmann rejected a text, without its prefix, printable and short: "line 2, column 5: ...".
std::string json_error(std::string_view text, const nlohmann::json::exception& error, size_t byte);

// The value on one line, without its end: UTF-8, in which invalid bytes are U+FFFD, and U+0085,
// U+2028 and U+2029 are escaped, at which many readers end a line (str.splitlines() of Python,
// httpx).
std::string dump_line(const nlohmann::json& value);
std::string dump_ordered_line(const nlohmann::ordered_json& value);

}  // namespace tandem
