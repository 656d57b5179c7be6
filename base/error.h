// Bad input: a file, a flag, a request. The message names the file, tensor or field, the value
// found and the value expected. Caught at the edge (command line, one request).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace tandem {

// The kind of mistake; also the "type" of an error object in JSON (api_name()).
enum class ErrorKind {
  kInvalidRequest,  // a field of a request, or a flag
  kInvalidModel,    // a file of a checkpoint directory
  kNotSupported,    // valid, but not built (yet)
  kResource,        // does not fit the memory or the positions that there are
  kNotFound,        // no such request (any more)
  kOverloaded,      // more requests than the server takes; later it may
  kUnavailable,     // the server is draining, or its workers cannot be had
  kTimeout,         // the request's deadline has passed
  kInternal,        // the server's fault: the request crashed its workers
};

inline const char* api_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidRequest: return "invalid_request_error";
    case ErrorKind::kInvalidModel: return "invalid_model_error";
    case ErrorKind::kNotSupported: return "not_supported_error";
    case ErrorKind::kResource: return "resource_error";
    case ErrorKind::kNotFound: return "not_found_error";
    case ErrorKind::kOverloaded: return "overloaded_error";
    case ErrorKind::kUnavailable: return "unavailable_error";
    case ErrorKind::kTimeout: return "timeout_error";
    case ErrorKind::kInternal: return "internal_error";
  }
  return "internal_error";
}

class InputError : public std::runtime_error {
 public:
  InputError(ErrorKind kind, const std::string& message, std::string param = {})
      : std::runtime_error(without_nul(message)), kind_(kind), param_(std::move(param)) {}

  ErrorKind kind() const { return kind_; }
  // The field, flag, tensor or file at fault; empty when there is no single one.
  const std::string& param() const { return param_; }

 private:
  // Messages quote input; what() would end at a NUL byte.
  static std::string without_nul(std::string message) {
    for (size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at))
      message.replace(at, 1, "\\0");
    return message;
  }

  ErrorKind kind_;
  std::string param_;
};

inline InputError invalid_request(const std::string& param, const std::string& message) {
  return InputError(ErrorKind::kInvalidRequest, param + ": " + message, param);
}
inline InputError invalid_model(const std::string& where, const std::string& message) {
  return InputError(ErrorKind::kInvalidModel, where + ": " + message, where);
}
inline InputError not_supported(const std::string& param, const std::string& message) {
  return InputError(ErrorKind::kNotSupported, param + ": " + message, param);
}

}  // namespace tandem
