// A text that is computed in parts: where it is cut, and how the answers become one text again.
// Plain functions of strings: no tokenizer, no model.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// How a text is cut. kAuto: not at all where it fits the model, else into sentences.
enum class Split { kNone, kAuto, kSentences, kParagraphs };

// How answers are merged. kJoin: one behind another, with the white space between the parts.
// kSummary: they are the text of one more request, until there is one answer.
enum class Merge { kJoin, kSummary };

// Whether the model takes a text as a whole.
using FitsModel = std::function<bool(std::string_view text)>;

struct DocumentPart {
  std::string before;  // white space of the document, between the part before and this one
  std::string text;
};

struct SplitDocument {
  std::vector<DocumentPart> parts;
  std::string after;  // white space behind the last part
};

// The parts of a text for kSentences or kParagraphs (a paragraph is a line). A paragraph that does
// not fit is cut into sentences. A sentence that does not fit is cut at a possible line break, else
// between characters. The parts with the white space around them are the text, byte for byte.
// `language` as for sentences_of().
SplitDocument split_document(std::string_view text, Split split, const std::string& language,
                             const FitsModel& fits);

// The fewest chunks of whole sentences that fit the model, in order, each as the text has it.
std::vector<std::string> chunks_of(std::string_view text, const std::string& language,
                                   const FitsModel& fits);

// Appends the answer to a part: behind what stood before the part, without white space of its own
// at either end. Between two sentences of a line, a script that writes spaces gets one where the
// source had none, and one that writes none gets none. An empty answer leaves no space of its own.
void append_answer(std::string& document, const std::string& before, std::string_view answer);

}  // namespace tandem
