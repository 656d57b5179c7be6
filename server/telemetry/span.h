// Spans and attributes, as OpenTelemetry has them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::server {

using AttributeValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

struct Span {
  enum class Kind { kInternal = 1, kServer = 2 };  // OTLP's numbers

  std::string trace_id = {}, span_id = {}, parent_id = {};  // hexadecimal; parent_id may be empty
  std::string name;
  Kind kind = Kind::kInternal;
  int64_t begin = 0, end = 0;  // nanoseconds since 1970
  Attributes attributes = {};
  bool failed = false;
  std::string failure = {};  // what an operator is to read
};

}  // namespace tandem::server
