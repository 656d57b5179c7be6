// What is wrong with a grammar, without the name of the field that it came in.
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"

namespace tandem {

class GrammarError : public std::runtime_error {
 public:
  GrammarError(ErrorKind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

inline GrammarError wrong_grammar(const std::string& message) {
  return {ErrorKind::kInvalidRequest, message};
}
inline GrammarError unsupported_grammar(const std::string& message) {
  return {ErrorKind::kNotSupported, message};
}
// It would take more memory or time than a request may have.
inline GrammarError grammar_explodes(const std::string& what) {
  return {ErrorKind::kResource, "too large: " + what};
}

}  // namespace tandem
