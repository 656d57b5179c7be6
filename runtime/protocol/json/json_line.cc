#include "runtime/protocol/json/json_line.h"

#include <string>

#include "base/error.h"
#include "runtime/protocol/json/constraint_reader.h"

namespace tandem {

using nlohmann::json;

namespace {
constexpr int kMaxDepth = 64;
constexpr size_t kMaxQuoted = 300;
}  // namespace

json parse_json_line(std::string_view line) {
  bool too_deep = false;
  const auto depth_limit = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) too_deep = true;
    return depth <= kMaxDepth;  // deeper parts are dropped, not stored
  };
  // The parser would take a NUL for the end of the text, whatever follows.
  if (const size_t at = line.find('\0'); at != std::string_view::npos)
    throw InputError(ErrorKind::kInvalidRequest,
                     "not valid JSON: a NUL byte at byte " + std::to_string(at + 1));
  json value;
  try {
    value = json::parse(line, depth_limit);
  } catch (const json::exception& e) {
    std::string what = e.what();
    const size_t colon = what.find("] ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    // It quotes a whole string, however long that is.
    if (what.size() > kMaxQuoted) what = what.substr(0, kMaxQuoted) + "...";
    throw InputError(ErrorKind::kInvalidRequest, "not valid JSON: " + what);
  }
  if (too_deep)
    throw InputError(ErrorKind::kInvalidRequest,
                     "JSON is nested deeper than " + std::to_string(kMaxDepth) + " levels");
  keep_order_of_schemas(line, value);
  return value;
}

}  // namespace tandem
