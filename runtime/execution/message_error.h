// What is wrong in a message, and in which field of it.
#pragma once

#include <stdexcept>
#include <string>

namespace tandem {

// A field of a message: list[index].name, or name alone. Text is made only when there is an error.
struct MessageField {
  const char* list;
  int index;
  const char* name;

  std::string text() const {
    if (list == nullptr) return name;
    return std::string(list) + "[" + std::to_string(index) + "]" + (*name ? "." : "") + name;
  }
};

// In a part of a message; SequenceTable::apply() says in which part.
struct MessageError : std::runtime_error {
  MessageError(const MessageField& field, const std::string& message)
      : std::runtime_error(field.text() + ": " + message) {}
  MessageError(const char* name, const std::string& message)
      : MessageError(MessageField{nullptr, 0, name}, message) {}
};

}  // namespace tandem
