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

}  // namespace tandem
