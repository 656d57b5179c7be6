#include "runtime/request/request_error.h"

namespace tandem {

ContextLengthError::ContextLengthError(const std::string& field, int64_t positions, int64_t tokens,
                                       const std::string& advice)
    : InputError(ErrorKind::kResource,
                 field + ": This model's maximum context length is " + std::to_string(positions) +
                     " tokens. However, you requested " + std::to_string(tokens) +
                     " tokens. Please reduce its length" + (advice.empty() ? "." : advice),
                 field) {}

std::shared_ptr<InputError> copy_of(const InputError& error) {
  if (const auto* overload = dynamic_cast<const OverloadError*>(&error))
    return std::make_shared<OverloadError>(*overload);
  if (const auto* length = dynamic_cast<const ContextLengthError*>(&error))
    return std::make_shared<ContextLengthError>(*length);
  return std::make_shared<InputError>(error);
}

proto::Error to_proto(const InputError& error) {
  proto::Error out;
  out.set_type(api_name(error.kind()));
  out.set_message(error.what());
  out.set_param(error.param());
  if (dynamic_cast<const ContextLengthError*>(&error) != nullptr)
    out.set_code("context_length_exceeded");
  if (const auto* overload = dynamic_cast<const OverloadError*>(&error))
    out.set_retry_after(overload->retry_after());
  return out;
}

ErrorKind kind_named(const std::string& name) {
  for (const ErrorKind kind :
       {ErrorKind::kInvalidRequest, ErrorKind::kInvalidModel, ErrorKind::kNotSupported,
        ErrorKind::kResource, ErrorKind::kNotFound, ErrorKind::kOverloaded, ErrorKind::kUnavailable,
        ErrorKind::kTimeout, ErrorKind::kInternal})
    if (name == api_name(kind)) return kind;
  return ErrorKind::kUnavailable;
}

InputError to_input_error(const proto::Error& error) {
  return InputError(kind_named(error.type()), error.message(), error.param());
}

}  // namespace tandem
