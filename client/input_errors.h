// Errors of a request, found before it is sent.
#pragma once

#include "base/error.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

inline proto::Error to_message(const InputError& error) {
  proto::Error out;
  out.set_type(api_name(error.kind()));
  out.set_message(error.what());
  out.set_param(error.param());
  return out;
}

}  // namespace tandem::client
