// What a server answers, as it comes: server-sent events with the time of each, or one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/bench/api.h"
#include "launcher/bench/report.h"

namespace tandem::bench {

// Fills one BenchRequest from the body of an answer with status 200.
//
// An event that brings text counts as a token's. So does one that brings none, if the server shows
// it as a choice (special tokens have no text), but for two kinds: the role in front of a chat, and
// an end that has nothing but its finish_reason, unless the usage counts a token for it.
class Answer {
 public:
  explicit Answer(Api api) : api_(api) {}

  // time: when the bytes came; an event has that of its last byte.
  void take(std::string_view bytes, double time, BenchRequest& request);
  // The body has ended. Sets what the request failed with, if it did.
  void end(double time, BenchRequest& request);
  // The server has said that nothing more comes.
  bool complete() const { return done_ || finish_reason_; }

 private:
  void take_line(std::string_view line, double time, BenchRequest& request);
  void take_event(const std::string& data, double time, BenchRequest& request);
  void take_choice(const nlohmann::json& choice, double time, BenchRequest& request);
  void take_usage(const nlohmann::json& usage, BenchRequest& request);
  void take_whole(double time, BenchRequest& request);

  Api api_;
  enum class Kind { kUnknown, kEvents, kWhole } kind_ = Kind::kUnknown;
  std::string rest_;  // of a line of events, or the object so far
  std::string data_;  // of the event so far
  std::vector<double> bare_ends_;
  bool done_ = false, finish_reason_ = false, has_usage_ = false;
};

// The message in an error's body as OpenAI, FastAPI and others write it; else its beginning.
std::string error_message(const std::string& body);

}  // namespace tandem::bench
