#include "launcher/bench/answer.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings/printable.h"

namespace tandem::bench {
namespace {

using nlohmann::json;

constexpr size_t kMostMessageBytes = 300;

bool has_text(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() && !it->get_ref<const std::string&>().empty();
}

bool has_value(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && !it->is_null() && !(it->is_structured() && it->empty());
}

void fail(BenchRequest& request, const char* kind, const std::string& message) {
  if (request.failed()) return;  // the first is the reason
  request.failure = kind;
  request.message = message;
}

bool brings_text(const json& delta) {
  for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"})
    if (has_text(delta, key)) return true;
  return has_value(delta, "tool_calls");
}

int number(const json& object, const char* key, const char* other) {
  for (const char* name : {key, other}) {
    const auto it = object.find(name);
    if (it != object.end() && it->is_number()) return it->get<int>();
  }
  return -1;
}

std::string message_of(const json& error) {
  if (error.is_string()) return error;
  if (!error.is_object()) return json_text(error);
  for (const char* key : {"message", "detail", "type"})
    if (has_text(error, key)) return error[key];
  return json_text(error);
}

}  // namespace

std::string error_message(const std::string& body) {
  const json parsed = json_or_discarded<json>(body);
  std::string text = body;
  if (parsed.is_object()) {
    const auto error = parsed.find("error");
    text = message_of(error != parsed.end() && !error->is_null() ? *error : parsed);
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  return printable(text.substr(0, kMostMessageBytes + 1), kMostMessageBytes);
}

void Answer::take(std::string_view bytes, double time, BenchRequest& request) {
  if (kind_ == Kind::kUnknown) {
    const size_t first = bytes.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return;
    kind_ = bytes[first] == '{' || bytes[first] == '[' ? Kind::kWhole : Kind::kEvents;
  }
  if (kind_ == Kind::kWhole) {
    rest_ += bytes;
    return;
  }
  for (size_t newline; (newline = bytes.find('\n')) != std::string_view::npos;) {
    rest_ += bytes.substr(0, newline);
    bytes.remove_prefix(newline + 1);
    if (!rest_.empty() && rest_.back() == '\r') rest_.pop_back();
    take_line(rest_, time, request);
    rest_.clear();
  }
  rest_ += bytes;
}

void Answer::take_line(std::string_view line, double time, BenchRequest& request) {
  if (line.empty()) {
    if (!data_.empty()) take_event(data_, time, request);
    data_.clear();
  } else if (line.substr(0, 5) == "data:") {
    line.remove_prefix(line.substr(0, 6) == "data: " ? 6 : 5);
    if (!data_.empty()) data_ += '\n';
    data_ += line;
  }  // else a comment, or a field that does not matter here
}

void Answer::take_event(const std::string& data, double time, BenchRequest& request) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const json event = json_or_discarded<json>(data);
  if (!event.is_object())
    return fail(request, "stream", "an event is not a JSON object: " + printable(data, 80));
  if (has_value(event, "error"))
    return fail(request, "error event", printable(message_of(event["error"]), kMostMessageBytes));
  if (has_value(event, "usage")) take_usage(event["usage"], request);
  if (has_text(event, "type")) {  // OpenAI's own transcriptions
    const std::string type = event["type"];
    done_ = done_ || type == "transcript.text.done";
    if (type == "transcript.text.delta" || (done_ && request.events == 0)) request.take_event(time);
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return;
  // Several choices in one event came at one time.
  for (const json& choice : *choices)
    if (choice.is_object()) take_choice(choice, time, request);
}

void Answer::take_choice(const json& choice, double time, BenchRequest& request) {
  const bool is_end = has_value(choice, "finish_reason");
  finish_reason_ = finish_reason_ || is_end;
  const auto delta = choice.find("delta");
  const bool is_delta = delta != choice.end() && delta->is_object();
  const bool is_empty = !has_text(choice, "text") && !(is_delta && brings_text(*delta));
  if (is_empty && is_end) {
    bare_ends_.push_back(time);
    return;
  }
  if (is_empty && request.first < 0 && is_delta && has_text(*delta, "role")) return;
  request.take_event(time);
}

void Answer::take_usage(const json& usage, BenchRequest& request) {
  if (!usage.is_object()) return;
  if (const int n = number(usage, "prompt_tokens", "input_tokens"); n >= 0)
    request.input_tokens = n;
  int n = number(usage, "completion_tokens", "output_tokens");
  if (n < 0 && api_ == Api::kEmbeddings) n = 0;
  if (n < 0) return;
  request.output_tokens = n;
  has_usage_ = true;
}

void Answer::take_whole(double time, BenchRequest& request) {
  const json object = json_or_discarded<json>(rest_);
  if (!object.is_object())
    return fail(request, "stream", "the answer is not a JSON object: " + printable(rest_, 80));
  if (has_value(object, "error"))
    return fail(request, "error", printable(message_of(object["error"]), kMostMessageBytes));
  if (!object.contains("choices") && !object.contains("data") && !object.contains("text"))
    return fail(request, "stream", "the answer has no choices, data or text");
  if (has_value(object, "usage")) take_usage(object["usage"], request);
  request.last = time;
  done_ = true;
}

void Answer::end(double time, BenchRequest& request) {
  if (kind_ == Kind::kWhole) {
    take_whole(time, request);
  } else {
    if (!rest_.empty()) take_line(rest_, time, request);
    take_line({}, time, request);  // the last event need not have an empty line behind it
    // An end of its own is a token's (the end token's) if more tokens are counted than came.
    for (const double end : bare_ends_)
      if (end >= request.last &&
          (has_usage_ ? request.output_tokens > request.events : request.events == 0))
        request.take_event(end);
    if (!complete() && !request.failed())
      fail(request, "stream",
           request.events == 0 ? "it ended without a token"
                               : "it broke off, with neither a finish_reason nor [DONE]");
    if (request.events == 0 && !request.failed()) fail(request, "stream", "it had no token");
  }
  request.is_counted = !has_usage_ && api_ != Api::kEmbeddings;
  if (request.is_counted) request.output_tokens = request.events;
}

}  // namespace tandem::bench
