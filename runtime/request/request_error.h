// Why a request is refused, as it travels to a client.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// More than the server takes now. retry_after: seconds until there is likely to be room.
class OverloadError : public InputError {
 public:
  OverloadError(const std::string& message, double retry_after, const std::string& param = {})
      : InputError(ErrorKind::kOverloaded, message, param), retry_after_(retry_after) {}
  double retry_after() const { return retry_after_; }

 private:
  double retry_after_;
};

// A text of more tokens than the model has positions for. In OpenAI's words: its clients, and what
// falls back to another model, look for them.
class ContextLengthError : public InputError {
 public:
  // advice: what to do besides, as a sentence; or nothing.
  ContextLengthError(const std::string& field, int64_t positions, int64_t tokens,
                     const std::string& advice = {});
};

// A copy that is of the error's own class.
std::shared_ptr<InputError> copy_of(const InputError& error);

proto::Error to_proto(const InputError& error);
// The error again; one of a type that is not ours is kUnavailable (the client's own, of its
// connection).
InputError to_input_error(const proto::Error& error);
ErrorKind kind_named(const std::string& api_name);

}  // namespace tandem
