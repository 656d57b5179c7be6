// What is wrong with a file, in words that follow its name: "is no image".
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"

namespace tandem::decoder {

class DecodeError : public std::runtime_error {
 public:
  DecodeError(ErrorKind kind, const std::string& message)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

inline DecodeError unreadable(const std::string& why) {
  return DecodeError(ErrorKind::kInvalidRequest, why);
}
// More than is taken.
inline DecodeError too_large(const std::string& why) {
  return DecodeError(ErrorKind::kResource, why);
}

}  // namespace tandem::decoder
