// Fields beside the text of a log line, for formats that have any (--log-format json).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <utility>

namespace tandem {

// While it lives, lines that this thread logs have the fields of an object. Not nested.
class LogFields {
 public:
  // Makes the object; called for each line of a format that has fields, and for no other.
  using Make = std::function<nlohmann::ordered_json()>;
  explicit LogFields(Make make) : make_(std::move(make)) { current() = &make_; }
  ~LogFields() { current() = nullptr; }
  LogFields(const LogFields&) = delete;
  LogFields& operator=(const LogFields&) = delete;

  // The fields of the line that is being formatted; null: none. (The logging thread writes the
  // log.)
  static const Make*& current() {
    thread_local const Make* make = nullptr;
    return make;
  }

 private:
  const Make make_;
};

}  // namespace tandem
