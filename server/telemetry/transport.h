// How messages reach a collector. The launcher has the real one, tests have their own.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace tandem::server {

// What became of a message.
struct Delivery {
  enum class Result {
    kTaken,
    kRefused,  // for good: the same message would be refused again
    kFailed,   // for now
  };
  Result result = Result::kTaken;
  std::string why = {};     // not taken
  std::string answer = {};  // the body's beginning
  std::optional<std::chrono::milliseconds> retry_after = {};
};

class OtlpTransport {
 public:
  virtual ~OtlpTransport() = default;
  // Blocks, but not beyond a time limit of its own. One thread.
  virtual Delivery send(const std::string& json) = 0;
  // From now on no send() goes on for longer than this. Any thread.
  virtual void end_within(std::chrono::milliseconds time) = 0;
  // For the log: without anything secret.
  virtual std::string address() const = 0;
};

}  // namespace tandem::server
