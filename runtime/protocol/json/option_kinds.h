// Kinds of values that parameters have: how one is read into its field, and its bounds. For the
// table of options_reader.cc.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/option_values.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::option_kinds {

inline constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

using Field = google::protobuf::FieldDescriptor;

// Reads a value that is not null into its field; checks one that is there. Both throw InputError.
struct Kind {
  std::function<void(const nlohmann::json&, const OptionSource&, const Field*,
                     proto::GenerationOptions&)>
      read;
  std::function<void(const proto::GenerationOptions&, const Field*, const std::string& name)>
      check = {};
};

Kind integer(int64_t lo, int64_t hi);
Kind number(NumberBounds range);
Kind boolean();
// The vocabulary of a request's is compared by the engine; the model's own is at hand.
Kind token();
// Checkpoints have ids here that the model cannot produce; those of requests are checked.
Kind descriptive_token();
// vLLM's number of alternatives. OpenAI's booleans: true is 0 (the token's own), false is none.
Kind logprobs();
Kind truncation();
Kind seed();
Kind salt();
// One of these words.
Kind one_of(std::vector<std::string> words);
// Of a language or a task. Two spellings of one parameter have to agree.
Kind short_name(const char* other_spelling = nullptr);
Kind early_stopping();
// What the text has to be, by any of its names: two of them contradict each other.
Kind constraint();

// Of a field that is a message.
template <class Message>
Kind message(Message (*read)(const nlohmann::json&, const OptionSource&),
             void (*check)(const Message&, const std::string&) = nullptr) {
  Kind kind;
  kind.read = [read](const nlohmann::json& value, const OptionSource& source, const Field* field,
                     proto::GenerationOptions& out) {
    static_cast<Message&>(*proto::GenerationOptions::GetReflection()->MutableMessage(&out, field)) =
        read(value, source);
  };
  if (check != nullptr)
    kind.check = [check](const proto::GenerationOptions& options, const Field* field,
                         const std::string& name) {
      check(static_cast<const Message&>(
                proto::GenerationOptions::GetReflection()->GetMessage(options, field)),
            name);
    };
  return kind;
}

}  // namespace tandem::option_kinds
