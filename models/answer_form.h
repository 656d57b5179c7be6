// What an answer is besides a text, as HuggingFace's processor of the model reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/answers/located_text.h"

namespace tandem {

struct AnswerForm {
  enum class Kind : uint8_t {
    kText,      // nothing besides
    kTags,      // text/answers/tag_tree.h
    kMarkdown,  // text/answers/page_markdown.h
    kPlaces,    // text/answers/located_text.h
  };
  Kind kind = Kind::kText;
  // Of kPlaces: the task, under which the answer stands, and what it is made of.
  std::string task = {};
  LocatedForm places = LocatedForm::kPureText;
  std::vector<std::string> banned_phrases = {};
  double area_threshold = 0;

  bool needs_size() const { return kind == Kind::kPlaces && places != LocatedForm::kPureText; }
};

// HuggingFace's class that prepares the model's inputs: processor_class of processor_config.json,
// preprocessor_config.json or tokenizer_config.json; "" where none says it.
std::string processor_class(const std::filesystem::path& directory);

}  // namespace tandem
