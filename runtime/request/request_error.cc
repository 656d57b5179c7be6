#include "runtime/request/request_error.h"

namespace tandem {

proto::Error to_proto(const InputError& error) {
  proto::Error out;
  out.set_type(api_name(error.kind()));
  out.set_message(error.what());
  out.set_param(error.param());
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
