// Fields beside the text of a log line, for formats that have any (--log-format json).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tandem {

// As long as it lives, lines that this thread logs have the fields of the object. Not nested.
class LogFields {
 public:
  // The object outlives this one.
  explicit LogFields(const nlohmann::ordered_json& fields) { current() = &fields; }
  ~LogFields() { current() = nullptr; }
  LogFields(const LogFields&) = delete;
  LogFields& operator=(const LogFields&) = delete;

  // Those of the line that is being formatted; null: it has none. (The log is written by the thread
  // that logs.)
  static const nlohmann::ordered_json*& current() {
    thread_local const nlohmann::ordered_json* fields = nullptr;
    return fields;
  }
};

}  // namespace tandem
